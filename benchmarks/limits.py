"""The machine's own limits, measured in the run that they are compared with: memory bandwidth and matrix products."""

import os
import threading
import time

import numpy as np

from benchmarks.runner import Options, run_workload
from benchmarks.workload import WORKLOADS

TILE = 1 << 16  # floats; three tiles fit a core's second-level cache


def _triad(a, b, c):
    for i in range(0, a.size, TILE):
        part = a[i : i + TILE]
        np.multiply(c[i : i + TILE], np.float32(3), out=part)
        np.add(part, b[i : i + TILE], out=part)


def triad_gbs(threads, elements=20_000_000, rounds=8):
    """STREAM's triad a = b + 3 c over float32 arrays far larger than the caches: the best of `rounds`, 12 bytes per element."""
    a, b, c = (np.full(elements, v, np.float32) for v in (0, 1, 2))
    cuts = [elements * i // threads for i in range(threads + 1)]
    best = float("inf")
    for _ in range(rounds):
        parts = [threading.Thread(target=_triad, args=(a[i:j], b[i:j], c[i:j])) for i, j in zip(cuts, cuts[1:])]
        start = time.perf_counter()
        for p in parts:
            p.start()
        for p in parts:
            p.join()
        best = min(best, time.perf_counter() - start)
    return 12 * elements / best / 1e9


def last_level_cache():
    """Bytes of the largest cache, 32 MiB where the system does not tell."""
    try:
        base = "/sys/devices/system/cpu/cpu0/cache"
        sizes = [open(f"{base}/{d}/size").read().strip() for d in os.listdir(base) if d.startswith("index")]
        return max(int(s[:-1]) * {"K": 1 << 10, "M": 1 << 20}[s[-1]] for s in sizes)
    except (OSError, ValueError, KeyError):
        return 32 << 20


PRODUCTS = {"matmul/square": "sgemm_gflops", "matmul/square float64": "dgemm_gflops"}


def measure(peers, options):
    """{"triad_gbs", "sgemm_gflops", "dgemm_gflops", "cache_bytes"}: products by the fastest of the libraries at hand.

    However few rounds the run has: who disturbs one of these would make all that follows look better than the machine."""
    options = Options(options.threads, rounds=7, warm_up=0.1, wait_policy=options.wait_policy)
    limits = {"triad_gbs": triad_gbs(options.threads), "cache_bytes": last_level_cache(), **dict.fromkeys(PRODUCTS.values(), 0.0)}
    for name in PRODUCTS:
        for row in run_workload(WORKLOADS[name], [(1024,)], [p for p in peers if p in ("fgrad", "numpy", "jax", "torch")], options):
            seen(row, limits)
    return limits


def seen(row, limits):
    """Raise the limits to what some library has reached in this row, if it is one of the products that they are measured by."""
    if limits and row.workload in PRODUCTS and row.timings:
        key = PRODUCTS[row.workload]
        limits[key] = max(limits[key], row.flops / min(t.low for t in row.timings.values()) / 1e9)


def fraction(row, limits):
    """The share of the machine's limit that fgrad reaches: its bytes and flops at full speed over its time, or None.

    Arrays that fit the largest cache are not compared with the bandwidth of memory."""
    if not limits or "fgrad" not in row.timings or row.unit != "s":
        return None
    needs = []
    if row.flops:
        needs.append(row.flops / (limits["dgemm_gflops" if row.x64 else "sgemm_gflops"] * 1e9))
    if row.bytes and row.bytes > limits["cache_bytes"]:
        needs.append(row.bytes / (limits["triad_gbs"] * 1e9))
    return max(needs) / row.timings["fgrad"].median if needs else None
