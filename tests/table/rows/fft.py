"""Discrete Fourier transforms."""

import numpy as np

from fgrad.ops.fft import FftType, fft
from tests.table.case import COMPLEX, F32, F64, Case, typed

NUMPY = {"fft": np.fft.fftn, "ifft": np.fft.ifftn, "rfft": np.fft.rfftn, "irfft": np.fft.irfftn}


def transform(kind, shape, lengths, real=False):
    """A transform to `lengths`, of an input of that shape or half of it; real: of real numbers, as rfft."""
    real = real or kind == "rfft"
    axes = tuple(range(-len(lengths), 0))
    own = (*lengths[:-1], lengths[-1] // 2 + 1) if kind == "irfft" else lengths
    return Case(
        lambda x: fft(x, FftType[kind.upper()], lengths),
        (typed(*shape, *own),),
        lambda x: NUMPY[kind](x, lengths, axes),
        name=f"{kind} {shape} {lengths}" + " real" * real,
        dtypes=(F32, F64) if real else COMPLEX,
        out="complex" if real else "real" if kind == "irfft" else "same",
        linear=((0,),),
        ulps=16,
    )


SHAPES = (((), (6,)), ((2,), (5,)), ((), (3, 4)), ((2,), (2, 3, 3)), ((3,), (1,)))
ROWS = {"fft": [transform(kind, *s) for kind in NUMPY for s in SHAPES] + [transform("fft", *s, real=True) for s in SHAPES]}
