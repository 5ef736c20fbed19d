"""Loops drawn at random, over single numbers and short vectors of several dtypes: what flat code and its machine code have to agree on."""

import numpy as np

import fgrad.lax as lax
import fgrad.numpy as jnp

DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "u32": np.uint32, "bool": np.bool_, "i64": np.int64}
HALVES = {"bf16": jnp.bfloat16, "f16": np.float16, "f32": np.float32, "bool": np.bool_, "i32": np.int32, "i16": np.int16}
NARROW = {"i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "bool": np.bool_, "i32": np.int32}
SIZES = [1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 32, 40, 67, 130, 256, 300, 512]
MODES = ["scan", "fori", "counted while", "while", "while not"]


def _values(rng, kind, shape):
    if kind == "bool":
        return rng.random(shape) < 0.5
    if kind in ("i8", "u8", "i16", "u16"):
        return np.asarray(rng.integers(-40, 1 << int(rng.integers(1, 17)), shape)).astype(NARROW[kind])
    if kind == "u32":
        return np.asarray(rng.integers(0, 2**32, shape, dtype=np.uint64)).astype(np.uint32)
    if kind in ("i32", "i64"):
        return np.asarray(rng.integers(-40, 40, shape)).astype(DTYPES[kind])
    x = np.asarray(rng.normal(size=shape) * 3).astype((DTYPES | HALVES)[kind])
    if rng.random() < 0.15:
        x = np.asarray(np.where(rng.random(shape) < 0.3, rng.choice([np.nan, np.inf, -0.0, -np.inf]), x)).astype(x.dtype)
    return x


def _is_float(v):
    return jnp.issubdtype(v.dtype, jnp.floating)


def _is_int(v):
    return jnp.issubdtype(v.dtype, jnp.integer)


def _is_bool(v):
    return v.dtype == bool


def _is_number(v):
    return v.dtype != bool


def _is_index(v):
    return v.dtype == jnp.int32 and v.ndim == 0


class Body:
    """Operations drawn by a seed on a growing list of values of shapes () and (n,)."""

    def __init__(self, seed, n, inner=False, narrow=False, half=False):
        self.rng, self.n, self.inner, self.narrow, self.half = np.random.default_rng(seed), n, inner, narrow, half

    def within(self, seed):
        return Body(seed, self.n, True, self.narrow, self.half)

    def some(self, pool, when=lambda v: True):
        found = [v for v in pool if when(v)]
        return found[-1 - min(int(self.rng.exponential(4)), len(found) - 1)] if found else None

    def like(self, pool, x):
        return self.some(pool, lambda v: v.dtype == x.dtype)

    def one_of(self, *choices):
        return choices[self.rng.integers(len(choices))]()

    def arithmetic(self, pool, x):
        y = self.like(pool, x)
        return _is_number(x) and self.one_of(
            lambda: x + y, lambda: x - y, lambda: x * y, lambda: y * x, lambda: x + x, lambda: jnp.maximum(x, y), lambda: jnp.minimum(x, y)
        )

    def real(self, pool, x):
        return _is_float(x) and self.one_of(
            lambda: x / self.like(pool, x), lambda: jnp.sqrt(x), lambda: jnp.floor(x), lambda: jnp.abs(x), lambda: -x, lambda: jnp.ceil(x),
            lambda: jnp.round(x), lambda: jnp.trunc(x), lambda: 1 / x, lambda: x * x, lambda: jnp.exp(-jnp.abs(x)), lambda: jnp.tanh(x),
        )  # fmt: skip

    def whole(self, pool, x):
        y = self.like(pool, x)
        if self.narrow and _is_int(x) and self.rng.random() < 0.4:
            return self.one_of(
                lambda: -x, lambda: ~x, lambda: jnp.abs(x), lambda: lax.population_count(x), lambda: lax.shift_right_arithmetic(x, y),
                lambda: jnp.clip(x, -3 if jnp.issubdtype(x.dtype, jnp.signedinteger) else 3, 50), lambda: x >> 1, lambda: x << 1,
            )  # fmt: skip
        return _is_int(x) and self.one_of(
            lambda: x & y, lambda: x | y, lambda: x ^ y, lambda: x << (y & 31), lambda: x >> (y & 31), lambda: lax.div(x, y),
            lambda: lax.rem(x, y), lambda: lax.shift_right_logical(x, y), lambda: x ^ (x << 13), lambda: x ^ (x >> 7),
            lambda: lax.shift_left(x, y),
        )  # fmt: skip

    def compared(self, pool, x):
        y = self.like(pool, x)
        return self.one_of(lambda: x < y, lambda: x <= y, lambda: x > y, lambda: x >= y, lambda: x == y, lambda: x != y)

    def chosen(self, pool, x):
        c, z = self.some(pool, _is_bool), self.some(pool)
        other = self.like(pool, z)
        if _is_number(x) and self.rng.random() < 0.6:
            c = x < self.like(pool, x)
        return c is not None and jnp.where(c, z, other)

    def logical(self, pool, x):
        y = self.like(pool, x)
        return _is_bool(x) and self.one_of(lambda: x & y, lambda: x | y, lambda: x ^ y, lambda: ~x)

    def cast(self, pool, x):
        if self.narrow:
            return x.dtype != jnp.float32 and x.astype(self.one_of(*[lambda t=t: t for t in (*NARROW.values(), np.float32)]))
        if self.half:
            return x.astype(self.one_of(lambda: jnp.bfloat16, lambda: jnp.float16, lambda: jnp.float32))
        return (_is_bool(x) or x.dtype in (jnp.int32, jnp.float32)) and x.astype(self.one_of(lambda: jnp.float32, lambda: jnp.float64))

    def taken(self, pool, x):
        i = self.some(pool, _is_index)
        if not x.ndim or i is None:
            return None
        half = max(1, self.n // 2)
        return self.one_of(
            lambda: x[i],
            lambda: lax.dynamic_slice(x, (i,), (half,)).max(),
            lambda: x[jnp.clip(i, 0, self.n - 1)],
            lambda: x[0],
            lambda: x[-1],
            lambda: x[self.n // 2],
        )

    def put(self, pool, x):
        i, y = self.some(pool, _is_index), self.some(pool, lambda v: v.dtype == x.dtype and v.ndim == 0)
        if not x.ndim or i is None or y is None:
            return None
        add = (lambda: x.at[i].set(y)) if _is_bool(x) else (lambda: x.at[i].add(y))
        return self.one_of(lambda: x.at[i].set(y), add, lambda: lax.dynamic_update_index_in_dim(x, y, i, 0), lambda: x.at[0].set(y))

    def moved(self, pool, x):
        return x.ndim and self.one_of(
            lambda: jnp.roll(x, 1), lambda: jnp.roll(x, -2), lambda: x[::-1], lambda: jnp.concatenate([x[1:], x[:1]]),
            lambda: jnp.pad(x[:-1], (1, 0)), lambda: x if _is_bool(x) else x.at[1:-1].add(x[2:] - x[:-2]),
        )  # fmt: skip

    def reduced(self, pool, x):
        return x.ndim and _is_number(x) and self.one_of(
            lambda: x.sum(), lambda: x.max(), lambda: x.min(), lambda: jnp.prod(x),
            lambda: lax.argmax(x, 0, jnp.int32), lambda: lax.argmin(x, 0, jnp.int32),
        )  # fmt: skip

    def stacked(self, pool, x):
        parts = (
            [x, *[self.some(pool, lambda v: v.dtype == x.dtype and v.ndim == 0) for _ in range(self.n - 1)]]
            if self.n <= 4 and x.ndim == 0
            else []
        )
        return len(parts) == self.n and all(v is not None for v in parts) and jnp.stack(parts)

    def folded(self, pool, x):
        if not (x.ndim and (x.dtype == jnp.float32 or (self.half and _is_float(x))) and self.n <= 8):
            return None
        m = x[:, None] * x[None, :]
        return self.one_of(
            lambda: m.sum(0),
            lambda: m.max(1),
            lambda: lax.argmin(m, 0, jnp.int32),
            lambda: m @ x if self.n <= 4 else m.min(0),
            lambda: lax.argmax(m, 1, jnp.int32),
        )

    def branched(self, pool, x):
        c, seeds = self.some(pool, lambda v: _is_bool(v) and v.ndim == 0), self.rng.integers(1 << 30, size=2)
        if c is None or self.inner or _is_bool(x):
            return None
        return lax.cond(c, *[lambda a, s=s: _fit(self.within(s).run(list(a), 4)[-1], x) for s in seeds], tuple(pool))

    def looped(self, pool, x):
        seed, turns = self.rng.integers(1 << 30), jnp.int32(self.rng.integers(5))
        if self.inner or _is_bool(x):
            return None
        return lax.fori_loop(jnp.int32(0), turns, lambda i, c: _fit(self.within(seed).run([c, i], 3)[-1], x), x)

    STEPS = (
        [arithmetic] * 6
        + [real] * 2
        + [whole] * 2
        + [compared, chosen, chosen, logical, cast, taken, put, moved, reduced, stacked, folded, branched, looped]
    )

    def run(self, pool, count):
        for _ in range(count):
            out = self.STEPS[self.rng.integers(len(self.STEPS))](self, pool, self.some(pool))
            if out is not None and out is not False and getattr(out, "shape", None) in ((), (self.n,)):
                pool.append(out)
        return pool


def _fit(value, like):
    """value with the shape and dtype of `like`."""
    if value.shape != like.shape:
        value = jnp.broadcast_to(value, like.shape) if value.ndim == 0 else value[0]
    if value.dtype == like.dtype:
        return value
    if _is_bool(like):
        return value > 0
    if _is_int(like) and _is_float(value):
        value = jnp.clip(jnp.nan_to_num(value), -100, 100)
    return value.astype(like.dtype)


def drawn_loop(seed, narrow=False, half=False):
    """(function, arguments) of the loop that a seed draws; narrow: over small integers and bools; half: over 16-bit floats among others."""
    rng = np.random.default_rng(seed)
    n, mode, length, reverse = int(rng.choice(SIZES)), MODES[rng.integers(len(MODES))], int(rng.integers(2, 30)), bool(rng.random() < 0.3)
    length += 40 * int(rng.random() < 0.2)  # machine code looks for signals every 32 turns
    body_seed, count = int(rng.integers(1 << 30)), int(rng.integers(3, 25))
    kinds = list(NARROW if narrow else HALVES if half else DTYPES)
    even = [1 / len(NARROW)] * len(NARROW) if narrow else [0.3, 0.3, 0.2, 0.05, 0.1, 0.05] if half else None
    carry = [
        _values(rng, kinds[rng.choice(6, p=even or [0.4, 0.15, 0.2, 0.1, 0.1, 0.05])], () if rng.random() < 0.5 else (n,))
        for _ in range(rng.integers(1, 5))
    ]
    rows = [
        _values(
            rng,
            kinds[rng.choice(6, p=even or [0.5, 0.15, 0.2, 0.05, 0.05, 0.05])],
            (length,) if rng.random() < 0.6 else (length, n),
        )
        for _ in range(rng.integers(0, 3))
    ]

    def step(c, x):
        pool = Body(body_seed, n, narrow=narrow, half=half).run([*c, *x], count)
        new = pool[len(c) + len(x) :] or list(c)
        return tuple(_fit(new[-1 - i % len(new)], v) for i, v in enumerate(c)), tuple(new[:2])

    def turn(i, c, rows):
        return step(c, (*[r[i] for r in rows], i))[0]

    def fun(carry, rows):
        if mode == "scan":
            return lax.scan(step, tuple(carry), tuple(rows), length=length, reverse=reverse)
        if mode == "fori":
            return lax.fori_loop(jnp.int32(0), jnp.int32(length), lambda i, c: turn(i, c, rows), tuple(carry))
        until = {
            "counted while": lambda s: s[0] < length,
            "while": lambda s: (s[0] < length) & (s[1][0].ravel()[0].astype(jnp.float32) < 100),
            "while not": lambda s: ~((s[0] >= length) | (s[1][0].ravel()[0].astype(jnp.float32) == 3)),
        }[mode]
        return lax.while_loop(until, lambda s: (s[0] + 1, turn(s[0], s[1], rows)), (jnp.int32(0), tuple(carry)))

    return fun, (carry, rows)
