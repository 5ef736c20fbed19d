"""Idle threads sleep, so a machine with other work keeps its cores; who wakes them gives every core back."""

import os
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


def test_workers_keep_their_cores():
    """Workers are woken away from their caller's core, for as long as that takes."""
    x = jnp.asarray(np.ones(1_000_000, np.float32))
    expected = np.sin(np.float32(1))
    for _ in range(20):
        np.testing.assert_allclose(jnp.sin(x), expected, rtol=1e-6)
        time.sleep(0.002)
    if not hasattr(os, "sched_getaffinity"):
        return
    jnp.sin(x)
    time.sleep(0.05)
    cores = [os.sched_getaffinity(int(thread)) for thread in os.listdir("/proc/self/task")]
    assert all(c == os.sched_getaffinity(0) for c in cores)
