"""fgrad.numpy against NumPy: one row per call, eager and under jit, for values, shape and (32-bit) dtype.

tests/peers/test_numpy.py runs the same rows against jax.numpy, with weak types.
"""

from typing import NamedTuple

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import dtypes

R = np.random.default_rng(7)
F = R.normal(size=(3, 4)).astype(np.float32)
G = R.normal(size=(3, 4)).astype(np.float32)
SQ = R.normal(size=(4, 4)).astype(np.float32)
V = R.normal(size=7).astype(np.float32)
W = R.normal(size=4).astype(np.float32)
P = np.abs(V) + np.float32(0.1)
I = R.integers(-5, 6, (3, 4)).astype(np.int32)
J = R.integers(1, 7, (3, 4)).astype(np.int32)
U8 = R.integers(0, 255, 11).astype(np.uint8)
B = np.array([True, False, True, True, False])
M = F > 0
C = (F + 1j * G).astype(np.complex64)
CV = (V + 1j * V[::-1] ** 2).astype(np.complex64)
N = F.copy()
N[0, 1] = N[2, 3] = N[1, 0] = np.nan
S = np.array([1.0, -1.0, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, 0.1], np.float32)
D = np.array([3, 1, 3, 2, 2, 9, 1], np.int32)
D2 = np.array([2, 5, 3, 3], np.int32)
T = np.array([0.0, 1.0, 2.5, 4.0], np.float32)
Z = np.zeros((0, 3), np.float32)
X3 = R.normal(size=(2, 3, 4)).astype(np.float32)


class Row(NamedTuple):
    name: str
    args: tuple
    kwargs: dict
    oracle: object  # NumPy's function where it has another name or signature
    rtol: float
    jit: bool  # False where the result's shape depends on values
    dtype: bool  # False where NumPy's dtype is not JAX's: the peers check it

    def __str__(self):
        def show(v):
            if isinstance(v, (tuple, list)):
                return f"[{', '.join(map(show, v))}]"
            return f"{v.dtype}{list(v.shape)}" if isinstance(v, np.ndarray) else getattr(v, "__name__", repr(v))

        given = [*map(show, self.args), *[f"{k}={show(v)}" for k, v in self.kwargs.items()]]
        return f"{self.name}({', '.join(given)})"[:110]


ROWS: list[Row] = []


def row(name, *args, oracle=None, rtol=2e-5, jit=True, dtype=True, **kwargs):
    ROWS.append(Row(name, args, kwargs, oracle, rtol, jit, dtype))


def rows(names, *args, **kw):
    for name in names.split():
        row(name, *args, **kw)


# --- elementwise --------------------------------------------------------------------------------------------------------
rows("exp exp2 expm1 sin cos tan tanh sinh cosh arctan arcsinh sign square abs negative positive fabs cbrt sinc i0 deg2rad rad2deg", F)
rows("degrees radians floor ceil trunc rint fix isfinite isnan isinf isposinf isneginf signbit logical_not conj real imag isreal", F)
rows("sqrt log log2 log10 log1p reciprocal arccosh", np.abs(F) + 1)
rows("arcsin arccos arctanh", F / 4)
rows("floor trunc rint fix signbit isfinite isnan isinf isposinf isneginf spacing nan_to_num", S)
row("ceil", S[:7])
rows(
    "exp sin cos sinh cosh tanh square sqrt log abs sign conj real imag angle iscomplex isreal negative reciprocal log1p expm1",
    C,
    rtol=1e-4,
)
rows("tan arcsin arccos arctan arcsinh arccosh arctanh exp2 log2 log10", C, rtol=2e-4)
rows("abs sign square negative invert bitwise_not bitwise_count isfinite", I, dtype=False)
rows("sqrt exp sin deg2rad", J, dtype=False)
row("reciprocal", J, oracle=lambda x: np.reciprocal(x.astype(np.float32)))
rows("abs invert logical_not square isfinite", B, dtype=False)
rows("add subtract multiply divide true_divide floor_divide remainder mod fmod maximum minimum fmax fmin arctan2 hypot", F, G)
rows(
    "logaddexp logaddexp2 copysign nextafter heaviside equal less greater_equal not_equal logical_and logical_xor float_power", np.abs(F), G
)
rows("add subtract multiply floor_divide remainder fmod maximum minimum gcd lcm bitwise_and bitwise_or bitwise_xor", I, J)
rows("left_shift right_shift power", J, J % 5)
rows("add multiply subtract divide equal not_equal power", C, C[::-1].copy(), rtol=2e-4)
rows("power float_power", np.abs(F), 2.5)
row("power", F, 3)
row("divmod", F, G)
row("divmod", I, J)
rows("frexp", S[:6])
row("modf", S[:4])
row("frexp", F * 1e-30)
row("modf", F * 7)
row("ldexp", F, I)
row("ldexp", np.array([1.0, 3.0, -5.0], np.float32), np.array([-149, 100, 127], np.int32))
row("nan_to_num", S, nan=1.0, posinf=9.0, neginf=-9.0)
row("round", F * 10, 1)
row("round", I, 0)
row("around", C, 2)
row("clip", F, -0.5, 0.5)
row("clip", I, None, 2)
row("where", M, F, 0)
row("where", M, I, G, dtype=False)
row("isclose", S, S + np.float32(1e-9), equal_nan=True)
row("isclose", I, I + 1)
row("allclose", F, F)
rows("array_equal array_equiv", I, I)
row("array_equiv", I[:1], I)
row("iscomplexobj", C)
row("isrealobj", C)
row("select", [M, ~M & (G > 0)], [F, G], 5.0)
row("choose", I % 3, [F[0], G[0], SQ[0]], mode="wrap")
row("choose", np.array([0, 2, 1], np.int32), [D[:3], D[1:4], D[2:5]], jit=False)
row("unwrap", np.cumsum(np.abs(V)) * 3)
row("unwrap", np.array([1, 5, 2, 9], np.int32), period=4, dtype=False)

# --- reductions ---------------------------------------------------------------------------------------------------------
rows("sum prod mean var std max min any all ptp argmax argmin median", F)
rows("sum prod mean var std max min any all ptp argmax argmin median", F, axis=1)
rows("sum mean var std max min any all median nanmedian", X3, axis=(0, 2), keepdims=True)
rows("sum mean prod any count_nonzero", X3, axis=-2)
rows("sum prod mean max min any all argmax ptp count_nonzero", I, dtype=False)
rows("sum prod any all mean", B, dtype=False)
rows("sum mean prod var std any all", C, rtol=2e-4)
rows("max min ptp", C, axis=1)
rows("nansum nanprod nanmean nanvar nanstd nanmax nanmin nanargmax nanargmin nanmedian nancumsum nancumprod", N)
rows("nansum nanprod nanmean nanvar nanstd nanmax nanmin nanargmax nanargmin nanmedian nancumsum nancumprod", N, axis=1)
rows("nansum nanmean nanmax", N, axis=0, keepdims=True)
rows("sum mean var std prod", F, where=M, axis=1)
rows("max min", F, where=M, axis=1, initial=0.5)
rows("sum prod", F, initial=2.0, axis=0)
rows("max min", Z, axis=0, initial=1.0)
rows("sum prod any all", Z, axis=0)
rows("var std", F, ddof=1, axis=0)
row("sum", I, dtype=np.float32)
row("average", F, axis=0, weights=G[:, 0] ** 2)
row("average", F, weights=np.abs(G), returned=True)
rows("cumsum cumprod", F, axis=1)
rows("cumsum cumprod", I, dtype=False)
rows("cumulative_sum cumulative_prod", F, axis=1, include_initial=True)
rows("quantile nanquantile", F, 0.3)
rows("quantile nanquantile", F, np.array([0.1, 0.5, 1.0], np.float32), axis=1)
rows("quantile", X3, np.array([0.2, 0.9], np.float32), axis=(0, 2), keepdims=True)
rows("nanquantile nanpercentile", N, np.array([0.1, 0.75], np.float32), axis=1)
rows("quantile nanquantile", N, 0.5, axis=0)
rows("percentile", F, 37.0, axis=0)
for method in ("lower", "higher", "midpoint", "nearest", "inverted_cdf"):
    row("quantile", F, np.array([0.12, 0.61], np.float32), axis=1, method=method)
row("quantile", F, 0.4, axis=1, method="inverted_cdf", weights=np.abs(G))

# --- shape --------------------------------------------------------------------------------------------------------------
row("reshape", F, (2, -1))
row("reshape", F, (6, 2), order="F")
row("ravel", F, order="F")
rows("transpose ravel flip fliplr flipud rot90 squeeze atleast_2d atleast_3d matrix_transpose size ndim shape", F, dtype=False)
row("swapaxes", X3, 0, 2)
row("moveaxis", X3, 0, -1)
row("rollaxis", X3, 2)
row("rollaxis", X3, 0, 3)
row("expand_dims", F, (0, 2))
row("roll", F, 2)
row("roll", X3, (1, -2), (0, 2))
row("rot90", F, 3)
row("broadcast_to", W, (3, 4))
row("broadcast_arrays", F, W)
row("tile", F, (2, 1, 3))
row("repeat", F, 3, 1)
row("repeat", V, np.array([1, 0, 2, 3, 1, 1, 0], np.int32), jit=False)
row("concatenate", [F, G], 1)
row("concatenate", [F, I], None, dtype=False)
rows("stack vstack hstack dstack column_stack", [F, G])
row("stack", [F, G], -1)
row("block", [[F, G], [np.zeros((1, 4), np.float32), np.ones((1, 4), np.float32)]])
row("array_split", V, 3)
row("split", F, 2, 1)
row("split", V, [2, 5])
row("append", F, G, 0)
row("unstack", X3, axis=1)
row("resize", V, (3, 4))
row("insert", V, 2, np.float32(9))
row("insert", F, np.array([1, 3, 1], np.int32), G[:, :3], axis=1)
row("insert", F, slice(0, 3, 2), np.float32(5), axis=0)
row("delete", V, 2)
row("delete", F, slice(1, 3), axis=1)
row("delete", F, np.array([0, 2, 0], np.int32), axis=1, jit=False)
row("trim_zeros", np.array([0, 0, 1, 0, 2, 0], np.int32), jit=False)
rows("diag diagonal diagflat trace tril triu", SQ)
row("diag", V, 2)
row("diag", F, -1)
row("diagonal", X3, 1, 0, 2)
for _offset in (0, 1, -1, 2, -3, 9, -9):  # of neighbouring axes, with rows behind them
    row("diagonal", X3, _offset)
    row("diagonal", X3[None], _offset, 1, -2)
row("tril", X3, 1)
for mode in ("edge", "reflect", "symmetric", "wrap", "maximum", "minimum", "mean", "median", "constant", "empty"):
    row("pad", F, ((1, 2), (3, 0)), mode, oracle=None if mode != "empty" else lambda x, w, m: np.pad(x, w))
row("pad", V, (9, 12), "reflect")
row("pad", V, 20, "wrap")
row("pad", V, (9, 12), "symmetric", reflect_type="odd")
row("pad", V, (9, 15), "reflect", reflect_type="odd", rtol=1e-4)
row("pad", V, 3, "linear_ramp", end_values=(5.0, -4.0))
row("pad", I, 2, "linear_ramp", end_values=7, oracle=lambda *a, **k: np.floor(np.pad(a[0].astype(float), *a[1:], **k)).astype(np.int32))
row("pad", F, 2, "mean", stat_length=2)
row("pad", I, (1, 2), "constant", constant_values=((1, 2), (3, 4)))

# --- making -------------------------------------------------------------------------------------------------------------
row("arange", 2, 11, 3)
row("arange", 5.0)
row("linspace", 1.0, 2.0, 7)
row("linspace", F, G, 3, axis=1)
row("linspace", 0, 1, 4, endpoint=False, retstep=True)
row("logspace", 0.0, 2.0, 5)
row("geomspace", 1.0, 256.0, 9)
row("geomspace", -8.0, -1.0, 4)
row("eye", 3, 4, 1)
row("tri", 3, 4, -1)
row("identity", 3)
row("vander", V)
row("vander", D, 3, increasing=True)
row("full_like", F, 3)
row("indices", (2, 3))
row("meshgrid", V, W)
row("meshgrid", V, W, indexing="ij", sparse=True)
row("tril_indices", 4, 1)
row("triu_indices", 3, -1, 5)
rows("tril_indices_from triu_indices_from diag_indices_from", SQ)
row("diag_indices", 3, 3)
row("ix_", D[:2], D2[:3])
row("mask_indices", 3, np.triu, oracle=np.mask_indices, jit=False, dtype=False)
row("unravel_index", np.array([3, 22, 17], np.int32), (2, 3, 4))
row("ravel_multi_index", (D % 2, D % 3), (2, 3), mode="clip")
row("ravel_multi_index", (D, D), (2, 3), mode="wrap", order="F")
rows("bartlett blackman hamming hanning", 7)
row("kaiser", 9, 4.0)
row("fromfunction", lambda i, j: i * 10 + j, (2, 3), dtype=np.float32)
row("frombuffer", b"\x01\x02\x03\x04", np.uint8, offset=1)
row("fromstring", "1 2 3", np.int32, sep=" ")
row("array_str", D)
row("isscalar", 3.0)

# --- sorting, sets, histograms ------------------------------------------------------------------------------------------
rows("sort argsort", F)
rows("sort argsort", F, axis=0)
row("sort", D)
row("argsort", D, oracle=lambda a: np.argsort(a, kind="stable"))
row("sort", S)
row("sort_complex", C)
row("sort_complex", D, dtype=False)
row("lexsort", (D, -D))
row("searchsorted", np.sort(V), F)
row("searchsorted", np.sort(D), D2, side="right")
row("searchsorted", D, D2, sorter=np.argsort(D).astype(np.int32))
row("searchsorted", np.sort(CV), CV[::2].copy())
row("digitize", F, T)
row("digitize", F, T[::-1].copy(), right=True)
row("unique", D, jit=False)
row("unique", D, True, True, True, jit=False)
row("unique", I % 2, axis=0, return_index=True, return_inverse=True, return_counts=True, jit=False)
row("unique", np.array([np.nan, 1, np.nan, 0], np.float32), jit=False)
row("unique", np.array([np.nan, 1, np.nan, 0], np.float32), equal_nan=False, return_counts=True, jit=False)
rows("unique_all unique_counts unique_inverse", I, jit=False)
row("unique_values", I, oracle=np.unique, jit=False)
rows("union1d intersect1d setdiff1d setxor1d", D, D2, jit=False)
row("intersect1d", D, D2, return_indices=True, jit=False)
rows("isin", D, D2)
row("isin", F, F[0], invert=True)
row("isin", np.arange(50, dtype=np.int32), np.arange(0, 100, 2, dtype=np.int32))
row("bincount", D, jit=False)
row("bincount", D, V, minlength=12, jit=False)
row("histogram", F, 5, dtype=False)
row("histogram", V, T, weights=np.abs(V), density=True, dtype=False)
row("histogram", I, 4, (-4, 4), dtype=False)
row("histogram_bin_edges", V, 6)
row("histogram2d", V, V[::-1].copy(), [3, 4], dtype=False)
row("histogramdd", F, 3, dtype=False)
row("histogramdd", F, [2, 3, 2, T], density=True, dtype=False)
rows("nonzero argwhere flatnonzero", I, jit=False)
row("where", M, jit=False)
row("extract", M, F, jit=False)
row("compress", B[:4], F, axis=1, jit=False)
row("partition", V, 3, oracle=lambda a, k: np.sort(a))
row("argpartition", V, 3, oracle=lambda a, k: np.argsort(a))
row("take", F, np.array([1, 0, -1], np.int32), axis=1)
row("take_along_axis", F, np.argsort(F, 1).astype(np.int32), 1)

# --- products, calculus, polynomials ------------------------------------------------------------------------------------
rows("dot vdot inner outer kron", V, V[::-1].copy(), rtol=1e-4)
rows("dot matmul inner", F, SQ.T.copy(), rtol=1e-4)
rows("vdot outer dot", CV, CV[::-1].copy(), rtol=1e-4)
rows("dot matmul", I, J.T.copy(), dtype=False)
row("tensordot", X3, X3, ([0, 2], [0, 2]), rtol=1e-4)
row("cross", F[:, :3].copy(), G[:, :3].copy(), rtol=1e-4)
row("cross", F[:, :2].copy(), G[:, :3].copy(), oracle=lambda a, b: np.cross(np.pad(a, ((0, 0), (0, 1))), b), rtol=1e-4)
rows("vecdot", C, C[::-1].copy(), oracle=lambda a, b: np.sum(np.conj(a) * b, -1), rtol=1e-4)
row("vecdot", X3, F[:, None, :1].transpose(1, 0, 2).copy(), axis=1, oracle=lambda a, b, axis: np.sum(a * b, axis), rtol=1e-4)
row("matvec", X3, W, oracle=lambda a, b: a @ b, rtol=1e-4)
row("vecmat", C[0], SQ.astype(np.complex64), oracle=lambda a, b: np.conj(a) @ b, rtol=1e-4)
row("einsum", "ij,kj->ik", F, G, rtol=1e-4)
for mode in ("full", "same", "valid"):
    rows("convolve correlate", V, W, mode, rtol=1e-4)
    rows("convolve correlate", W, V, mode, rtol=1e-4)
    row("correlate", CV[:4], CV, mode, rtol=1e-4)
row("convolve", D, D2, dtype=False)
row("diff", F, 2)
row("diff", F, axis=0, prepend=0, append=G)
row("diff", B)
row("ediff1d", D, 99, -99)
row("gradient", F)
row("gradient", F, 2.0, axis=1)
row("gradient", F, np.array([0, 1, 3.5], np.float32), T, rtol=1e-4)
row("trapezoid", F)
row("trapezoid", F, T)
row("trapezoid", F, G, axis=0, rtol=1e-4)
row("interp", V, T, W)
row("interp", V, T, W, left=-1.0, right=7.0)
row("interp", V * 5, T[::-1].copy(), W, period=5.0, rtol=1e-4)
row("cov", F, rtol=1e-4)
row("cov", F, G, rowvar=False, rtol=1e-4)
row("cov", F, fweights=J[0], aweights=np.abs(W), rtol=1e-4)
row("cov", C, bias=True, rtol=1e-4)
row("cov", F.T, rowvar=False, fweights=J[0], aweights=np.abs(W), rtol=1e-4)
rows("corrcoef", F, rtol=1e-4)
row("corrcoef", C, rtol=1e-4)
row("poly", V, rtol=1e-3)
row("polyval", W, F, rtol=1e-4)
row("polyval", np.arange(20, dtype=np.float32), np.float32(0.5), rtol=1e-4)
row("polyval", D, 2, dtype=False)
rows("polyadd polysub polymul", V, W, rtol=1e-4)
row("polymul", D, D2, dtype=False)
row("polydiv", V, W, oracle=lambda u, v: (np.polydiv(u, v)[0], _padded(np.polydiv(u, v)[1], len(u))), rtol=1e-2)
row("polyder", V, 2)
row("polyint", V, 2, np.array([1.0, 2.0], np.float32))
row("packbits", U8 % 2)
row("packbits", M, axis=1, bitorder="little")
row("unpackbits", U8)
row("unpackbits", U8.reshape(1, -1), axis=1, count=30, bitorder="little")
row("unpackbits", U8, count=-3)
row("apply_along_axis", np.sort, 1, X3, oracle=np.apply_along_axis, dtype=False)
row("apply_along_axis", np.sort, 0, X3, oracle=np.apply_along_axis, dtype=False)
row("apply_over_axes", np.sum, X3, (0, 2), dtype=False)
row("piecewise", F, [F < 0, F > 1], [-1.0, lambda v: v * 2, 0.5])


def _padded(r, n):
    return np.concatenate([np.zeros(n - len(r)), r])


FUNCTIONS = {np.sort: jnp.sort, np.sum: jnp.sum, np.triu: jnp.triu}


def leaves(x):
    if isinstance(x, (tuple, list)):
        return [v for e in x for v in leaves(e)]
    return [x]


def dynamic(row):
    """Positions of the arguments to trace under jit: arrays and lists of arrays."""
    return [i for i, a in enumerate(row.args) if leaves(a) and all(isinstance(v, np.ndarray) for v in leaves(a))]


def arrays(x, to=jnp.asarray):
    """NumPy arrays in an argument as arrays, in NumPy's functions' place fgrad's."""
    if isinstance(x, (tuple, list)):
        return type(x)([arrays(v, to) for v in x])
    return to(x) if isinstance(x, np.ndarray) else x


def check(got, want, row, dtype):
    got, want = leaves(got), leaves(want)
    assert len(got) == len(want)
    for g, w in zip(got, want):
        if isinstance(w, (str, bool, int, tuple)) and not hasattr(g, "shape"):
            assert g == w
            continue
        w = np.asarray(w)
        assert g.shape == w.shape, (g.shape, w.shape)
        if dtype:
            assert g.dtype == dtypes.canonicalize_dtype(w.dtype), (g.dtype, w.dtype)
        np.testing.assert_allclose(np.asarray(g), w, rtol=row.rtol, atol=row.rtol if w.dtype.kind in "fc" else 0)


@pytest.mark.parametrize("row", ROWS, ids=[f"{i}-{r}" for i, r in enumerate(ROWS)])
def test_numpy(row):
    with np.errstate(all="ignore"):
        want = (row.oracle or getattr(np, row.name))(*row.args, **row.kwargs)
    args = [FUNCTIONS.get(a, a) if callable(a) else a for a in row.args]
    fun = getattr(jnp, row.name)
    check(fun(*arrays(args), **{k: arrays(v) for k, v in row.kwargs.items()}), want, row, row.dtype)
    if not row.jit:
        return
    places = dynamic(row)

    def call(values):
        full = list(args)
        for i, v in zip(places, values):
            full[i] = v
        return fun(*full, **{k: arrays(v) for k, v in row.kwargs.items()})

    first = leaves(call([arrays(args[i]) for i in places]))
    if places and all(hasattr(v, "aval") for v in first):
        check(fgrad.jit(call)([arrays(args[i]) for i in places]), want, row, row.dtype)
