"""Build VM programs for tests: constants, ops and outputs as Python tuples, run through the one-kernel harness."""

import numpy as np

from fgrad._kernels import array, creation, executor
from fgrad._kernels import elementwise as vm
from tests.kernels.harness import _Aval, contiguous, run_kernel

KERNEL = vm.KERNELS["vm"]
CODE = {np.dtype(k): v for k, v in array.CODES.items()}


def code(dtype):
    return CODE[np.dtype(dtype)]


def constant(value, dtype):
    raw = np.asarray(value, dtype).tobytes().ljust(16, b"\0")
    return code(dtype), int.from_bytes(raw[:8], "little", signed=True), int.from_bytes(raw[8:], "little", signed=True)


def encode(n_in, consts, ops, outs):
    """ops: (name, dtype, *operand registers); outs: (register, reduction name)."""
    ip = [n_in + len(consts) + len(ops), len(consts), len(ops)]
    for c in consts:
        ip += constant(*c)
    for k, (name, dtype, *args) in enumerate(ops):
        ip += [vm.OPCODES[name], code(dtype), n_in + len(consts) + k, *args, *[0] * (3 - len(args))]
    for reg, reduce in outs:
        ip += [reg, vm.REDUCTIONS[reduce]]
    return ip


def run(inputs, ops, outs, consts=(), shape=None):
    """inputs: arrays that broadcast to `shape` (given, or the shape of the broadcast).
    outs: (register, dtype) or (register, dtype, reduction, axes)."""
    if shape is None:
        shape = np.broadcast_shapes(*[x.shape for x in inputs])
    outputs, regs = [], []
    for reg, dtype, *red in outs:
        reduce, axes = red if red else ("none", ())
        regs.append((reg, reduce))
        if reduce == "none":
            outputs.append((shape, dtype))
            continue
        kept = tuple(1 if d in axes else n for d, n in enumerate(shape))
        result = tuple(n for d, n in enumerate(shape) if d not in axes)
        strides = tuple(0 if d in axes else s for d, s in enumerate(contiguous(kept)))
        outputs.append((result, dtype, shape, strides))
    views = [np.broadcast_to(x, shape) for x in inputs]
    return run_kernel(KERNEL, views, outputs, encode(len(inputs), list(consts), list(ops), regs))


def apply(name, dtype, *args, out=None):
    """One op on arrays: its result has dtype `out` (default: what RESULT says)."""
    if out is None:
        kind = vm.RESULT[name]
        real = {"complex64": "float32", "complex128": "float64"}
        made = {"float32": "complex64", "float64": "complex128"}
        n = np.dtype(dtype).name
        out = {"bool": "bool", "real": real.get(n, n), "complex": made.get(n, n)}.get(kind, n)
    return run([np.asarray(a) for a in args], [(name, dtype, *range(len(args)))], [(len(args), out)])[0]


def aliased(inputs, ops, targets, consts=()):
    """Run with output k written over input targets[k] (a donated argument)."""
    arrays = [creation.from_numpy(x.copy(), _Aval(x.shape, x.dtype), True) for x in inputs]
    n, slots = len(arrays), []
    for i, x in enumerate(inputs):
        slots.append((arrays[i].code, x.shape, contiguous(x.shape), 1 + i, 0))
    for _, target in targets:
        slots.append((arrays[target].code, inputs[target].shape, contiguous(inputs[target].shape), 1 + target, 0))
    ip = encode(n, list(consts), ops, [(reg, "none") for reg, _ in targets])
    inst = (0, KERNEL, list(range(n)), list(range(n, n + len(targets))), ip, [], [], None)
    avals = [a.aval for a in arrays]
    codes = [a.code for a in arrays]
    program = executor.Program(
        slots=slots,
        insts=[inst],
        in_avals=avals,
        in_strides=[None] * n,
        in_codes=codes,
        consts=[],
        outs=[(avals[t], t) for _, t in targets],
        out_codes=[arrays[t].code for _, t in targets],
        arena_bytes=0,
    )
    return [r.numpy_view() for r in program.run(arrays)]


def same(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(got, want)
    if got.dtype.kind == "f":
        zero = want == 0
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))
