"""Transformations that pass updates on and keep measurements of them in their state, under optax's names."""

from typing import Any, NamedTuple

from fgrad.optim.base import GradientTransformation, GradientTransformationExtraArgs, stateless, with_extra_args_support
from fgrad.optim.combining import chain
from fgrad.optim.scaling import ema


class SnapshotState(NamedTuple):
    """The last measurement, by its name."""

    measurement: Any


class MonitorState(NamedTuple):
    """The last measurements by their names, and the states of what measures."""

    measurements: Any
    measure_states: Any


def snapshot(measure_name, measure):
    """measure(updates) is in the state, under measure_name; at first that of the parameters."""

    def init(params):
        return SnapshotState({measure_name: measure(params)})

    def update(updates, state, params=None):
        return updates, SnapshotState({measure_name: measure(updates)})

    return GradientTransformation(init, update)


def monitor(measures):
    """The measurements of several: a dictionary of functions of the updates, or of transformations whose updates are measurements."""
    made = {k: with_extra_args_support(stateless(lambda u, _, m=m: m(u)) if callable(m) else m) for k, m in measures.items()}

    def init(params):
        return MonitorState({}, tuple(m.init(params) for m in made.values()))

    def update(updates, state, params=None, **extra_args):
        out = [m.update(updates, s, params, **extra_args) for m, s in zip(made.values(), state.measure_states)]
        return updates, MonitorState({k: value for k, (value, _) in zip(made, out)}, tuple(s for _, s in out))

    return GradientTransformationExtraArgs(init, update)


def measure_with_ema(measure, decay, debias=True, accumulator_dtype=None):
    """What `monitor` takes for the moving average of measure(updates)."""
    average = ema(decay, debias, accumulator_dtype)
    average = average._replace(init=lambda params, init=average.init: init(measure(params)))
    return chain(stateless(lambda updates, _: measure(updates)), average)
