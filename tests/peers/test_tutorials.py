"""Whole programs, each run by JAX and by fgrad with one change: the module that is imported."""

import importlib

import pytest

from tests.peers.compare import assert_same
from tests.peers.tutorials import TUTORIALS

pytestmark = pytest.mark.peers


@pytest.mark.parametrize("name", TUTORIALS)
def test_tutorial(name):
    pytest.importorskip("jax")
    program = TUTORIALS[name]
    want, got = (program.fun(importlib.import_module(library)) for library in ("jax", "fgrad"))
    assert_same(got, want, name, program.rtol)
