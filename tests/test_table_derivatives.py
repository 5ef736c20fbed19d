"""Every primitive's row of the table: derivatives of two orders, transposes, and how both meet jit, vmap and narrow dtypes."""

import numpy as np
import pytest

import fgrad
from tests.derivatives import as_tuple, check_derivatives, check_transpose, random_like
from tests.table import CASES, ids
from tests.table.case import BF16, COMPLEX, F16, F32, F64, is_inexact
from tests.table.compare import arrays, assert_close, max_abs, rng_of, run, x64_for


def inexact_dtype(case):
    """The widest inexact dtype that the case takes, or bool."""
    return next((d for d in (F64, COMPLEX[1], F32, COMPLEX[0]) if d in case.dtypes), np.dtype(bool))


def parts(case, xs):
    """(function of the differentiable arguments with the inexact results only, those arguments)."""
    wrt = case.differentiable()

    def fun(*moving):
        full = list(xs)
        for i, m in zip(wrt, moving):
            full[i] = m
        return tuple(o for o in as_tuple(case.fun(*full)) if is_inexact(np.dtype(o.dtype)))

    return fun, [xs[i] for i in wrt]


SMOOTH = [(n, c) for n, c in CASES if inexact_dtype(c) in (F64, COMPLEX[1]) and c.differentiable() and c.modes and c.tangent is None]
ROUNDED = [(n, c) for n, c in CASES if c.tangent is not None]
REVERSE = [(n, c) for n, c in SMOOTH if "rev" in c.modes]
CONSTANT = [(n, c) for n, c in CASES if c.wrt == () and c.args and is_inexact(inexact_dtype(c))]
LINEAR = [(n, c, group) for n, c in CASES for group in c.linear]
NARROW = [(n, c, d) for n, c in REVERSE for d in (F32, F16, BF16) if d in c.dtypes]


@pytest.mark.parametrize("name, case", SMOOTH, ids=ids(SMOOTH))
def test_derivatives(name, case):
    """jvp against differences, vjp against jvp, and both of both."""
    with fgrad.enable_x64():
        fun, xs = parts(case, case.sample(rng_of(name, case.name), inexact_dtype(case)))
        check_derivatives(fun, *xs, order=case.order, modes=case.modes)


COMPLEX_CASES = [(n, c) for n, c in SMOOTH if COMPLEX[1] in c.dtypes and F64 in c.dtypes]


@pytest.mark.parametrize("name, case", COMPLEX_CASES, ids=ids(COMPLEX_CASES))
def test_complex_derivatives(name, case):
    with fgrad.enable_x64():
        fun, xs = parts(case, case.sample(rng_of(name, case.name), COMPLEX[1]))
        check_derivatives(fun, *xs, order=1, modes=case.modes)


@pytest.mark.parametrize("name, case", ROUNDED, ids=ids(ROUNDED))
def test_derivatives_of_roundings(name, case):
    with fgrad.enable_x64():
        xs = case.sample(rng_of(name, case.name), inexact_dtype(case))
        ts = [random_like(rng_of(name), x) for x in xs]
        out, t = fgrad.jvp(case.fun, tuple(xs), tuple(ts))
        np.testing.assert_array_equal(np.asarray(t), case.tangent(xs, ts))
        ct = random_like(rng_of(name, "ct"), out)
        back = np.asarray(fgrad.vjp(case.fun, *xs)[1](ct)[0])
        assert np.sum(back * ts[0]).real == pytest.approx(np.sum(ct * np.asarray(t)).real, rel=1e-2)


@pytest.mark.parametrize("name, case", CONSTANT, ids=ids(CONSTANT))
def test_derivative_is_zero(name, case):
    """Where no derivative is declared, tangents are zeros of the result's dtype, or float0."""
    dtype = inexact_dtype(case)
    with x64_for(case, dtype):
        xs = case.sample(rng_of(name, case.name), dtype)
        moving = [i for i, x in enumerate(xs) if is_inexact(x.dtype)]
        fun = lambda *m: run(case.fun, *[m[moving.index(i)] if i in moving else x for i, x in enumerate(xs)])
        args = tuple(xs[i] for i in moving)
        outs, ts = fgrad.jvp(fun, args, tuple(np.ones_like(a) for a in args))
        for o, t in zip(outs, ts):
            assert t.dtype == (o.dtype if is_inexact(o.dtype) else fgrad.float0)
            assert t.dtype == fgrad.float0 or not np.asarray(t).any()


@pytest.mark.parametrize("name, case, group", LINEAR, ids=[f"{i}-{g}" for i, (_, _, g) in zip(ids([t[:2] for t in LINEAR]), LINEAR)])
def test_transpose(name, case, group):
    """<A x, y> = <x, A^T y>"""
    for dtype in [d for d in (F64, COMPLEX[1]) if d in case.dtypes] or [F32]:
        with fgrad.enable_x64():
            xs = case.sample(rng_of(name, case.name), dtype)

            def fun(*moving, xs=xs):
                full = list(xs)
                for i, m in zip(group, moving):
                    full[i] = m
                return tuple(o for o in run(case.fun, *full) if is_inexact(np.dtype(o.dtype)))

            check_transpose(fun, *[xs[i] for i in group], tol=1e-9 if case.tangent is None else 1e-2)


@pytest.mark.parametrize("name, case", REVERSE, ids=ids(REVERSE))
def test_gradient_under_jit_and_vmap(name, case):
    """jit(vjp) is vjp; vmap(vjp) is a loop of it."""
    rng, dtype = rng_of(name, case.name), inexact_dtype(case)
    with fgrad.enable_x64():
        fun, xs = parts(case, case.sample(rng, dtype))
        examples = [parts(case, case.sample(rng, dtype))[1] for _ in range(2)]
        cts = tuple(random_like(rng, o) for o in fun(*arrays(xs)))

        def pull(*a):
            return fgrad.vjp(fun, *a)[1](cts)

        want = pull(*xs)
        for g, w in zip(fgrad.jit(pull)(*xs), want, strict=True):
            assert_close(g, w, 64, max_abs(*want), "jit")
        each = [pull(*e) for e in examples]
        scale = max_abs(*[g for e in each for g in e])
        got = fgrad.vmap(pull)(*[np.stack(e) for e in zip(*examples)])
        for k, g in enumerate(got):
            assert_close(g, np.stack([np.asarray(e[k]) for e in each]), 64, scale, "vmap")


@pytest.mark.parametrize("name, case, dtype", NARROW, ids=[f"{i}-{d}" for i, (_, _, d) in zip(ids([t[:2] for t in NARROW]), NARROW)])
def test_gradient_in_narrow_dtypes(name, case, dtype):
    """Gradients have their argument's dtype, and the values that double precision gives them, to that dtype's precision."""
    rng = rng_of(name, case.name)
    full = case.sample(rng, dtype)
    with fgrad.enable_x64():
        wide_fun, wide_xs = parts(case, [x.astype(F64) if is_inexact(x.dtype) else x for x in full])
        outs = wide_fun(*arrays(wide_xs))
        cts = tuple(random_like(rng, o).astype(COMPLEX[0] if o.dtype in COMPLEX else dtype) for o in outs)
        want = fgrad.vjp(wide_fun, *wide_xs)[1](tuple(c.astype(o.dtype) for c, o in zip(cts, outs)))
    with x64_for(case, dtype):
        fun, xs = parts(case, full)
        outs, pull = fgrad.vjp(fun, *xs)
        got = pull(tuple(c.astype(o.dtype) for c, o in zip(cts, outs)))
    scale = max_abs(*want)
    for x, g, w in zip(xs, got, want, strict=True):
        assert g.dtype == x.dtype
        assert_close(g, w, case.ct_ulps, scale, str(dtype), eps=max(float(np.finfo(np.float32).eps), _eps(dtype)))


def _eps(dtype):
    return {F32: 2.0**-23, F16: 2.0**-10, BF16: 2.0**-7}[dtype]
