import numpy as np
import pytest

from fgrad._kernels import array, executor
from fgrad._kernels import optimizer as kernels
from tests.kernels.harness import run_kernel

K = kernels.KERNELS
TYPES = [np.float32, np.float64]
FP = [0.9, 0.999, 1e-8, 0.1, 1]


def data(shape, dtype):
    rng = np.random.default_rng(0)
    p, g, m, v = (rng.standard_normal(shape).astype(dtype) for _ in range(4))
    return [p, g, m * dtype(0.1), np.abs(v) * dtype(0.01)]


def scalars(dtype, lr=1e-2, step=3, scale=1.0, b1=0.9, b2=0.999):
    return [np.asarray(s, dtype) for s in (lr, 1 - b1**step, 1 - b2**step, scale)]


def reference(tensors, scale_args, fp):
    p, g, m, v = (a.astype(np.longdouble) for a in tensors)
    lr, b1c, b2c, gs = (a.astype(np.longdouble) for a in scale_args)
    b1, b2, eps, decay, decoupled = fp
    g = g * gs + (0 if decoupled else decay) * p
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    return p - lr * ((m / b1c) / (np.sqrt(v / b2c) + eps) + (decay if decoupled else 0) * p), m, v


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("fp", [FP, [0.9, 0.999, 1e-8, 0.1, 0], [0.0, 0.5, 1e-3, 0.0, 1]])
@pytest.mark.parametrize("shape", [(), (1,), (13,), (40, 7), (100003,)])
def test_step(shape, fp, dtype):
    tensors = [np.asarray(a) for a in data(shape, dtype)]
    extra = scalars(dtype, scale=0.25)
    got = run_kernel(K["adamw"], tensors + extra, [(shape, dtype)] * 3, fp=fp)
    for a, b in zip(got, reference(tensors, extra, fp)):
        np.testing.assert_allclose(a, b.astype(dtype), rtol=1e2 * np.finfo(dtype).eps, atol=4 * np.finfo(dtype).eps)


def test_in_place():
    """Donated p, m and v are written where they lie."""
    tensors, extra = data((1000,), np.float32), [s.reshape(1) for s in scalars(np.float32)]
    want = run_kernel(K["adamw"], tensors + extra, [((1000,), np.float32)] * 3, fp=FP)

    class Aval:
        def __init__(self, n):
            self.shape, self.dtype = (n,), np.dtype(np.float32)

    avals = [Aval(1000)] * 4 + [Aval(1)] * 4
    code = array.CODES[np.dtype(np.float32)]
    args = [array.from_numpy(a, aval, True) for a, aval in zip(tensors + extra, avals)]
    slots = [(code, aval.shape, (1,), 1 + i, 0) for i, aval in enumerate(avals)] + [(code, (1000,), (1,), 9 + i, 0) for i in range(3)]
    program = executor.Program(
        slots=slots,
        insts=[(0, K["adamw"], list(range(8)), [8, 9, 10], [], FP, [], None)],
        in_avals=avals,
        in_strides=[None] * 8,
        in_codes=[code] * 8,
        consts=[],
        outs=[(avals[0], 0), (avals[0], 2), (avals[0], 3)],
        out_codes=[code] * 3,
        arena_bytes=0,
        donated=(0, 2, 3),
    )
    for a, b in zip(program.run(args), want):
        np.testing.assert_array_equal(a.numpy_view(), b)


def test_nan_and_empty():
    tensors = [np.full(3, np.nan, np.float32)] + data((3,), np.float32)[1:]
    p, m, v = run_kernel(K["adamw"], tensors + scalars(np.float32), [((3,), np.float32)] * 3, fp=FP)
    assert np.isnan(p).all() and np.isfinite(m).all() and np.isfinite(v).all()
    empty = [np.zeros((0, 2), np.float32)] * 4
    assert run_kernel(K["adamw"], empty + scalars(np.float32), [((0, 2), np.float32)] * 3, fp=FP)[0].shape == (0, 2)


def test_rejected():
    tensors, extra, outs = data((3, 4), np.float32), scalars(np.float32), [((3, 4), np.float32)] * 3
    with pytest.raises(ValueError, match="b1 and b2"):
        run_kernel(K["adamw"], tensors + extra, outs, fp=[1.0, 0.9, 1e-8, 0, 1])
    with pytest.raises(ValueError, match="one element expected"):
        run_kernel(K["adamw"], tensors + extra[:3] + [np.zeros(2, np.float32)], outs, fp=FP)
    with pytest.raises(ValueError, match="operand 5 is float64"):
        run_kernel(K["adamw"], tensors + extra[:1] + [np.zeros((), np.float64)] + extra[2:], outs, fp=FP)
    with pytest.raises(ValueError, match="operand 3"):
        run_kernel(K["adamw"], tensors[:3] + [np.zeros(12, np.float32)] + extra, outs, fp=FP)
    with pytest.raises(ValueError, match="operand 9"):
        run_kernel(K["adamw"], tensors + extra, [outs[0], ((4, 3), np.float32), outs[0]], fp=FP)
    with pytest.raises(ValueError, match="8 inputs"):
        run_kernel(K["adamw"], tensors, outs, fp=FP)
