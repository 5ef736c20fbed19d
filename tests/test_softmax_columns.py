"""Softmaxes down columns: rows whose last vector is a part, tiles finished together, and shares of threads of any size."""

import numpy as np
import pytest

import fgrad
from fgrad import nn


def _expected(x):
    x = x.astype(np.float64)
    top = np.max(x, 0)
    origin = np.where(np.isfinite(top), top, 0)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        total = np.log(np.sum(np.exp(x - origin), 0)) + origin
    return {"softmax": np.exp(x - total), "log_softmax": x - total, "logsumexp": total}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(100, 3, 37), (100, 2, 100), (700, 1, 333), (600, 1, 1061), (513, 1, 65), (40, 5, 31)])
def test_columns(shape, dtype):
    rows, batch, columns = shape
    x = np.random.default_rng(0).uniform(-9, 9, (batch, rows, columns)).astype(dtype)
    x[:, ::3, ::5] = -np.inf
    before = fgrad.get_num_threads()
    with fgrad.enable_x64(dtype == "float64"):
        for name in ("softmax", "log_softmax", "logsumexp"):
            made = {}
            for threads in (1, 2, 3, 5):
                fgrad.set_num_threads(threads)
                made[threads] = np.asarray(getattr(nn, name)(x, axis=1))
            fgrad.set_num_threads(before)
            expected = np.stack([_expected(part)[name] for part in x])
            np.testing.assert_allclose(
                made[1], expected, rtol=2e-5 if dtype == "float32" else 1e-12, atol=1e-6 if dtype == "float32" else 1e-14
            )
            for threads in (2, 3, 5):
                np.testing.assert_array_equal(made[threads], made[1])
