"""Fixtures of all tests."""

import pytest

from fgrad._kernels import executor, gemm


@pytest.fixture
def denormals():
    """Programs compute with denormal numbers, which otherwise count as zeros."""
    before = executor.flush_denormals(False)
    yield
    executor.flush_denormals(before)


@pytest.fixture
def tile_unit():
    """Products, convolutions and attention run on the processor's tile unit; skipped where there is none."""
    before = gemm.use_amx(True)
    if not gemm.use_amx(True):
        gemm.use_amx(before)
        pytest.skip("this processor has no tile unit")
    yield
    gemm.use_amx(before)
