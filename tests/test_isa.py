"""Kernels for several instruction sets: which one is loaded, and that each gives the same results."""

import os
import subprocess
import sys

import numpy as np
import pytest

from fgrad import _kernels

PROGRAM = """
import numpy as np, fgrad, fgrad.numpy as jnp
from fgrad import _kernels, lax, nn, random

def loss(w, x):
    h = nn.gelu(nn.layer_norm(x @ w["a"], jnp.ones(16), jnp.zeros(16)))
    return jnp.mean(nn.logsumexp(h @ w["b"], axis=1)) + jnp.sum(jnp.cumsum(jnp.sort(h, axis=0), axis=0)[3]) + lax.erf_inv(h[0, 0] * 1e-3)

k = random.split(random.key(0), 3)
w = {"a": random.normal(k[0], (24, 16)), "b": random.normal(k[1], (16, 40))}
value, grads = fgrad.jit(fgrad.value_and_grad(loss))(w, random.normal(k[2], (50, 24)))
print(_kernels.ISA, *np.concatenate([[value], np.ravel(grads["a"])[:40], np.ravel(grads["b"])[:40]]).tolist())
"""


def run(isa):
    out = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env={**os.environ, "FGRAD_ISA": isa})
    return out


def built():
    return [name for name in _kernels.VARIANTS or ["native"] if name == "native" or name in _kernels.supported()]


@pytest.mark.parametrize("isa", built())
def test_every_variant_that_this_machine_runs_gives_the_same_results(isa):
    out = run(isa)
    assert out.returncode == 0, out.stderr
    name, *numbers = out.stdout.split()
    assert name == isa
    here = run("").stdout.split()
    assert here[0] == _kernels.ISA or os.environ.get("FGRAD_ISA")
    np.testing.assert_allclose(np.array(numbers, float), np.array(here[1:], float), rtol=2e-5, atol=2e-6)


def test_a_variant_that_was_not_built_is_refused():
    out = run("x86-64-v9")
    assert out.returncode and "FGRAD_ISA=x86-64-v9: this build of fgrad has kernels for" in out.stderr


def test_the_best_variant_that_runs_is_chosen():
    levels = ("x86-64-v3", "x86-64-v2", "x86-64-v1")
    assert _kernels.choose(["x86-64-v2", "x86-64-v3", "x86-64-v4"], levels) == "x86-64-v3"
    assert _kernels.choose(["x86-64-v2", "x86-64-v4"], levels) == "x86-64-v2"
    assert _kernels.choose(["x86-64-v2", "x86-64-v3"], levels, "x86-64-v2") == "x86-64-v2"
    assert _kernels.choose([], levels) == _kernels.choose([], (), "native") == "native"


def test_a_processor_without_a_variant_is_told_so():
    with pytest.raises(ImportError, match="this processor runs x86-64-v1: build fgrad from source"):
        _kernels.choose(["x86-64-v2", "x86-64-v3"], ("x86-64-v1",))
    with pytest.raises(ImportError, match="FGRAD_ISA=x86-64-v3, but this processor runs x86-64-v2"):
        _kernels.choose(["x86-64-v2", "x86-64-v3"], ("x86-64-v2", "x86-64-v1"), "x86-64-v3")


def test_a_folder_without_kernels_is_no_variant(tmp_path):
    (tmp_path / "isa-x86-64-v2").mkdir()
    (tmp_path / "isa-x86-64-v3").mkdir()
    (tmp_path / "isa-x86-64-v3" / "array.so").touch()
    assert list(_kernels.variants(tmp_path)) == ["x86-64-v3"]
