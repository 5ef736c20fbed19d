"""The rows of tests/test_numpy_table.py against jax.numpy: values, dtypes, weak types, shapes, gradients; and the names and signatures."""

import inspect

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from tests.test_numpy_table import ROWS, arrays, leaves

pytestmark = pytest.mark.peers
jax = pytest.importorskip("jax")
import jax.numpy as jaxnp  # noqa: E402

FUNCTIONS = {np.sort: "sort", np.sum: "sum", np.triu: "triu"}
# Of equal rank there are several partitions.
UNORDERED = {"partition": np.sort, "argpartition": np.sort}
# jax.numpy.fix is gone; NumPy still has it.
ROWS = [r for r in ROWS if hasattr(jaxnp, r.name)]
IDS = [f"{i}-{r}" for i, r in enumerate(ROWS)]
# JAX refuses to differentiate these, or orders equals differently.
NO_GRADIENT = ("spacing", "nextafter", "partition", "ldexp")  # ldexp: JAX forms 2 ** n first, which overflows


def call(module, row, to):
    args = [getattr(module, FUNCTIONS[a]) if callable(a) and a in FUNCTIONS else a for a in row.args]
    return getattr(module, row.name)(*arrays(args, to), **{k: arrays(v, to) for k, v in row.kwargs.items()})


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_rows(row):
    want, got = leaves(call(jaxnp, row, jaxnp.asarray)), leaves(call(jnp, row, jnp.asarray))
    assert len(got) == len(want)
    for g, w in zip(got, want):
        if not hasattr(w, "dtype"):
            assert g == w
            continue
        assert (g.shape, g.dtype, getattr(g, "weak_type", False)) == (w.shape, w.dtype, getattr(w, "weak_type", False))
        g, w = (UNORDERED.get(row.name, np.asarray)(np.asarray(v)) for v in (g, w))
        np.testing.assert_allclose(g, w, rtol=max(row.rtol, 1e-4), atol=max(row.rtol, 1e-5) if w.dtype.kind in "fc" else 0)


def smooth(row):
    return (
        row.name not in NO_GRADIENT
        and row.jit
        and row.args
        and isinstance(row.args[0], np.ndarray)
        and row.args[0].dtype == np.float32
        and row.args[0].size
    )


@pytest.mark.parametrize("row", [r for r in ROWS if smooth(r)], ids=[i for i, r in zip(IDS, ROWS) if smooth(r)])
def test_gradients(row):
    """The gradient in the first argument of a weighted sum of all floating results."""

    def loss(module, to):
        def f(x):
            out = leaves(call(module, row._replace(args=(x, *row.args[1:])), to))
            total = 0.0
            for o in out:
                if hasattr(o, "dtype") and o.dtype.kind == "f":
                    total = total + (o * to(np.cos(np.arange(o.size, dtype=np.float32)).reshape(o.shape))).sum()
            return total + x.sum() * 0

        return f

    x = row.args[0]
    want = np.asarray(jax.grad(loss(jaxnp, jaxnp.asarray))(x))
    got = fgrad.grad(loss(jnp, jnp.asarray))(jnp.asarray(x))
    np.testing.assert_allclose(np.asarray(got), want, rtol=2e-3, atol=2e-4)
    got = fgrad.jit(fgrad.grad(loss(jnp, jnp.asarray)))(jnp.asarray(x))
    np.testing.assert_allclose(np.asarray(got), want, rtol=2e-3, atol=2e-4)


PUBLIC = [n for n in dir(jaxnp) if not n.startswith("_")]
# Dtypes that NumPy and the kernels have no arithmetic for; functions that need factorizations; a module of its own.
ABSENT = {n for n in PUBLIC if n.startswith(("float4", "float6", "float8")) or n in ("int1", "int2", "int4", "uint1", "uint2", "uint4")}


def test_names():
    missing = {n for n in PUBLIC if not hasattr(jnp, n)} - ABSENT
    assert missing <= {"fft", "polyfit", "roots"}, missing


def functions():
    for n in PUBLIC:
        f = getattr(jaxnp, n)
        if callable(f) and not isinstance(f, type) and callable(getattr(jnp, n, None)):
            try:
                inspect.signature(f)
            except (TypeError, ValueError):
                continue
            yield n


@pytest.mark.parametrize("name", sorted(functions()))
def test_signatures(name):
    """Every argument of JAX's function is taken, by the same name and in the same place; sharding is the exception."""
    ours, theirs = (inspect.signature(getattr(m, name)).parameters for m in (jnp, jaxnp))
    if name in ("array_repr", "frompyfunc") or any(p.kind is p.VAR_POSITIONAL for p in theirs.values()):
        return
    theirs = {k: p for k, p in theirs.items() if k not in ("out_sharding", "_dot_general")}
    loose = {k: p for k, p in theirs.items() if p.kind is not p.POSITIONAL_ONLY and p.kind is not p.VAR_KEYWORD}
    assert loose.keys() <= ours.keys(), (list(ours), list(theirs))
    places = lambda ps: [k for k, p in ps.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert places(ours)[: len(places(loose))] == places(loose)
    for k, p in loose.items():
        if isinstance(p.default, (bool, int, float, str, type(None))) and p.default is not p.empty:
            assert ours[k].default == p.default, k
