"""Groups over transposed operands walk them as they lie in memory, and give the same results."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp


def centred(x):
    return x - x.mean(1, keepdims=True)


PROGRAMS = {
    "a mean": lambda np, x: x.T.mean(1),
    "all of it": lambda np, x: (x.T**2).max(),
    "two passes": lambda np, x: (np.tanh(x.T - x.T.mean(1, keepdims=True)) ** 2).sum(1),
    "moments": lambda np, x: (x.T.mean(1), x.T.var(1)),
    "a product of what is left in memory": lambda np, x: centred(x.T) @ centred(x.T).T,
    "a product over reshaped axes": lambda np, x: np.reshape(centred(x.T), (x.shape[1] // 2, -1)) @ np.ones(2 * x.shape[0], x.dtype),
    "a result as well": lambda np, x: (centred(x.T), centred(x.T).sum(1)),
    "a shifted reader": lambda np, x: (np.exp(centred(x.T)) * 2)[1:].sum(0),
    "an operand that lies otherwise": lambda np, x: (x.T * np.sin(np.arange(x.size, dtype=x.dtype)).reshape(x.T.shape)).sum(1),
    "a small factor": lambda np, x: (x.T * np.arange(x.shape[1], dtype=x.dtype)[:, None]).sum(0),
    "three axes": lambda np, x: np.abs(x.reshape(-1, 10, x.shape[1]).transpose(2, 0, 1)).sum((1, 2)),
    "kept axes change places": lambda np, x: np.abs(x.reshape(-1, 10, x.shape[1]).transpose(2, 1, 0) * 3).sum(1),
}


@pytest.mark.parametrize("shape", [(700, 40), (3000, 6), (130, 260)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_numpys(name, shape):
    x = np.random.default_rng(0).standard_normal(shape)
    got, want = fgrad.jit(lambda x: PROGRAMS[name](jnp, x))(x.astype(np.float32)), PROGRAMS[name](np, x)
    for g, w in zip(*[a if isinstance(a, tuple) else (a,) for a in (got, want)]):
        np.testing.assert_allclose(np.asarray(g), w, rtol=0, atol=1e-5 * (1 + np.abs(w).max()) * shape[0] ** 0.5)


@pytest.mark.parametrize("name", ["a mean", "all of it", "moments"])
def test_nothing_is_copied(name):
    x = jnp.ones((700, 40))
    memory = fgrad.jit(lambda x: PROGRAMS[name](jnp, x)).lower(x).compile().memory_analysis()
    assert memory["temp_bytes"] < x.nbytes / 4


def test_gradients_are_those_of_the_other_order():
    x = np.random.default_rng(1).standard_normal((500, 40)).astype(np.float32)
    loss = lambda x, axis: jnp.sum(jnp.tanh(x - x.mean(axis, keepdims=True)).sum(axis) ** 2)  # noqa: E731
    got, want = [fgrad.jit(fgrad.grad(f))(x) for f in (lambda x: loss(x.T, 1), lambda x: loss(x, 0))]
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


def test_views_of_more_than_int32_can_count():
    """Memory that nobody touches: the zeros of a large array are the machine's."""
    x = jnp.zeros(2**31 + 37, "uint8")
    assert x[: 2**31].shape == (2**31,) and x[5:].shape == (2**31 + 32,) and x[::2].size == 2**30 + 19 and int(x[2**31 + 36]) == 0


PIECES = {
    "pixels of two": lambda np, x: np.tanh(x.reshape(x.shape[0] // 2, 2, -1, 2).transpose(0, 2, 1, 3)) * 2,
    "pixels of four": lambda np, x: x.reshape(x.shape[0] // 4, 4, -1, 4).transpose(0, 2, 1, 3) + 1,
    "channels backwards": lambda np, x: x.reshape(-1, 3)[:, ::-1] * 2 + 1,
    "an image mirrored": lambda np, x: np.abs(x.reshape(x.shape[0], -1, 3)[:, ::-1]) - 1,
    "read twice": lambda np, x: x.reshape(-1, 3)[:, ::-1] * x.reshape(-1, 3) + x.reshape(-1, 3)[:, ::-1],
    "all of it": lambda np, x: (x.reshape(x.shape[0] // 2, 2, -1, 2).transpose(0, 2, 1, 3) ** 2).sum(),
}


@pytest.mark.parametrize("shape", [(8, 12), (128, 156), (260, 300)])
@pytest.mark.parametrize("name", PIECES)
def test_rows_in_pieces(name, shape):
    x = np.random.default_rng(0).standard_normal(shape)
    got, want = fgrad.jit(lambda x: PIECES[name](jnp, x))(x.astype(np.float32)), PIECES[name](np, x)
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-4, atol=1e-4)
    loss = fgrad.grad(lambda x: (PIECES[name](jnp, x) ** 2).sum())
    with fgrad.config.override("pass_fuse", False):
        plain = fgrad.jit(lambda x: loss(x))(x.astype(np.float32))
    np.testing.assert_allclose(fgrad.jit(loss)(x.astype(np.float32)), plain, rtol=1e-4, atol=1e-3 * np.abs(plain).max())


def test_pieces_are_copied_once():
    x = np.ones((260, 300), np.float32)
    names = [name for _, name in fgrad.jit(lambda x: PIECES["read twice"](jnp, x)).lower(x).compile().profile(x, repeat=1)]
    assert sum(name.startswith("copy") for name in names) == 1 and len(names) == 2, names


def patches(np, x, side=3, axis=-2):
    h, w = (n - side + 1 for n in x.shape[1:3])
    return np.stack([x[:, i : i + h, j : j + w] for i in range(side) for j in range(side)], axis)


BOXES = {
    "joined parts of rows": (lambda np, x: np.tanh(np.concatenate([x[:, :, :, :4], x[:, :, :, 4:] * 2], 1)), (4, 30, 20, 8)),
    "joined neighbours": (lambda np, x: np.concatenate([x[:, 1:, :, :3], x[:, :-1, :, :3]], 1) ** 2, (4, 30, 41, 5)),
    "joined backwards": (lambda np, x: np.tanh(np.concatenate([x[:, ::-1, :, 1:3], x[:, :, ::-1, :2]], 2)), (4, 30, 41, 5)),
}


@pytest.mark.parametrize("name", BOXES)
def test_boxes_in_pieces(name):
    fun, shape = BOXES[name]
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(fgrad.jit(lambda x: fun(jnp, x))(x), fun(np, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis, shape", [(-2, (4, 22, 31, 8)), (-1, (4, 22, 31, 3)), (1, (2, 30, 30, 16)), (-2, (8, 24, 24, 1))])
def test_gradients_of_patches(axis, shape):
    """Cotangents of patches lie in pieces of a few features; what is outside of their boxes is not read, NaN or not."""
    x = np.random.default_rng(4).standard_normal(shape).astype(np.float32)
    fun = fgrad.jit(fgrad.grad(lambda x: jnp.sum(patches(jnp, x, axis=axis) ** 2)))
    count = np.zeros(shape[1:3])
    for i in range(3):
        for j in range(3):
            count[i : i + shape[1] - 2, j : j + shape[2] - 2] += 1
    np.testing.assert_allclose(fun(x), 2 * x * count[..., None], rtol=1e-5, atol=1e-5)
    x[0, 3, 5, 0] = np.nan
    assert np.isnan(np.asarray(fun(x))).sum() == 1


def test_boxes_in_pieces_are_copied_once():
    x = jnp.ones((4, 30, 40, 8))
    fun = lambda x: jnp.tanh(jnp.concatenate([x[:, :, :, :4], x[:, :, :, 4:]], 1))  # noqa: E731
    names = [name for _, name in fgrad.jit(fun).lower(x).compile().profile(x, repeat=1)]
    assert sorted([n.split()[0] for n in names]) == ["copy", "copy", "window+tanh"]


REPEATED = {
    "a diagonal taken away": (lambda np, x: x - np.diagonal(x)[None], (300, 300)),
    "distances of a Gram matrix": (lambda np, x: np.diagonal(x)[:, None] + np.diagonal(x) - 2 * x, (200, 200)),
    "a coordinate of each point": (lambda np, x: x[:, :, 1][:, None] * x[:, :, :1], (400, 12, 4)),
    "two coordinates of each point": (
        lambda np, x: np.tanh(np.linspace(0, 1, 40)[:, None, None].astype("float32") * x[:, 2:4]),
        (300, 8),
    ),
    "two coordinates, for each other point": (lambda np, x: np.abs(x[None, :, 1:3] - np.sin(x[:, None, 2:4])), (100, 6)),
    "a column as a row, backwards": (lambda np, x: np.tanh(x[::-1, 3] * x[:, :1]), (200, 20)),
}


@pytest.mark.parametrize("name", REPEATED)
def test_rows_read_again_and_again(name):
    """Rows whose elements lie apart are put side by side, once."""
    fun, shape = REPEATED[name]
    x = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    program = fgrad.jit(lambda x: fun(jnp, x))
    np.testing.assert_allclose(program(x), fun(np, x), rtol=1e-5, atol=1e-6)
    assert sum(name.startswith("copy") for _, name in program.lower(x).compile().profile(x, repeat=1)) == 1


TURNED = {
    "columns become rows": lambda np, x: x.reshape(-1, 3).T * 2,
    "columns backwards": lambda np, x: x.reshape(-1, 5).T[::-1] * 2,
    "channels first": lambda np, x: x.reshape(4, -1, 3).transpose(0, 2, 1) * 2 + 1,
    "channels last": lambda np, x: x.reshape(4, 3, -1).transpose(0, 2, 1) * 2 + 1,
    "wider than a step": lambda np, x: x.reshape(-1, 20).T * 2,
    "some of the columns": lambda np, x: x.reshape(-1, 10).T[2:9] * 2,
    "with sums": lambda np, x: (x.reshape(-1, 6).T * 2).sum(0),
    "planes": lambda np, x: x.reshape(5, -1).T * 2,
}


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "float32"])
@pytest.mark.parametrize("name", TURNED)
def test_rows_of_columns(name, dtype):
    """Operands whose rows are columns of a few elements or of narrow ones, which a copy may turn first."""
    x = np.random.default_rng(0).integers(-9, 9, 60_000).astype(dtype)
    got = fgrad.jit(lambda x: TURNED[name](jnp, x))(x)
    np.testing.assert_array_equal(np.asarray(got).astype("int64"), TURNED[name](np, x.astype("int64")))


def test_columns_are_turned_once():
    from fgrad._kernels import vm_plan

    x = np.random.default_rng(0).standard_normal((20_000, 3)).astype(np.float32)
    run = fgrad.jit(lambda x: (jnp.exp(x.T), jnp.sin(x.T).sum(1))).lower(x).compile()
    copies = [name for _, name in run.profile(x, repeat=1) if name.startswith("copy")]
    assert len(copies) == (vm_plan.vector_bytes() == 32)


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(64, 64, 64), (512, 16, 70), (33, 256, 64), (128, 1024), (1030, 512), (20, 2048)])
def test_lines_that_share_sets_of_a_cache(shape, dtype):
    """Axes turned round whose lines are powers of two apart, with whole tiles and parts of them."""
    with fgrad.enable_x64():
        x = (np.arange(np.prod(shape)) % 251 - 125).reshape(shape).astype(dtype)
        got = fgrad.jit(lambda x: jnp.copy(jnp.transpose(x)))(x)
        np.testing.assert_array_equal(np.asarray(got), x.T)
