"""Transformations one after another."""

from fgrad.optim.base import GradientTransformation, GradientTransformationExtraArgs, with_extra_args_support


def chain(*args):
    """Transformations one after another; the state is the tuple of theirs.

    Extra keyword arguments of the update go to the members that take them.

    >>> import fgrad
    >>> optimizer = fgrad.optim.chain(fgrad.optim.clip(1.0), fgrad.optim.scale(-0.5))
    >>> optimizer.update({"w": fgrad.numpy.asarray([3.0, -0.2])}, optimizer.init(None))[0]
    {'w': Array([-0.5,  0.1], dtype=float32)}
    """
    members = [with_extra_args_support(t) for t in args]

    def update(updates, state, params=None, **extra_args):
        if len(state) != len(members):
            raise ValueError(f"chain: the state has {len(state)} parts for {len(members)} transformations; make it with init(params)")
        new = []
        for member, part in zip(members, state):
            updates, part = member.update(updates, part, params, **extra_args)
            new.append(part)
        return updates, tuple(new)

    takes_extra = any(isinstance(t, GradientTransformationExtraArgs) for t in args)
    kind = GradientTransformationExtraArgs if takes_extra else GradientTransformation
    return kind(lambda params: tuple(t.init(params) for t in members), update)


def named_chain(*args):
    """Transformations one after another, given as (name, transformation); the state is a dictionary by name."""
    names = [name for name, _ in args]
    if len(set(names)) != len(names):
        raise ValueError(f"named_chain: the names must differ, got {names}")
    members = {name: with_extra_args_support(t) for name, t in args}

    def update(updates, state, params=None, **extra_args):
        new = {}
        for name, member in members.items():
            updates, new[name] = member.update(updates, state[name], params, **extra_args)
        return updates, new

    return GradientTransformationExtraArgs(lambda params: {name: t.init(params) for name, t in members.items()}, update)
