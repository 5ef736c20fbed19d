"""Idle threads sleep: a machine with other work keeps its cores."""

import time

import numpy as np

import fgrad.numpy as jnp


def test_idle_workers_use_no_processor_time():
    x = jnp.asarray(np.ones(1_000_000, np.float32))
    for _ in range(3):
        jnp.sin(x)
    time.sleep(0.05)  # what spins in vain gives up by now
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.1
