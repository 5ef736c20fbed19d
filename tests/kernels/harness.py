"""Run one kernel on NumPy arrays through a one-instruction program (no core, no compiler)."""

import numpy as np

from fgrad._kernels import array, creation, executor, gemm


class _Aval:
    def __init__(self, shape, dtype):
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)


class _Array(array.ArrayBase):
    __slots__ = ()


def run_kernel(kernel, inputs, outputs, ip=(), fp=()):
    """kernel: a (run, check) pair; inputs: NumPy arrays of any strides; outputs: (shape, dtype), or
    (shape, dtype, slot_shape, slot_strides) for an output seen through a view.  Returns a list of NumPy arrays."""
    if array.get_array_class() is None:
        array.set_array_class(_Array)
    arrays = [creation.from_numpy(x, _Aval(x.shape, x.dtype), False) for x in inputs]
    slots, insts, outs, codes = [], [], [], []
    for i, a in enumerate(arrays):
        shape = a.aval.shape
        strides = a.strides_or_none or contiguous(shape)
        slots.append((a.code, shape, strides, 1 + i, 0))
    for i, (shape, dtype, *view) in enumerate(outputs):
        code = array.CODES[np.dtype(dtype)]
        slot_shape, strides = view if view else (tuple(shape), contiguous(shape))
        slots.append((code, slot_shape, strides, 1 + len(arrays) + i, 0))
        outs.append((_Aval(shape, dtype), -1))
        codes.append(code)
    n = len(arrays)
    insts.append((0, kernel, list(range(n)), list(range(n, n + len(outs))), list(ip), list(fp), [], None))
    program = executor.Program(
        slots=slots,
        insts=insts,
        in_avals=[a.aval for a in arrays],
        in_strides=[a.strides_or_none for a in arrays],
        in_codes=[a.code for a in arrays],
        consts=[],
        outs=outs,
        out_codes=codes,
        arena_bytes=0,
    )
    return [r.numpy_view() for r in program.run(arrays)]


def contiguous(shape):
    strides, acc = [], 1
    for d in reversed(shape):
        strides.append(acc)
        acc *= d
    return tuple(reversed(strides))


def without_tiles(f, *args):
    """f(*args), computed without the processor's tile unit."""
    gemm.use_amx(False)
    try:
        return f(*args)
    finally:
        gemm.use_amx(True)
