"""Static updates that groups write into the array itself: what is read of it, before and after, stays what it was."""

import numpy as np
import pytest

import fgrad
import fgrad.compile.program
import fgrad.numpy as jnp

lax = fgrad.lax


def grids(c, _):
    e, h = c
    h = h.at[:, :-1].add(0.5 * (e[:, 1:] - e[:, :-1]))
    e = e.at[1:-1].add(0.25 * (h[1:-1] - h[:-2]))
    e = e.at[3, 4].add(e[0, 0])
    return (e, h), e[1, 2]


def in_turns(a, b, part):
    """Each of two arrays by what lies around its elements in the other one."""
    inside = (part,) * a.ndim

    def beside(x, axis, k):
        return x[(*inside[:axis], slice(part.start + k, x.shape[axis] + part.stop + k), *inside[axis + 1 :])]

    def around(x):
        return sum(beside(x, axis, k) for axis in range(x.ndim) for k in (-1, 1))

    b = b.at[inside].set(0.2 * around(a))
    return a.at[inside].set(around(b) - a.ndim * 0.1), b


def planes(x):
    return jnp.broadcast_to(x[:11, None, :9], (11, 24, 9)) + jnp.arange(24.0)[:, None]


PROGRAMS = {
    "grids in a scan": lambda x, y: lax.scan(grids, (x, y), None, 5),
    "a stencil": lambda x, y: lax.fori_loop(0, 4, lambda i, u: u.at[1:-1].add(u[2:] - 2 * u[1:-1] + u[:-2]), x),
    "neighbours": lambda x, y: x.at[1:].set(x[:-1] * 2),
    "read after it": lambda x, y: (x.at[2:4].multiply(3.0), x.sum(), x * y),
    "both are results": lambda x, y: (x, x.at[2:, 5:].add(y[2:, 5:])),
    "two groups of one array": lambda x, y: x.at[:9].add(y[:9]).at[5:].multiply(y[5:]),
    "the update is a result, too": lambda x, y: (lambda u: (u, x.at[1:3].set(u)))(x[1:3] * y[1:3]),
    "of what was computed": lambda x, y: (x * y).at[:, 1:].add(1.0).at[0].set(0.0),
    "beyond the end": lambda x, y: lax.dynamic_update_slice(x, x[3:, 2:] * 2, (90, -4)),
    "computed before the array is": lambda x, y: x.at[2:].add(y[2:] * 2).at[1:].add(x[:-1]).at[2:].set(y[2:] + 1),
    "in turns": lambda x, y: lax.fori_loop(0, 4, lambda i, s: in_turns(*s, slice(1, -1)), (x, y)),
    "in turns, both read": lambda x, y: lax.fori_loop(0, 4, lambda i, s: in_turns(s[0] + s[1], s[1], slice(1, -1)), (x, y)),
    "neighbours of a copy": lambda x, y: lax.fori_loop(0, 3, lambda i, u: u.at[1:-1].set(0.4 * (u.copy()[2:] + u.copy()[:-2])), x),
    "neighbours of a product": lambda x, y: lax.fori_loop(0, 3, lambda i, u: (lambda v: u.at[1:-1].set(v[2:] + v[:-2]))(u * 0.3), x),
    "in turns over planes": lambda x, y: lax.fori_loop(0, 4, lambda i, s: in_turns(*s, slice(2, -1)), (planes(x), planes(y))),
    "members": lambda x, y: fgrad.vmap(lambda a: a.at[2:7].add(a[2:7] * a[0]))(x),
    "a condition": lambda x, y: lax.while_loop(lambda u: u.sum() < 1e4, lambda u: u.at[1:].add(abs(u[1:]) + 1), x),
    "gradient": lambda x, y: fgrad.grad(lambda x: (lax.scan(grids, (x, y), None, 3)[0][0] ** 2).sum())(x),
}


@pytest.mark.parametrize("shape", [(20, 12), (40, 40), (130, 120), (4000, 9), (300, 200)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_copies(name, shape, monkeypatch):
    rng = np.random.default_rng(3)
    args = [rng.standard_normal(shape).astype(np.float32) for _ in range(2)]
    before = [a.copy() for a in args]
    got = fgrad.jit(PROGRAMS[name])(*args)
    monkeypatch.setattr(fgrad.compile.program, "write_updated", lambda units, outs: units)
    monkeypatch.setattr(fgrad.compile.program, "shift", lambda nodes, outs, taken: nodes)
    want = fgrad.jit(lambda *args: PROGRAMS[name](*args))(*args)
    for g, w in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-5 * (1 + np.abs(np.asarray(w)).max()))
    assert all(np.array_equal(a, b) for a, b in zip(args, before))


@pytest.mark.parametrize("shape", [(64, 64), (400, 300)])
def test_a_loop_moves_no_window(shape):
    x = np.ones(shape, np.float32)
    names = fgrad.jit(lambda x: x.at[1:, :-1].add(2 * x[1:, :-1]), donate_argnums=0).lower(x).compile().profile(x)
    assert sorted(what.split()[0] for _, what in names) in (["copy", "mul+add"], ["copy", "mul+add", "copy"]), names


@pytest.mark.parametrize("shape", [(150, 150), (40, 26, 26), (70, 70, 70)])
def test_arrays_updated_by_each_other_are_written_where_they_lie(shape, monkeypatch):
    labels, build = [], fgrad.compile.program._build

    def seen(*args, **kw):
        program = build(*args, **kw)
        labels.append(program.labels)
        return program

    monkeypatch.setattr(fgrad.compile.program, "_build", seen)
    x, y = (np.random.default_rng(k).standard_normal(shape).astype(np.float32) for k in range(2))
    got = fgrad.jit(lambda x, y: lax.fori_loop(0, 3, lambda i, s: in_turns(*s, slice(1, -1)), (x, y)))(x, y)
    assert all("window" not in label for label in labels[0]) and sum(label[0] == "copy" for label in labels[0]) == 2
    want = [x.astype(np.float64), y.astype(np.float64)]
    for _ in range(3):
        for k, (c, d) in ((1, (0.2, 0)), (0, (1, len(shape) * 0.1))):
            other = want[1 - k]
            around = sum(np.roll(other, r, axis) for axis in range(len(shape)) for r in (1, -1))
            want[k][(slice(1, -1),) * len(shape)] = (c * around - d)[(slice(1, -1),) * len(shape)]
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-4)


ONE_OPERATION = {"add": np.add, "multiply": np.multiply, "max": np.maximum, "min": np.minimum, "subtract": np.subtract}


@pytest.mark.parametrize("dtype", ["float32", "int32", "float64", "uint32"])
@pytest.mark.parametrize(
    "rows, cols, gap", [(20, 17, 1), (60, 31, 1), (64, 62, 2), (80, 79, 1), (300, 79, 5), (30, 198, 2), (12, 300, 40), (900, 18, 2)]
)
def test_parts_of_rows_by_one_operation_in_a_loop(rows, cols, gap, dtype):
    """Hot enough for machine code; what lies between the rows, on either side, stays as it was."""
    rng = np.random.default_rng(rows + cols)
    steps, part = 12, (slice(1, -1), slice(gap // 2, gap // 2 + cols))
    with fgrad.enable_x64(dtype == "float64"):
        x, y = (rng.integers(0, 9, (rows + 2, cols + gap)).astype(dtype) for _ in range(2))
        for name, fun in ONE_OPERATION.items():
            update = fgrad.jit(lambda x, y, name=name: lax.fori_loop(0, steps, lambda i, x: getattr(x.at[part], name)(y[part]), x))
            want = x.copy()
            for _ in range(steps):
                want[part] = fun(want[part], y[part])
            for _ in range(3):
                np.testing.assert_array_equal(update(x, y), want, err_msg=name)


@pytest.mark.parametrize("kind", ["add", "set", "max"])
def test_wide_indices_of_an_output_that_threads_share(kind):
    """Indices of 64 bits, some far outside of the output, whose updates are left out; the last ones of equal indices count."""
    rng, n = np.random.default_rng(0), 150000
    index = rng.integers(-5, n + 5, n)
    index[::97] = 2**40 + 3
    index[::89] = -(2**40)
    inside = (index >= 0) & (index < n)
    x, y = rng.integers(0, 1000, (2, n))
    want = x.copy()
    {"add": np.add.at, "max": np.maximum.at, "set": lambda a, i, v: a.__setitem__(i, v)}[kind](want, index[inside], y[inside])
    with fgrad.enable_x64():
        updated = getattr(jnp.asarray(x).at[jnp.asarray(index)], kind)(jnp.asarray(y), mode="drop", wrap_negative_indices=False)
        assert updated.dtype == np.int64
        np.testing.assert_array_equal(updated, want)
