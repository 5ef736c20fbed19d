"""The pool of array memory: what it counts, what it keeps and what it gives back."""

import functools
import gc
import os
import threading

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp

MB = 1_000_000


@functools.partial(fgrad.jit, static_argnums=0)
def filled(size, value):
    return jnp.where(jnp.arange(size) < size, jnp.float32(value), 0)


def resident():
    """Bytes of the process's own pages: those of files come and go with what the system does."""
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("RssAnon:"))


@pytest.mark.parametrize("size", [1, 1000, 999_999, 1_048_560, 1_048_576, 4_000_000])
def test_dropped_blocks_are_idle_then_reused_then_returned(size):
    filled(size, 0)  # what is compiled and kept at the first call
    gc.collect()
    fgrad.trim_memory()
    before = fgrad.memory_stats()
    x = filled(size, 1)
    held = fgrad.memory_stats()["live"] - before["live"]
    assert 4 * size <= held <= 5 * size + 64
    del x
    after = fgrad.memory_stats()
    assert after["live"] == before["live"] and after["idle"] >= held
    y = filled(size, 2)
    assert fgrad.memory_stats()["idle"] <= after["idle"] - held
    assert float(y[-1]) == 2
    del y
    fgrad.trim_memory()
    assert fgrad.memory_stats()["idle"] == 0


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads /proc")
def test_large_blocks_leave_the_process_when_trimmed():
    gc.collect()
    fgrad.trim_memory()
    before = resident()
    xs = [filled(8 * MB, i) for i in range(6)]
    small = [filled(3, i) for i in range(100)]  # would pin a heap that the large ones were cut from
    assert resident() - before > 150 * MB
    assert [float(x[-1]) for x in xs] == list(range(6))
    del xs
    fgrad.trim_memory()
    assert resident() - before < 50 * MB
    assert [float(x[0]) for x in small] == list(range(100))


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads /proc")
def test_blocks_cut_from_stretches_lose_their_pages_when_trimmed_and_serve_again():
    sizes = [9_000, 60_000, 300_000, 900_000]  # elements: 36 kB to 3.6 MB
    for n in sizes:
        filled(n, 0)
    gc.collect()
    fgrad.trim_memory()
    before = resident()
    for turn in range(3):
        xs = [filled(n, i + turn) for n in sizes for i in range(12)]
        assert resident() - before > 50 * MB
        assert all(bool((x == i % 12 + turn).all()) for i, x in enumerate(xs))
        del xs
        fgrad.trim_memory()
        assert fgrad.memory_stats()["idle"] == 0
        assert resident() - before < 10 * MB


def test_threads_share_the_pool():
    wrong = []

    def work(seed):
        sizes = np.random.default_rng(seed).integers(1, 3 * MB, 40)
        for n in sizes:
            if not bool((filled(int(n), seed) == seed).all()):
                wrong.append(n)

    def run():
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not wrong

    run()  # what is compiled and kept at the first calls
    gc.collect()
    live = fgrad.memory_stats()["live"]
    run()
    assert fgrad.memory_stats()["live"] == live


def test_what_the_system_cannot_give_is_an_error():
    with pytest.raises((MemoryError, RuntimeError), match="memory"):
        jnp.zeros(1 << 44, "float32") + 1
    assert float((jnp.zeros(10) + 1).sum()) == 10
