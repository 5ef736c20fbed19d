"""What a row of the table is made of: cases and the samplers of their arguments."""

from dataclasses import dataclass, replace

import numpy as np

from fgrad import dtypes

F16, BF16, F32, F64 = (np.dtype(d) for d in (np.float16, dtypes.BFLOAT16, np.float32, np.float64))
FLOATS = (F32, F64, F16, BF16)
SIGNED = tuple(np.dtype(f"int{b}") for b in (32, 8, 16, 64))
UNSIGNED = tuple(np.dtype(f"uint{b}") for b in (32, 8, 16, 64))
COMPLEX = (np.dtype(np.complex64), np.dtype(np.complex128))
BOOL = (np.dtype(bool),)
KINDS = {"f": FLOATS, "i": SIGNED, "u": UNSIGNED, "c": COMPLEX, "b": BOOL}


def of_kinds(kinds):
    """All dtypes of these kinds, the ones in `kinds` first coming first."""
    return tuple(d for k in kinds for d in KINDS[k])


def is_float(dtype):
    return dtype in FLOATS


def is_inexact(dtype):
    return dtype in FLOATS or dtype in COMPLEX


def wide(dtype):
    """The dtype in which a reference works: doubles for inexact ones, the same for others."""
    return F64 if is_float(dtype) else COMPLEX[1] if dtype in COMPLEX else dtype


@dataclass(frozen=True)
class Sample:
    """An argument: values of one shape in [lo, hi), of the case's dtype or of a fixed one.

    distinct: evenly spread values in random order, so that no two are close (for sorts and extrema).
    wide: float32 where the case's dtype is a 16-bit float.
    """

    shape: tuple = (3, 4)
    lo: float = -2.0
    hi: float = 2.0
    dtype: np.dtype | None = None
    distinct: bool = False
    nonzero: bool = False
    wide: bool = False

    def dtype_for(self, dtype):
        if self.dtype is not None:
            return np.dtype(self.dtype)
        return F32 if self.wide and dtype in (F16, BF16) else dtype

    def __call__(self, rng, dtype):
        dtype = self.dtype_for(dtype)
        if dtype.kind == "b":
            return rng.integers(0, 2, self.shape).astype(bool)
        if dtype.kind in "iu":
            return self._integers(rng, dtype)
        if dtype.kind == "c":
            return (self._reals(rng) + 1j * self._reals(rng)).astype(dtype)
        return self._reals(rng).astype(dtype)

    def _integers(self, rng, dtype):
        lo, hi = (int(self.lo), int(self.hi)) if self.dtype is not None else (max(int(3 * self.lo), 0 if dtype.kind == "u" else -9), 9)
        if self.nonzero:
            x = rng.integers(1, hi, self.shape)
            return np.asarray(x if dtype.kind == "u" else x * rng.choice([-1, 1], self.shape)).astype(dtype)
        return np.asarray(rng.integers(lo, hi, self.shape)).astype(dtype)

    def _reals(self, rng):
        n = int(np.prod(self.shape))
        if self.distinct:
            return rng.permutation(np.linspace(self.lo, self.hi, n) if n else np.zeros(0)).reshape(self.shape)
        x = np.asarray(rng.uniform(self.lo, self.hi, self.shape))
        return np.where(np.abs(x) < 0.2, 0.2 + np.abs(x), x) if self.nonzero else x


def typed(*shape, **kw):
    """An argument of the case's dtype."""
    return Sample(shape, **kw)


def distinct(*shape, lo=-2.0, hi=2.0, **kw):
    return Sample(shape, lo, hi, distinct=True, **kw)


def ints(*shape, lo=0, hi, dtype=np.int32):
    """An argument of integers in [lo, hi), whatever the case's dtype."""
    return Sample(shape, lo, hi, np.dtype(dtype))


def bools(*shape):
    return Sample(shape, dtype=np.dtype(bool))


@dataclass(frozen=True)
class Case:
    """fun(*arrays) -> array or tuple of arrays, which runs the row's primitive; ref(*NumPy arrays) is the same in NumPy.

    ref gets inexact arguments in double precision unless native. out: the dtype of each result: "same", "wide", "real" (of a
    complex), "complex" (of a real) or a NumPy dtype.
    wrt: the arguments in which fun is differentiable (all float ones by default; () where the derivative is zero everywhere);
    linear: groups of arguments in which fun is jointly linear, each of which its transpose is tested for;
    modes: "fwd", "rev" or both; order: how many derivatives are tested. free: any shape does (elementwise).
    tangent(primals, tangents): the tangents, where finite differences cannot show them (roundings).
    ulps: the error allowed, in units of eps(dtype) * (|value| + scale); ct_ulps the same for derivatives in 32 and 16 bits.
    special: whether infinities, NaN and signed zeros follow ref.
    """

    fun: object
    args: tuple
    ref: object
    name: str = ""
    dtypes: tuple = FLOATS
    out: object = "same"
    wrt: tuple | None = None
    linear: tuple = ()
    modes: tuple = ("fwd", "rev")
    order: int = 2
    free: bool = False
    native: bool = False
    special: bool = False
    ulps: float = 4.0
    scale: float = 1.0
    ct_ulps: float = 32.0
    tangent: object = None

    def sample(self, rng, dtype):
        return [s(rng, dtype) for s in self.args]

    def with_shape(self, shape):
        """The case at another shape; rank-0 arguments stay so."""
        return replace(self, args=tuple(replace(s, shape=shape) if s.shape else s for s in self.args))

    def differentiable(self, dtype=F64):
        if self.wrt is not None:
            return tuple(self.wrt)
        return tuple(i for i, s in enumerate(self.args) if is_inexact(s.dtype_for(dtype)))

    @property
    def main_dtype(self):
        """float64 where the case takes floats, else its first dtype."""
        return F64 if F64 in self.dtypes else self.dtypes[0]

    def reference(self, arrays):
        """ref's results as a tuple of NumPy arrays."""
        with np.errstate(all="ignore"):
            out = self.ref(*[a if self.native else a.astype(wide(a.dtype)) for a in arrays])
        return tuple(map(np.asarray, out)) if isinstance(out, tuple) else (np.asarray(out),)

    def out_dtypes(self, n, dtype):
        outs = self.out if isinstance(self.out, tuple) else (self.out,) * n
        return [_out_dtype(o, dtype) for o in outs]


def _out_dtype(rule, dtype):
    if rule == "same":
        return dtype
    if rule == "wide":
        return F32 if dtype in (F16, BF16) else dtype
    if rule == "real":
        return {COMPLEX[0]: F32, COMPLEX[1]: F64}.get(dtype, dtype)
    if rule == "complex":
        return {F32: COMPLEX[0], F64: COMPLEX[1]}.get(dtype, dtype)
    return np.dtype(rule)
