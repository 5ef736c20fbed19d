"""Loops drawn at random over small matrices and vectors: products, folds, positions and what moves numbers from lane to lane."""

import numpy as np

import fgrad.lax as lax
import fgrad.numpy as jnp

MOST = 128  # elements of a value


def _values(rng, shape, x64):
    x = rng.normal(size=shape).astype(np.float64 if x64 and rng.random() < 0.5 else np.float32)
    if rng.random() < 0.12:
        x = np.where(rng.random(shape) < 0.2, rng.choice([np.nan, np.inf, -0.0, 0.0, -np.inf]), x).astype(x.dtype)
    return np.round(x) if rng.random() < 0.1 else x  # ties


def _product(draw, pool):
    a = draw.pick(pool, lambda v: v.ndim >= 1)
    how = draw(4)
    if how == 0:
        b = draw.pick(pool, lambda v: v.dtype == a.dtype and v.shape == a.shape and a.ndim == 1)
        return None if b is None else jnp.dot(a, b)
    if how == 1:
        b = draw.pick(pool, lambda v: v.dtype == a.dtype and v.ndim == a.ndim == 2 and v.shape[1] == a.shape[1])
        return None if b is None else a @ b.T
    if how == 2:
        b = draw.pick(pool, lambda v: v.dtype == a.dtype and v.ndim == a.ndim == 3 and v.shape[:2] == (a.shape[0], a.shape[2]))
        return None if b is None else a @ b
    b = draw.pick(pool, lambda v: v.dtype == a.dtype and 1 <= v.ndim <= 2 and a.ndim <= 2 and v.shape[0] == a.shape[-1])
    return None if b is None else a @ b


def _fold(draw, pool):
    a = draw.pick(pool, lambda v: v.ndim >= 1)
    axis = draw(a.ndim + 1)
    fold = [jnp.sum, jnp.sum, jnp.max, jnp.min, jnp.prod, jnp.argmax, jnp.argmin][draw(7)]
    return fold(a, None if axis == a.ndim else axis).astype(a.dtype)


def _move(draw, pool):
    a = draw.pick(pool, lambda v: v.ndim >= 1)
    how, axis = draw(8), draw(a.ndim)
    if how == 0:
        return jnp.roll(a, 1 + draw(3), axis)
    if how == 1:
        return jnp.flip(a, axis)
    if how == 2:
        return a[1:] if a.shape[0] > 1 else a
    if how == 3:
        return a[::2]
    if how == 4:
        return jnp.swapaxes(a, axis, 0)
    if how == 5:
        return jnp.broadcast_to(a, (1 + draw(4), *a.shape)) if draw(2) else jnp.repeat(a[:, None], 1 + draw(4), 1)
    if how == 6:
        return a[draw(a.shape[0])]
    b = draw.pick(pool, lambda v: v.dtype == a.dtype and v.ndim == a.ndim and v.shape[1:] == a.shape[1:])
    return jnp.concatenate([a, b])


def _put(draw, pool):
    if draw(2):
        one = [draw.pick(pool, lambda v: v.ndim == 0) for _ in range(2 + draw(6))]
        return None if one[0] is None else jnp.stack([v.astype(one[0].dtype) for v in one])
    a = draw.pick(pool, lambda v: v.ndim >= 1)
    return a.at[draw(a.shape[0])].set([0.5, 1.5][draw(2)])


def _lanes(draw, pool):
    a = draw.pick(pool, lambda v: True)
    b = draw.pick(pool, lambda v: v.dtype == a.dtype and v.shape in (a.shape, (), a.shape[1:]))
    how = draw(9)
    if how < 3:
        return [jnp.tanh, jnp.abs, jnp.sqrt][how](a)
    if how == 3:
        return jnp.where(a > b, a, b * a)
    return [a + b, a - b, a * b, a / b, jnp.maximum(a, b)][how - 4]


class Draw:
    """The same choices each time that a body is traced."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def __call__(self, n):
        return int(self.rng.integers(n))

    def pick(self, pool, when):
        found = [v for v in pool if when(v)]
        return found[self(len(found))] if found else None


def drawn_matrices(seed, x64=False):
    rng = np.random.default_rng(seed)
    m, n, k = (int(v) for v in rng.choice([1, 2, 3, 4, 5, 8, 16], 3))
    shapes = [(m,), (m, n), (n, m), (n,), (4, 4), (3, 3), (2, 2), (8,), (2, 3, 4), (k, m), (8, 8), (5, 2, 2), ()]
    carry, consts = ([_values(rng, shapes[rng.integers(len(shapes))], x64) for _ in range(1 + rng.integers(4))] for _ in range(2))
    carry.append(_values(rng, (n,), x64))
    steps, plan, kind = int(rng.choice([2, 5, 37])), int(rng.integers(1 << 30)), int(rng.integers(3))
    xs, count = _values(rng, (steps, *shapes[rng.integers(5)]), x64), 3 + int(rng.integers(14))

    def body(carry, x):
        draw = Draw(plan)
        pool = [*carry, *(jnp.asarray(v) for v in consts), *([] if x is None else [x])]
        for _ in range(count):
            v = [_product, _product, _fold, _move, _put, _lanes, _lanes][draw(7)](draw, pool)
            if v is not None and v.size <= MOST:
                pool.append(v)
        last = [[v for v in pool[::-1] if v.shape == old.shape and v.dtype == old.dtype] for old in carry]
        return tuple(v[draw(min(3, len(v)))] for v in last), (pool[-1], pool[len(pool) // 2])

    if kind == 1:
        return lambda carry, xs: lax.fori_loop(0, steps, lambda i, c: body(c, None)[0], carry), (tuple(carry), xs)
    return lambda carry, xs: lax.scan(body, carry, xs, reverse=kind == 2), (tuple(carry), xs)
