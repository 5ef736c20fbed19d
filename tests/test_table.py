"""Every primitive's row of the table: values, layouts, sizes, special values, types, jit, vmap."""

import numpy as np
import pytest

import fgrad
from fgrad.core import from_numpy, registry, stage, to_array
from fgrad.core.primitive import Primitive
from tests.table import CASES, ROWS, ids
from tests.table.case import F16, F32, F64, FLOATS
from tests.table.compare import (
    arrays,
    assert_close,
    assert_equal_with_signs,
    layouts,
    max_abs,
    precision,
    rng_of,
    run,
    subsets,
    x64_for,
)

every_case = pytest.mark.parametrize("name, case", CASES, ids=ids(CASES))
TYPED = [(name, case, dtype) for name, case in CASES for dtype in case.dtypes]
FREE = [(name, case) for name, case in CASES if case.free]
SPECIAL = [(name, case) for name, case in CASES if case.special]
SPECIALS = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.0])


def primitives_of(jaxpr):
    """Names of the primitives in a jaxpr and those inside it."""
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        for p in eqn.params.values():
            for q in p if isinstance(p, (tuple, list)) else (p,):
                if hasattr(q, "jaxpr"):
                    yield from primitives_of(q.jaxpr)


@every_case
def test_case_runs_its_primitive(name, case, monkeypatch):
    seen, bind = set(), Primitive.bind

    def spy(self, *args, **params):
        seen.add(self.name)
        return bind(self, *args, **params)

    monkeypatch.setattr(Primitive, "bind", spy)
    with x64_for(case, case.main_dtype):
        avals = [to_array(x).aval for x in case.sample(rng_of(name, case.name), case.main_dtype)]
        closed = stage(lambda *xs: list(run(case.fun, *xs)), avals, name)
    assert name in seen | set(primitives_of(closed.jaxpr))


@pytest.mark.parametrize("name, case, dtype", TYPED, ids=[f"{i}-{d}" for i, (_, _, d) in zip(ids([t[:2] for t in TYPED]), TYPED)])
def test_value(name, case, dtype):
    xs = case.sample(rng_of(name, case.name, dtype), dtype)
    with x64_for(case, dtype):
        got = run(case.fun, *arrays(xs))
    want = case.reference(xs)
    assert len(got) == len(want)
    for g, w, d in zip(got, want, case.out_dtypes(len(got), dtype)):
        assert g.dtype == d, f"result of dtype {g.dtype}, expected {d}"
        assert_close(g, w, case.ulps, case.scale and max_abs(w) * case.scale, name)


@every_case
def test_layouts(name, case):
    """Strided, reversed and column-major arguments give what contiguous ones give."""
    dtype = F32 if F32 in case.dtypes else case.dtypes[0]
    xs = case.sample(rng_of(name, case.name), dtype)
    with x64_for(case, dtype):
        want = run(case.fun, *arrays(xs))
        for i, x in enumerate(xs):
            for label, other in layouts(x):
                got = run(case.fun, *arrays(xs[:i]), other, *arrays(xs[i + 1 :]))
                for g, w in zip(got, want):
                    assert_close(g, w, 4, max_abs(w), f"argument {i} {label}")


@pytest.mark.parametrize("shape", [(1,), (0,), (2, 0, 3), (5, 1, 3), (1, 1), (67,)], ids=str)
@pytest.mark.parametrize("name, case", FREE, ids=ids(FREE))
def test_sizes(name, case, shape):
    case = case.with_shape(shape)
    xs = case.sample(rng_of(name, case.name, shape), case.main_dtype)
    with x64_for(case, case.main_dtype):
        for g, w in zip(run(case.fun, *arrays(xs)), case.reference(xs)):
            assert_close(g, w, case.ulps, case.scale, str(shape))


@pytest.mark.parametrize("name, case", SPECIAL, ids=ids(SPECIAL))
def test_special_values(name, case):
    """NaN, infinities and signed zeros, alone and in all pairs."""
    for dtype in [d for d in case.dtypes if d in FLOATS]:
        mesh = np.meshgrid(*[SPECIALS] * len(case.args), indexing="ij")
        xs = [np.asarray(m.ravel(), dtype) for m in mesh]
        with precision(dtype):
            got = run(case.fun, *arrays(xs))
        for g, w in zip(got, case.reference(xs)):
            assert_close(g, w, case.ulps, case.scale, f"{name} of {dtype}")
            if g.dtype == dtype:
                assert_equal_with_signs(np.asarray(g).astype(float), np.asarray(w).astype(float), f"{name} of {dtype}")


@every_case
def test_types_without_running(name, case):
    """eval_shape tells shape, dtype and weak type of the results, of strongly and of weakly typed arguments."""
    for dtype in (case.main_dtype, F16) if F16 in case.dtypes else (case.main_dtype,):
        xs = case.sample(rng_of(name, case.name), dtype)
        with x64_for(case, dtype):
            for weak in (False, True):
                args = [from_numpy(x, weak_type=weak and x.dtype != bool) for x in xs]
                got = run(case.fun, *args)
                want = run(lambda *a: fgrad.eval_shape(lambda *b: run(case.fun, *b), *a), *args)
                assert [(g.shape, g.dtype, g.weak_type) for g in got] == [(w.shape, w.dtype, w.weak_type) for w in want]


@every_case
def test_jit(name, case):
    """A compiled call gives what an eager one gives."""
    dtypes = [d for d in (F32, F64) if d in case.dtypes] or case.dtypes[:1]
    for dtype in dtypes:
        xs = case.sample(rng_of(name, case.name), dtype)
        with x64_for(case, dtype):
            want = run(case.fun, *arrays(xs))
            jitted = fgrad.jit(lambda *a: run(case.fun, *a))
            for args in (arrays(xs), [np.asarray(x, order="F") for x in xs]):
                for g, w in zip(jitted(*args), want, strict=True):
                    assert (g.dtype, g.shape, g.weak_type) == (w.dtype, w.shape, w.weak_type)
                    assert_close(g, w, 4, max_abs(w) if case.scale else 0.0, f"jit of {name}")


@every_case
def test_vmap(name, case):
    """vmap over every axis of every argument, and over sets of arguments, is a stack of single calls."""
    rng, dtype = rng_of(name, case.name), case.main_dtype
    n = len(case.args)
    with x64_for(case, dtype):
        for chosen in subsets(n):
            size = 1 if len(chosen) == n > 1 else 3
            base = arrays(case.sample(rng, dtype))
            examples = [case.sample(rng, dtype) for _ in range(size)]
            for axes in _axes(case, chosen, rng):
                in_axes = tuple(axes[chosen.index(i)] if i in chosen else None for i in range(n))
                args = [base[i] if a is None else np.stack([e[i] for e in examples], a) for i, a in enumerate(in_axes)]
                each = [run(case.fun, *arrays_or(base, e, chosen)) for e in examples]
                for out_axis in (0, -1):
                    got = fgrad.vmap(lambda *a: run(case.fun, *a), in_axes=in_axes, out_axes=out_axis)(*args)
                    for k, g in enumerate(got):
                        want = np.stack([np.asarray(e[k]) for e in each], out_axis)
                        assert_close(g, want, 16, max_abs(want), f"in_axes {in_axes}, out_axes {out_axis}")


def _axes(case, chosen, rng):
    """Every batch axis of a single argument; a random and the first ones for several."""
    ndim = [len(case.args[i].shape) for i in chosen]
    if len(chosen) == 1:
        return [(a,) for a in range(ndim[0] + 1)]
    return {(0,) * len(chosen), tuple(int(rng.integers(0, d + 1)) for d in ndim)}


def arrays_or(base, example, chosen):
    return [from_numpy(np.asarray(e)) if i in chosen else b for i, (b, e) in enumerate(zip(base, example))]


def test_a_row_for_every_primitive_and_no_other():
    assert sorted(ROWS) == sorted(registry)
    assert all(ROWS.values())
