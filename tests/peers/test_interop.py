"""DLPack between fgrad and PyTorch; the text of arrays beside JAX's."""

import numpy as np
import pytest

import fgrad.numpy as jnp

pytestmark = pytest.mark.peers


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "float16", "complex64", "bool"])
def test_to_torch(dtype):
    torch = pytest.importorskip("torch")
    x = jnp.asarray(np.arange(6).reshape(2, 3).astype(dtype))
    t = torch.from_dlpack(x)
    np.testing.assert_array_equal(t.numpy(), np.asarray(x))
    assert t.data_ptr() == np.asarray(x).ctypes.data


def test_from_torch():
    torch = pytest.importorskip("torch")
    t = torch.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(np.asarray(jnp.asarray(np.from_dlpack(t)) * 2), t.numpy() * 2)


def test_bfloat16_to_and_from_torch():
    torch = pytest.importorskip("torch")
    x = jnp.arange(6.0).reshape(2, 3).astype(jnp.bfloat16)
    t = torch.from_dlpack(x)
    assert t.dtype == torch.bfloat16 and t.data_ptr() == np.asarray(x).ctypes.data and t.tolist() == x.tolist()
    back = jnp.from_dlpack(t.T + 1)
    assert back.dtype == jnp.bfloat16 and back.tolist() == (t.T + 1).tolist()


def test_repr_of_many_arrays_is_that_of_jax():
    jax = pytest.importorskip("jax")
    for shape in ((), (0,), (2, 0), (3,), (17,), (60,), (3, 4, 5), (1, 1, 1), (100, 100), (1200,)):
        for dtype in ("float32", "int32", "uint8", "bool", "float16", "bfloat16", "complex64"):
            source = (np.arange(np.prod(shape, dtype=int)).reshape(shape) / 4).astype("complex64" if dtype == "complex64" else "float32")
            ours, theirs = jnp.asarray(source).astype(dtype), jax.numpy.asarray(source).astype(dtype)
            assert repr(ours) == repr(theirs) and str(ours) == str(theirs)
