"""python -m benchmarks.growth: how fgrad's cost grows with size, with the number of equations, and how it falls with threads.

Size: seconds per call. Equations: seconds from the first trace to the first result. Threads: every workload's time on one thread
over its time on all, alternating, where a call takes more than a millisecond. All in this process, medians.
"""

import argparse
import json
import os
import re
import statistics
import sys
import time
from pathlib import Path

import numpy as np

import fgrad
from benchmarks.namespaces import Backend
from benchmarks.report import geomean
from benchmarks.workload import load_all, normal

jnp, lax = fgrad.numpy, fgrad.lax


def _chain(x):
    return jnp.sum(jnp.tanh(x * 1.5 + 0.1) * fgrad.nn.sigmoid(x) + jnp.log1p(jnp.exp(x)))


def _norm(x):
    return jnp.sum(jnp.square(fgrad.nn.layer_norm(x.reshape(-1, 256))))


def _cross_entropy(x):
    x = x.reshape(-1, 64)
    return -jnp.mean(fgrad.nn.log_softmax(x)[:, 3])


def _loop(x):
    return lax.fori_loop(0, 20, lambda i, x: x + 0.01 * jnp.sin(x), x)


SIZES = tuple(4**k for k in range(7, 13))  # elements
BY_SIZE = {
    "value and grad of an elementwise chain": fgrad.value_and_grad(_chain),
    "grad of layer norm": fgrad.grad(_norm),
    "grad of cross-entropy": fgrad.grad(_cross_entropy),
    "cumulative sum": jnp.cumsum,
    "loop of 20 steps": _loop,
}


def _layers(x, n):
    w = jnp.full((16, 16), 0.1)
    for _ in range(n):
        x = jnp.tanh(x @ w) * 1.01
    return jnp.sum(x)


def _operations(x, n):
    for i in range(n):
        x = jnp.sin(x) + float(i)
    return x


def _unrolled(x, n):
    h = c = x
    for i in range(n):
        h = jnp.where(h > 0, fgrad.nn.sigmoid(h + c), c * float(i))
        c = c + jnp.mean(h, axis=0)
    return jnp.sum(h)


def _wide(x, n):
    return sum(jnp.sum(jnp.exp(x * float(i))) for i in range(n))


COUNTS = (25, 50, 100, 200, 400)
BY_EQUATIONS = {
    "chain of sines": _operations,
    "grad of layers": lambda x, n: fgrad.grad(_layers)(x, n),
    "vmap of grad of layers": lambda x, n: fgrad.vmap(lambda r: fgrad.grad(_layers)(r, n))(x),
    "grad of an unrolled recurrence": lambda x, n: fgrad.grad(_unrolled)(x, n),
    "grad of a wide sum": lambda x, n: fgrad.grad(_wide)(x, n),
}


def _median(call, budget=0.3, least=5):
    times, end = [], time.perf_counter() + budget
    while len(times) < least or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def by_size(function):
    """Seconds per call at each of SIZES."""
    seconds = []
    for n in SIZES:
        f, x = fgrad.jit(function), jnp.asarray(normal(np.random.default_rng(0), n))
        f(x)
        seconds.append(_median(lambda: f(x)))  # noqa: B023
    return seconds


def by_equations(function):
    """Seconds from trace to result at each of COUNTS, and the equations that were traced."""
    x, seconds, equations = jnp.ones((16, 16)), [], []
    for n in COUNTS:
        first = lambda: fgrad.jit(lambda x: function(x, n))(x)  # noqa: B023
        first()
        equations.append(len(fgrad.make_jaxpr(lambda x: function(x, n))(x).jaxpr.eqns))  # noqa: B023
        seconds.append(_median(first, budget=0.1, least=3))
    return seconds, equations


def exponent(x, y):
    """The slope of log y over log x in the upper half: 1 where cost grows in proportion."""
    half = len(x) // 2
    return float(np.polyfit(np.log(x[half - 1 :]), np.log(y[half - 1 :]), 1)[0])


def _settle(call, calls=90, budget=0.3):
    """Programs find out by the clock whether threads are worth it, in up to 72 calls after their number has changed."""
    end = time.perf_counter() + budget
    for _ in range(calls):
        call()
        if time.perf_counter() > end:
            break


def by_threads(pattern, rounds=9, least=1e-3):
    """{row: seconds on one thread over seconds on all} of every workload whose call takes more than `least` seconds on one."""
    cores = fgrad.get_num_threads()
    backend, ratios = Backend("fgrad", cores), {}
    for cls in load_all().values():
        for size in cls.sizes if cls.kind == "time" else ():
            work = cls(*size)
            label = f"{work.name} {work.label}"
            if not re.search(pattern, label) or work.x64:
                continue
            call = work.jaxlike(backend.m, *backend.arrays(work.inputs(np.random.default_rng(0))))
            times = {1: [], cores: []}
            for _ in range(rounds):
                for n in times:
                    fgrad.set_num_threads(n)
                    _settle(call)
                    times[n].append(_median(call, budget=0.01, least=1))
            one, both = (statistics.median(t) for t in times.values())
            if one > least:
                ratios[label] = one / both
                print(f"  {label:60} {one / both:.2f}", flush=True)
    fgrad.set_num_threads(cores)
    return ratios


def plot(result, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.5))
    for name, (x, y, slope) in result["size"].items():
        left.loglog(x, y, "o-", label=f"{name} ({slope:.2f})")
    for name, (x, y, slope) in result["equations"].items():
        right.loglog(x, y, "o-", label=f"{name} ({slope:.2f})")
    left.set(xlabel="elements", ylabel="seconds per call")
    right.set(xlabel="equations traced", ylabel="seconds to the first result")
    for axes in (left, right):
        axes.legend(fontsize=7, title="slope of the upper half", title_fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main(argv=None):
    p = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__.split("\n")[0])
    p.add_argument("--threads", metavar="REGEX", help="also compare one thread with all, for workloads that match")
    p.add_argument("--json", metavar="FILE")
    p.add_argument("--png", metavar="FILE", help="needs matplotlib")
    args = p.parse_args(argv)
    result = {"size": {}, "equations": {}, "threads": {}}
    print("Growth with size: exponent (1 is proportional), nanoseconds per element")
    for name, function in BY_SIZE.items():
        y = by_size(function)
        result["size"][name] = SIZES, y, exponent(SIZES, y)
        print(f"  {name:40} {exponent(SIZES, y):5.2f}  ", *(f"{1e9 * t / n:.2f}" for t, n in zip(y, SIZES)))
    print("Growth with equations: exponent, microseconds per equation to the first result")
    for name, function in BY_EQUATIONS.items():
        y, x = by_equations(function)
        result["equations"][name] = x, y, exponent(x, y)
        print(f"  {name:40} {exponent(x, y):5.2f}  ", *(f"{1e6 * t / n:.1f}" for t, n in zip(y, x)))
    if args.threads is not None and (os.cpu_count() or 1) > 1:
        print(f"One thread over {fgrad.get_num_threads()}:")
        result["threads"] = by_threads(args.threads)
        print(f"  geometric mean of {len(result['threads'])} rows: {geomean(result['threads'].values()) or float('nan'):.2f}")
    if args.json:
        Path(args.json).write_text(json.dumps(result))
    if args.png:
        plot(result, args.png)
    return 0


if __name__ == "__main__":
    sys.exit(main())
