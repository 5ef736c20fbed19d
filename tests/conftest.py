"""Fixtures of all tests."""

import pytest

from fgrad._kernels import executor


@pytest.fixture
def denormals():
    """Programs compute with denormal numbers, which otherwise count as zeros."""
    before = executor.flush_denormals(False)
    yield
    executor.flush_denormals(before)
