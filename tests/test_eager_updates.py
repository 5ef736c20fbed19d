"""x.at[...] of concrete arrays without a program, rows by iteration, and what arrays cost the interpreter."""

import gc
import warnings

import numpy as np
import pytest

import fgrad.numpy as jnp
from fgrad._kernels.window import updated
from fgrad.numpy import updates


def drawn_index(r, shape):
    out = []
    for n in shape[: r.integers(0, len(shape) + 1)]:
        ends = [None if r.random() < 0.3 else int(v) for v in r.integers(-n - 1, n + 2, 2)]
        kinds = [
            int(r.integers(-n - 1, n + 1)),
            jnp.int32(r.integers(-n, n)),
            slice(None),
            slice(*ends),
            slice(None, None, int(r.choice([-2, -1, 2, 3]))),
        ]
        out += [kinds[r.integers(5)]] + [None] * (r.random() < 0.1)
    out += [Ellipsis] * (r.random() < 0.2)
    return out[0] if len(out) == 1 else tuple(out)


def test_drawn_updates_without_a_program_are_the_programs():
    """The same bits, avals and refusals."""
    r, hits = np.random.default_rng(0), 0
    for _ in range(1500):
        dtype = r.choice(["float32", "int32", "bool", "float16", "uint32"], p=[0.4, 0.3, 0.1, 0.1, 0.1])
        array = lambda *shape: jnp.asarray(np.asarray(5 * r.standard_normal(shape)).astype(dtype))  # noqa: E731, B023
        x = array(*r.integers(1, 5, r.integers(0, 4)))
        idx = drawn_index(r, x.shape)
        at = updated(x, idx, True if dtype == "bool" else 1, "set")
        value = [0.37 * r.standard_normal(), int(r.integers(-5, 5)), True, array(), array(*x[idx].shape)][r.integers(5)]
        for kind in ("set", "add", "mul"):
            out = updated(x, idx, value, kind)
            if out is None:
                continue
            assert at is not None or dtype == "uint32"
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                want = updates._update(x, idx, value, kind)
            assert out.aval is want.aval and np.asarray(out).tobytes() == np.asarray(want).tobytes()
            hits += 1
    assert hits > 1000


def test_updates_without_a_program_leave_the_rest_to_it():
    """Numbers that do not fit, denormal, infinite or of another dtype, indices out of bounds, weak types."""
    x, n = jnp.zeros(3), jnp.zeros(3, int)
    cases = [
        (x, 0, 1e-40, "set"),
        (x, 0, np.inf, "set"),
        (x, 0, 1e300, "set"),
        (x, 3, 1.0, "set"),
        (x, 0, jnp.ones(1), "set"),
        (x, 0, jnp.ones((), int), "set"),
        (x, slice(0, 0), 1.0, "set"),
        (x, 0, 1.0, "min"),
        (x, [0], 1.0, "set"),
        (x[::-1], 0, 1.0, "set"),
        (x.at[0].set(3e38), 0, 3e38, "add"),
        (n, 0, 0.5, "add"),
        (n, 0, 2**40, "set"),
    ]
    for a, idx, value, kind in cases:
        assert updated(a, idx, value, kind) is None
    assert updated(x, 0, 1.0, "set").tolist() == [1.0, 0.0, 0.0] and x.tolist() == [0.0, 0.0, 0.0]
    assert x.at[3].set(1.0).tolist() == [0.0] * 3 and np.isinf(x.at[0].set(np.inf)[0]) and n.at[1].subtract(2).tolist() == [0, -2, 0]
    once = jnp.ones(3)
    assert once.at[0].set(2.0)[0] == 2.0 and not once.shared  # it may be donated still
    gone = jnp.ones(3)
    gone.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        gone.at[0].set(1.0)
    with pytest.raises(RuntimeError, match="deleted"):
        x.at[0:3].set(gone)


def test_rows_come_one_at_a_time():
    x = jnp.arange(6.0).reshape(3, 2)
    rows = iter(x)
    assert next(rows).tolist() == [0.0, 1.0] and rows.__length_hint__() == 2 and [r.tolist() for r in rows] == [[2.0, 3.0], [4.0, 5.0]]
    assert next(rows, None) is None and list(jnp.zeros((0, 2))) == []
    a, (b, c), _ = x
    assert (a[1], b, c) == (1.0, 2.0, 3.0)
    x = jnp.arange(6.0)
    rows = iter(x)
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        next(rows)
    with pytest.raises(TypeError, match="0-d"):
        iter(jnp.ones(()))


def test_arrays_are_no_work_for_the_garbage_collector():
    x = jnp.ones(3)
    assert not any(map(gc.is_tracked, [x, x[1:], x + x, jnp.zeros(2)]))
