"""Points that loops carry by columns: results are those of a loop over points as they are, whatever a step does with them."""

import numpy as np
import pytest

import fgrad
import fgrad.control.points
import fgrad.numpy as jnp
from fgrad import lax
from fgrad.compile.passes import run_passes


def length(x):
    return jnp.sqrt(jnp.sum(x * x, -1, keepdims=True) + 0.1)


def system(y):
    return jnp.stack([y[..., 1] - y[..., 0], y[..., 0] * (2 - y[..., 2]), y[..., 0] * y[..., 1] - y[..., 2]], -1)


def spun(q, w):
    """Quaternions turned by quaternions of the last coordinates."""
    (a, b, c, *_), (x, y, z, *_) = q.T, w.T
    return jnp.stack([a * x - b * y - c * z, a * y + b * x, a * z + c * x], 1)


def energy(x):
    d = x[1:] - x[:-1]
    return jnp.sum((length(d) - 1) ** 2)


def loop(step, *carry):
    return lax.fori_loop(0, 12, lambda i, c: step(*c), carry)


def scanned(step, carry, xs):
    return lax.scan(step, carry, xs)


SPLIT = {
    "unit vectors": lambda x, y, w: loop(lambda x: ((x + 0.1) / length(x),), x),
    "an orbit": lambda x, y, w: loop(lambda x, v: (x + 0.1 * v, v - 0.1 * x / length(x) ** 3), x, y),
    "springs along a ring": lambda x, y, w: loop(
        lambda x, v: (x + 0.1 * v, v + 0.1 * (jnp.roll(x, -1, 0) - x) * (1 - 1 / length(x))), x, y
    ),
    "descent": lambda x, y, w: loop(lambda x: (x - 0.1 * fgrad.grad(energy)(x),), x),
    "columns taken apart and together": lambda x, y, w: loop(lambda x: (x + 0.1 * system(x),), x[:, :3]),
    "parts along both axes": lambda x, y, w: loop(
        lambda x: (x.at[:].multiply(0.9) + jnp.pad(x[1:-1, ::2].sum(-1, keepdims=True), ((1, 1), (0, 0))),), x
    ),
    "pairs": lambda x, y, w: loop(lambda x: (x + 0.01 * ((x[:, None] - x) / length(x[:, None] - x)).sum(1),), x),
    "rays to a surface": lambda x, y, w: loop(lambda t: (t + length(y[0] + t[:, None] * x)[:, 0] - 1,), w),
    "extrema of integers": lambda x, y, w: loop(lambda k: (k + (k == k.max(-1, keepdims=True)),), (10 * x).astype("int32")),
    "columns of the transpose": lambda x, y, w: loop(lambda x: (x[:, :3] + 0.1 * spun(x, y),), x[:, :3]),
    "the transpose, and back": lambda x, y, w: loop(lambda x: (((x.T * 0.9) / jnp.sqrt((x.T**2).sum(0) + 0.1)).T + 0.1 * y,), x),
    "rows of the transpose side by side": lambda x, y, w: loop(
        lambda x: ((x.T[::-1] * w).T / length(x) + x.T.reshape(-1, 1, len(w))[0].T,), x
    ),
    "columns backwards": lambda x, y, w: loop(lambda x: (x[::-1] * 0.9 + jnp.min(x, -1, keepdims=True),), x),
    "results of all steps": lambda x, y, w: scanned(
        lambda x, v: ((z := x / length(x) + v), (z, z.sum(), length(z))), x, jnp.stack([y] * 9)
    ),
    "a gradient through all steps": lambda x, y, w: fgrad.grad(
        lambda x: scanned(lambda x, v: ((z := x / length(x) + v), (z * w[:, None]).sum()), x, jnp.stack([y] * 9))[1].sum()
    )(x),
    "members": lambda x, y, w: fgrad.vmap(lambda p: scanned(lambda p, _: (p + 0.1 * system(p), p[0]), p, jnp.zeros(9)))(x[:, :3]),
    "until all are far": lambda x, y, w: lax.while_loop(
        lambda c: jnp.min(length(c[0])) < 3.0, lambda c: (c[0] + 0.3 * c[0] / length(c[0]), c[1] + 1), (x, 0)
    ),
    "what carries no points, only reads them": lambda x, y, w: scanned(
        lambda t, _: (t + jnp.sum((x - t[:, None]) ** 2, -1) * 0.01, t.sum()), w, jnp.zeros(9)
    ),
}
KEPT = {
    "products that take rows": lambda x, y, w: loop(lambda x: (x / length(x) @ jnp.ones((x.shape[1], x.shape[1])),), x),
    "rows at indices": lambda x, y, w: loop(lambda x: (x[jnp.argsort(x[:, 0])] / length(x),), x),
    "products that take the transpose": lambda x, y, w: loop(
        lambda x: (x / length(x) + 0.1 * jnp.ones((len(w), x.shape[1])) * (x.T @ w),), x
    ),
    "nothing but elements": lambda x, y, w: loop(lambda x, v: (x + 0.1 * v, v - 0.1 * x), x, y),
    "a loop inside": lambda x, y, w: loop(lambda x: (lax.fori_loop(0, 3, lambda i, z: z[::-1] / length(z), x),), x),
}


def inputs(n, k):
    rng = np.random.default_rng(n)
    return [jnp.asarray(rng.standard_normal(s).astype(np.float32)) for s in ((n, k), (n, k), (n,))]


def carried(f, args):
    """The shapes of what the outermost loops of a program carry."""
    eqns = run_passes(fgrad.make_jaxpr(f)(*args)).jaxpr.eqns
    return [v.aval.shape for e in eqns if e.primitive.name in ("scan", "while") for v in e.invars]


@pytest.mark.parametrize("n,k", [(17, 3), (40, 4), (300, 3)])
@pytest.mark.parametrize("name", [*SPLIT, *KEPT])
def test_results_are_those_of_points_as_they_are(name, n, k, monkeypatch):
    f, args = {**SPLIT, **KEPT}[name], inputs(n, k)
    got = fgrad.tree.leaves(fgrad.jit(f)(*args))
    monkeypatch.setattr(fgrad.control.points, "ROWS", 10**9)
    monkeypatch.setattr(fgrad.compile.program, "split_columns", lambda nodes, outs, sub: nodes)
    want = fgrad.tree.leaves(fgrad.jit(lambda *args: f(*args))(*args))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=2e-4, atol=2e-4 * (1 + np.abs(np.asarray(w)).max()))


@pytest.mark.parametrize("name", [*SPLIT, *KEPT])
def test_what_is_carried_by_columns(name):
    rows = [s for s in carried({**SPLIT, **KEPT}[name], inputs(40, 3)) if s == (40, 3)]
    assert bool(rows) == (name in KEPT), rows
