"""Updates of every second element, or backwards: NumPy's, and their derivatives; all else stays as it was, negative zeros and NaN too."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from tests.derivatives import check_derivatives

RNG = np.random.default_rng(0)
INDICES = {
    "every second": (np.s_[:, ::2], (6, 7)),
    "the others": (np.s_[:, 1::2], (6, 7)),
    "both": (np.s_[1::2, ::2], (6, 8)),
    "backwards": (np.s_[::-1], (5, 3)),
    "backwards by two": (np.s_[:, ::-2], (3, 9)),
    "all backwards": (np.s_[::-1, ::-1], (4, 5)),
    "a part by two": (np.s_[2:9:2], (11,)),
    "by three": (np.s_[..., 1::3], (2, 4, 8)),
    "a row": (np.s_[-1, ::2], (2, 8)),
    "few": (np.s_[::7], (50,)),
    "none": (np.s_[9:2:2], (11,)),
}
KINDS = {
    "set": lambda x, i, v: x.__setitem__(i, v),
    "add": lambda x, i, v: x.__setitem__(i, x[i] + v),
    "multiply": lambda x, i, v: x.__setitem__(i, x[i] * v),
    "min": lambda x, i, v: x.__setitem__(i, np.minimum(x[i], v)),
    "max": lambda x, i, v: x.__setitem__(i, np.maximum(x[i], v)),
}


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bool", "float16", "complex64", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", INDICES)
def test_equal_to_numpys(name, kind, dtype):
    index, shape = INDICES[name]
    if dtype in ("bool", "complex64") and kind != "set":
        return
    x = jnp.asarray(RNG.integers(0, 9, shape)).astype(dtype)
    if dtype == "float32":
        x = x.at[..., 0].set(-0.0).at[..., -1].set(np.nan)
    want = np.array(x)
    values = jnp.asarray(RNG.integers(1, 5, want[index].shape)).astype(dtype)
    KINDS[kind](want, index, np.asarray(values))
    for got in (getattr(x.at[index], kind)(values), fgrad.jit(lambda x, v: getattr(x.at[index], kind)(v))(x, values)):
        assert got.dtype == x.dtype and got.weak_type == x.weak_type
        np.testing.assert_array_equal(np.asarray(got), want)
        if dtype != "complex64":
            np.testing.assert_array_equal(np.signbit(np.asarray(got, "float32")), np.signbit(want.astype("float32")))
    want = np.array(x)
    KINDS[kind](want, index, np.asarray(values.reshape(-1)[:1]).repeat(1)[0] if values.size else np.asarray(1, want.dtype))
    one = values.reshape(-1)[0] if values.size else jnp.ones((), dtype)
    np.testing.assert_array_equal(np.asarray(getattr(x.at[index], kind)(one)), want)


@pytest.mark.parametrize("kind", ["set", "add", "multiply"])
@pytest.mark.parametrize("name", [n for n in INDICES if n not in ("few", "none")])
def test_derivatives(name, kind):
    index, shape = INDICES[name]
    with fgrad.enable_x64():
        x = RNG.standard_normal(shape)
        check_derivatives(lambda x, v: jnp.sin(getattr(jnp.asarray(x).at[index], kind)(v)), x, RNG.standard_normal(x[index].shape))
        batch = fgrad.vmap(lambda x, v: getattr(x.at[index], kind)(v))(jnp.stack([x, 2 * x]), np.stack([x[index], x[index] + 1]))
        for got, a, v in zip(batch, (x, 2 * x), (x[index], x[index] + 1)):
            KINDS[kind](a := a.copy(), index, v)
            np.testing.assert_allclose(got, a)


def test_nothing_is_scattered():
    x, y = jnp.ones((40, 60)), jnp.ones((40, 30))
    run = fgrad.jit(fgrad.grad(lambda x, y: jnp.sum(x.at[:, ::2].set(y) ** 2), (0, 1))).lower(x, y).compile()
    assert not any(["scatter" in name for _, name in run.profile(x, y, repeat=1)])
