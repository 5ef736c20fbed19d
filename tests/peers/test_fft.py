"""numpy.fft against jax.numpy.fft: values, dtypes, gradients."""

import inspect

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from tests.peers.test_linalg import close, complexes, reals, weighted

pytestmark = pytest.mark.peers
jax = pytest.importorskip("jax")
jax_scipy_fft = pytest.importorskip("jax.scipy.fft")
import jax.numpy as jaxnp  # noqa: E402

REAL, COMPLEX = reals(3, 4, 6), complexes(3, 4, 5)
KINDS = ("fft", "ifft", "rfft", "irfft")
ROWS = [
    *[(kind + axes, x, {}) for kind in KINDS for axes in ("", "2", "n") for x in (REAL, COMPLEX) if kind != "rfft" or x is REAL],
    *[(kind, REAL, dict(n=n, axis=1, norm=norm)) for kind in KINDS for n, norm in ((3, "ortho"), (7, "forward"), (1, "backward"))],
    *[(kind + "n", REAL, dict(s=(5, 2), axes=(2, 0), norm="ortho")) for kind in KINDS],
    *[(kind + "n", REAL, dict(s=(5,))) for kind in KINDS if kind != "x"],
    ("hfft", COMPLEX, {}),
    ("hfft", COMPLEX, dict(n=6, norm="ortho")),
    ("ihfft", REAL, {}),
    ("ihfft", REAL, dict(n=3, axis=0)),
    ("fftshift", REAL, {}),
    ("ifftshift", REAL, dict(axes=(0, 2))),
    ("fft", np.arange(5), {}),
    ("fftn", reals(2, 2, 2, 2, 3), {}),
    ("irfftn", complexes(2, 2, 2, 2, 3), {}),
]
IDS = [f"{i}-{r[0]}" for i, r in enumerate(ROWS)]


@pytest.mark.parametrize("name, x, kw", ROWS, ids=IDS)
def test_values(name, x, kw):
    got, want = getattr(jnp.fft, name)(jnp.asarray(x), **kw), getattr(jaxnp.fft, name)(jaxnp.asarray(x), **kw)
    assert got.weak_type == want.weak_type
    close(got, want, 1e-4)


@pytest.mark.parametrize(
    "name, x, kw", [r for r in ROWS if r[1].dtype.kind != "i"], ids=[i for i, r in zip(IDS, ROWS) if r[1].dtype.kind != "i"]
)
def test_gradients(name, x, kw):
    got = fgrad.grad(weighted(lambda v: getattr(jnp.fft, name)(v, **kw), jnp))(jnp.asarray(x))
    want = jax.grad(weighted(lambda v: getattr(jaxnp.fft, name)(v, **kw), jaxnp))(jaxnp.asarray(x))
    close(got, want, 1e-4)


COSINE = [
    *[(name, REAL, dict(norm=norm, n=n)) for name in ("dct", "idct") for norm in (None, "ortho") for n in (None, 5, 8)],
    *[(name, REAL, dict(norm=norm, axes=(0, 2))) for name in ("dctn", "idctn") for norm in (None, "ortho")],
    *[(name, REAL, dict(norm=norm, s=(4, 7))) for name in ("dctn", "idctn") for norm in (None, "ortho")],
    ("dctn", REAL, {}),
    ("dct", COMPLEX, dict(axis=0)),
]  # fmt: skip


@pytest.mark.parametrize("name, x, kw", COSINE)
def test_cosine_transforms(name, x, kw):
    ours, theirs = getattr(fgrad.scipy.fft, name), getattr(jax_scipy_fft, name)
    close(ours(x, **kw), theirs(x, **kw), 1e-4)
    got = fgrad.grad(weighted(lambda v: ours(v, **kw), jnp))(jnp.asarray(x))
    close(got, jax.grad(weighted(lambda v: theirs(v, **kw), jaxnp))(jaxnp.asarray(x)), 1e-4)


def test_frequencies():
    for n in (1, 5, 8):
        for name in ("fftfreq", "rfftfreq"):
            close(getattr(jnp.fft, name)(n, 0.3), getattr(jaxnp.fft, name)(n, 0.3), 1e-6)


def test_names_and_signatures():
    names = [n for n in dir(jaxnp.fft) if not n.startswith("_")]
    assert not [n for n in names if not hasattr(jnp.fft, n)]
    for n in names:
        assert list(inspect.signature(getattr(jnp.fft, n)).parameters) == list(inspect.signature(getattr(jaxnp.fft, n)).parameters), n
