"""Programs in JAX's vocabulary, run by fgrad and by JAX under every transformation that applies."""

import pytest

import fgrad
from tests.peers.compare import assert_same
from tests.peers.programs import PROGRAMS
from tests.peers.transforms import REFERENCE, Case, reference

pytestmark = pytest.mark.peers
CASES = [pytest.param(p.name, t, id=f"{p.name}-{t}") for p in PROGRAMS.values() for t in p.transforms]


@pytest.mark.parametrize("name, transform", CASES)
def test_program(name, transform):
    pytest.importorskip("jax")
    program = PROGRAMS[name]
    want = reference(name)[REFERENCE.get(transform, transform)]
    got = Case(fgrad, program, program.arguments()).run(transform)
    assert_same(got, want, f"{name}-{transform}", program.rtol)
