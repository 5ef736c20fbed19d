"""Every primitive's row of the table: values, layouts, sizes, special values, types, jit, vmap."""

import numpy as np
import pytest

import fgrad
from fgrad.core import from_numpy, registry, stage, to_array
from fgrad.core.primitive import Primitive
from fgrad.dtypes import finfo
from tests.table import CASES, ROWS, ids
from tests.table.case import BF16, F16, F32, F64, FLOATS
from tests.table.checks import check_jit, check_value, check_vmap
from tests.table.compare import arrays, assert_close, assert_equal_with_signs, layouts, max_abs, precision, rng_of, run, x64_for

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
    check_value(case, dtype, rng_of(name, case.name, dtype))


@every_case
def test_layouts(name, case):
    """Strided, reversed and column-major arguments give what contiguous ones give, of 16-bit floats too."""
    for dtype in [d for d in (F32, BF16) if d in case.dtypes] or case.dtypes[:1]:
        check_layouts(name, case, dtype)


def check_layouts(name, case, dtype):
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


@pytest.mark.parametrize("name, case", FREE, ids=ids(FREE))
def test_large_views(name, case):
    """Results of transposed and strided views of many tiles are those of contiguous arrays, bit for bit."""
    dtype = F32 if F32 in case.dtypes else case.dtypes[0]
    xs = case.with_shape((3, 67, 130)).sample(rng_of(name, case.name), dtype)
    with x64_for(case, dtype):
        want = run(case.fun, *arrays(xs))
        for k, order in enumerate(((2, 0, 1), (0, 2, 1), (1, 0, 2))):
            views = [_view(x, order, (i + k) % 2) if x.ndim else x for i, x in enumerate(xs)]
            views = [from_numpy(v, copy=False) for v in views]
            for g, w in zip(run(case.fun, *views), want):
                np.testing.assert_array_equal(np.asarray(g), np.asarray(w), err_msg=str(order))


def _view(x, order, permuted):
    """x over memory in another order of its axes, or with gaps along the middle one."""
    return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order)) if permuted else np.repeat(x, 2, 1)[:, ::2]


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("name, case", SPECIAL, ids=ids(SPECIAL))
def test_special_values(name, case):
    """NaN, infinities, signed zeros and the smallest denormal, alone and in all pairs."""
    for dtype in [d for d in case.dtypes if d in FLOATS]:
        values = np.append(SPECIALS, float(finfo(dtype).smallest_subnormal))
        mesh = np.meshgrid(*[values] * len(case.args), indexing="ij")
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
        check_jit(case, dtype, rng_of(name, case.name))


@every_case
def test_vmap(name, case):
    """vmap over every axis of every argument, and over sets of arguments, is a stack of single calls."""
    check_vmap(case, case.main_dtype, rng_of(name, case.name))


def test_a_row_for_every_primitive_and_no_other():
    assert sorted(ROWS) == sorted(registry)
    assert all(ROWS.values())


# while is transposed by refusing; checks and debug callbacks have no results to take cotangents from.
NOT_TRANSPOSED = ("check", "index_bounds", "while", "debug_callback")


@pytest.mark.parametrize("name", sorted(registry))
def test_rules(name):
    """Every rule is there; a transpose where a case is linear, and a linear case where there is a transpose."""
    prim, linear = registry[name], any(case.linear for case in ROWS[name])
    for rule in ("abstract_eval", "jvp", "batch", "lower"):
        assert getattr(prim, rule) is not None, f"{name} has no {rule} rule"
    if name not in NOT_TRANSPOSED:
        assert linear == (prim.transpose is not None)


def is_linear_in(case, i):
    """Whether the case's results are, in numbers, linear in argument i."""
    xs = case.sample(rng_of("linear"), F64)
    other = case.sample(rng_of("linear", 2), F64)[i]

    def at(x):
        outs = run(case.fun, *arrays(xs[:i]), from_numpy(np.asarray(x)), *arrays(xs[i + 1 :]))
        return [np.asarray(o, float) for o in outs if np.dtype(o.dtype).kind == "f"]

    a, b, both = at(xs[i]), at(other), at(2 * xs[i] + other)
    return all(np.allclose(2 * x + y, z, rtol=1e-12, atol=1e-12) for x, y, z in zip(a, b, both))


@pytest.mark.parametrize("name", [n for n in sorted(ROWS) if registry[n].transpose is None])
def test_without_a_transpose_is_not_linear(name):
    """A primitive that has no transpose is linear in none of its arguments, whatever its row declares."""
    linear = {}
    with fgrad.enable_x64():
        for case in [c for c in ROWS[name] if F64 in c.dtypes and "rev" in c.modes]:
            for i in case.differentiable():
                if np.prod(case.args[i].shape) > 3:  # of a few elements even an extremum may be linear
                    linear.setdefault(i, []).append(is_linear_in(case, i))
    assert not any(map(all, linear.values())), f"{name} is linear: {linear}"
