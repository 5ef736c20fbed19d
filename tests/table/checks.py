"""Checks of one case: its value, its compiled call, its batches."""

import itertools

import numpy as np

import fgrad
from fgrad.core import from_numpy
from tests.table.compare import arrays, assert_close, max_abs, run, x64_for


def check_value(case, dtype, rng, place=None):
    """The case against its reference; place(array, rng) may give arguments other strides."""
    xs = case.sample(rng, dtype)
    with x64_for(case, dtype):
        got = run(case.fun, *(arrays(xs) if place is None else [place(x, rng) for x in xs]))
    want = case.reference(xs)
    assert len(got) == len(want)
    for g, w, d in zip(got, want, case.out_dtypes(len(got), dtype)):
        assert g.dtype == d, f"result of dtype {g.dtype}, expected {d}"
        assert_close(g, w, case.ulps, case.scale and max_abs(w) * case.scale, "value")


def check_jit(case, dtype, rng):
    """A compiled call, with arguments of two layouts, against an eager one."""
    xs = case.sample(rng, dtype)
    with x64_for(case, dtype):
        want = run(case.fun, *arrays(xs))
        jitted = fgrad.jit(lambda *a: run(case.fun, *a))
        for args in (arrays(xs), [np.asarray(x, order="F") for x in xs]):
            for g, w in zip(jitted(*args), want, strict=True):
                assert (g.dtype, g.shape, g.weak_type) == (w.dtype, w.shape, w.weak_type)
                assert_close(g, w, 4, max_abs(w) if case.scale else 0.0, "jit")


def check_vmap(case, dtype, rng):
    """vmap over every axis of every argument, and over sets of arguments, against a stack of single calls."""
    n = len(case.args)
    with x64_for(case, dtype):
        for chosen in _subsets(n):
            size = 1 if len(chosen) == n > 1 else 3
            base = arrays(case.sample(rng, dtype))
            examples = [arrays(case.sample(rng, dtype)) for _ in range(size)]
            each = [run(case.fun, *[e[i] if i in chosen else base[i] for i in range(n)]) for e in examples]
            for axes in _axes(case, chosen, rng):
                in_axes = tuple(axes[chosen.index(i)] if i in chosen else None for i in range(n))
                args = [
                    base[i] if a is None else from_numpy(np.stack([np.asarray(e[i]) for e in examples], a)) for i, a in enumerate(in_axes)
                ]
                for out_axis in (0, -1):
                    got = fgrad.vmap(lambda *a: run(case.fun, *a), in_axes=in_axes, out_axes=out_axis)(*args)
                    for k, g in enumerate(got):
                        want = np.stack([np.asarray(e[k]) for e in each], out_axis)
                        assert_close(g, want, 16, max_abs(want), f"in_axes {in_axes}, out_axes {out_axis}")


def _subsets(n):
    """Non-empty sets of argument positions: all of them for few arguments, else single ones and everything."""
    if n <= 3:
        return [c for k in range(1, n + 1) for c in itertools.combinations(range(n), k)]
    return [*[(i,) for i in range(n)], tuple(range(n))]


def _axes(case, chosen, rng):
    """Every batch axis of a single argument; the first and some random ones for several."""
    ndim = [len(case.args[i].shape) for i in chosen]
    if len(chosen) == 1:
        return [(a,) for a in range(ndim[0] + 1)]
    return {(0,) * len(chosen), tuple(int(rng.integers(0, d + 1)) for d in ndim)}
