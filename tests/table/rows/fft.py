"""Discrete Fourier transforms."""

import numpy as np

from fgrad.ops.fft import FftType, fft
from tests.table.case import COMPLEX, F32, F64, Case, typed

NUMPY = {"fft": np.fft.fftn, "ifft": np.fft.ifftn, "rfft": np.fft.rfftn, "irfft": np.fft.irfftn}


def transform(kind, shape, lengths):
    """A transform to `lengths`, of an input of that shape or half of it."""
    axes = tuple(range(-len(lengths), 0))
    own = (*lengths[:-1], lengths[-1] // 2 + 1) if kind == "irfft" else lengths
    return Case(
        lambda x: fft(x, FftType[kind.upper()], lengths),
        (typed(*shape, *own),),
        lambda x: NUMPY[kind](x, lengths, axes),
        name=f"{kind} {shape} {lengths}",
        dtypes=(F32, F64) if kind == "rfft" else COMPLEX,
        out={"rfft": "complex", "irfft": "real"}.get(kind, "same"),
        linear=((0,),),
        ulps=16,
    )


SHAPES = (((), (6,)), ((2,), (5,)), ((), (3, 4)), ((2,), (2, 3, 3)), ((3,), (1,)))
ROWS = {"fft": [transform(kind, *s) for kind in NUMPY for s in SHAPES]}
