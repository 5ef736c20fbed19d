"""How results are compared, and how cases are run."""

import contextlib
import zlib

import numpy as np

import fgrad
from fgrad import dtypes
from fgrad.core import from_numpy
from tests.derivatives import as_tuple
from tests.table.case import is_inexact, wide

WIDE = tuple(np.dtype(d) for d in ("float64", "complex128", "int64", "uint64"))


def rng_of(*key):
    """Random numbers that depend on the case only."""
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def precision(*dtypes):
    """enable_x64 where one of the dtypes needs it."""
    return fgrad.enable_x64() if any(np.dtype(d) in WIDE for d in dtypes) else contextlib.nullcontext()


def x64_for(case, dtype):
    fixed = [s.dtype_for(dtype) for s in case.args]
    return precision(dtype, *fixed, *[o for o in (case.out if isinstance(case.out, tuple) else (case.out,)) if not isinstance(o, str)])


def arrays(xs):
    return [from_numpy(np.asarray(x)) for x in xs]


def run(fun, *xs):
    """fun's results as a tuple of fgrad arrays."""
    return as_tuple(fun(*xs))


def eps_of(dtype):
    return float(dtypes.finfo(dtype).eps) if is_inexact(dtype) else 0.0


def assert_close(got, want, ulps, scale=1.0, label="", eps=None):
    """|got - want| <= ulps * eps(got's dtype) * (|want| + scale); NaN, infinities and integers must be equal."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, f"{label}: shape {got.shape}, expected {want.shape}"
    if not is_inexact(got.dtype) or not ulps:
        np.testing.assert_array_equal(_plain(got), _plain(want.astype(got.dtype)), err_msg=label)
        return
    eps = eps_of(got.dtype) if eps is None else eps
    smallest = 4 * float(dtypes.finfo(got.dtype).smallest_subnormal)
    with np.errstate(all="ignore"):
        rounded = _plain(want.astype(got.dtype))
    got = _plain(got)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(got[~finite], rounded[~finite], err_msg=label)
    error = np.abs(got - want.astype(got.dtype))[finite]
    allowed = ulps * eps * (np.abs(want) + scale)[finite] + smallest
    if not (error <= allowed).all():
        np.testing.assert_allclose(got, rounded, rtol=ulps * eps, atol=ulps * eps * scale, err_msg=label)
        worst = float((error / allowed).max())
        raise AssertionError(f"{label}: error {worst:.3g} times the allowed one; got {got}, expected {rounded}")


def _plain(x):
    """16-bit floats as float32, which NumPy compares and prints well; other dtypes as they are; inexact ones in double."""
    return x.astype(wide(x.dtype)) if is_inexact(x.dtype) else x


def assert_equal_with_signs(got, want, label):
    """Special values: NaN where want is NaN, the same infinities, zeros of the same sign."""
    zero = want == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]), err_msg=f"{label}: sign of zero")


def max_abs(*xs):
    """The largest finite magnitude among arrays, at least 1."""
    out = 1.0
    for x in xs:
        x = np.abs(_plain(np.asarray(x)).astype(complex)) if np.asarray(x).dtype != dtypes.float0 else np.zeros(0)
        out = max(out, float(x[np.isfinite(x)].max(initial=0)))
    return out


def layouts(x):
    """x as arrays of other strides, without changing its values."""
    x = np.asarray(x)
    if x.ndim == 0:
        return [("scalar", from_numpy(x, copy=False))]
    backwards = np.ascontiguousarray(x[::-1])[::-1]
    spaced = np.repeat(x, 2, -1)[..., ::2]
    return [
        ("column-major", from_numpy(np.asfortranarray(x), copy=False)),
        ("reversed", from_numpy(backwards, copy=False)),
        ("spaced", from_numpy(spaced, copy=False)),
        ("NumPy, spaced", spaced),
    ]
