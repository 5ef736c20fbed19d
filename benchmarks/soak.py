"""python -m benchmarks.soak: twenty programs in turn for half an hour; memory must not grow, and calls must not become slower.

One process holds a fifth of the programs' compiled forms for the whole run and makes the others anew now and then, so that what a
dropped program leaves behind would show. Exit status 1 where resident memory grew by more than the pool may keep, or time drifted.
"""

import argparse
import gc
import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np

import fgrad
from benchmarks.namespaces import Backend
from benchmarks.report import geomean
from benchmarks.worker import rss_mb
from benchmarks.workload import load_all

PROGRAMS = (
    ("elementwise/chain", (10_000,)),
    ("elementwise/chain value_and_grad", (1_000_000,)),
    ("losses/cross-entropy grad", (1024, 128)),
    ("losses/cross-entropy grad, written out", (256, 32000)),
    ("training/MLP step", ("digits",)),
    ("training/Llama step", ()),
    ("attention/causal forward and backward", (512,)),
    ("norms/layer_norm value_and_grad", (4096, 128)),
    ("norms/softmax", (2048, 1024)),
    ("reductions/sort", (1000, 1000)),
    ("reductions/cumsum", ("columns",)),
    ("matmul/square", (512,)),
    ("matmul/batch,n", (64, 128)),
    ("control flow/LSTM by scan, value_and_grad", ()),
    ("control flow/Runge-Kutta by fori_loop", (1000,)),
    ("derivatives/per-example gradients", (64,)),
    ("derivatives/Hessian of Rosenbrock's function", (100,)),
    ("indexing/embedding value_and_grad", (27, 32)),
    ("random/normal", (1_000_000,)),
    ("conv/a small network's step: batch,size", (32, 32)),
)
SLICE = 0.05  # seconds for one program in one round


class Program:
    """A workload built for fgrad: call it, or build it again."""

    def __init__(self, backend, name, size):
        self.backend, self.label = backend, f"{name} {'x'.join(map(str, size))}".strip()
        self.work = load_all()[name](*size)
        self.inputs = self.work.inputs(np.random.default_rng(0))  # once: NumPy's heap is not what is measured
        self.seconds = []  # the median call of each round
        self.build()

    def build(self):
        self.call = self.work.jaxlike(self.backend.m, *self.backend.arrays(self.inputs))
        self.call()

    def run(self):
        times, end = [], time.perf_counter() + SLICE
        while not times or time.perf_counter() < end:
            start = time.perf_counter()
            self.call()
            times.append(time.perf_counter() - start)
        self.seconds.append(statistics.median(times))


def drift(seconds, share=5):
    """Median of the last fifth of the rounds over that of the first fifth."""
    n = max(1, len(seconds) // share)
    return statistics.median(seconds[-n:]) / statistics.median(seconds[:n])


def soak(minutes, rebuild_every=5, report=print):
    """Run for `minutes`; returns {"rounds", "rss_mb", "pool_mb", "drift", "programs"}, memory after each round."""
    backend = Backend("fgrad", fgrad.get_num_threads())
    programs = [Program(backend, name, size) for name, size in PROGRAMS]
    rss, pool, end, said = [], [], time.monotonic() + 60 * minutes, 0.0
    for program in programs:  # every buffer is in the pool once before memory is compared
        program.run()
    while time.monotonic() < end or len(rss) < 5:  # the verdict compares fifths
        for i, program in enumerate(programs):
            if i % rebuild_every and len(rss) % (rebuild_every * 4) == i % (rebuild_every * 4):
                program.build()
            program.run()
        gc.collect()
        rss.append(rss_mb())
        stats = fgrad.memory_stats()
        pool.append((stats["live"] + stats["idle"]) / 1e6)
        if time.monotonic() > said + 60:
            said = time.monotonic()
            report(f"{len(rss):5} rounds, {(end - said) / 60:5.1f} minutes left, {rss[-1]:.0f} MB resident, {pool[-1]:.0f} MB in the pool")
    rates = {p.label: drift(p.seconds[1:]) for p in programs}
    return {"rounds": len(rss), "rss_mb": rss, "pool_mb": pool, "drift": geomean(rates.values()), "programs": rates}


def verdict(result, growth_mb, drift_bound):
    """Lines of findings, and whether all is well."""
    n = max(1, result["rounds"] // 5)
    first, last = (statistics.median(part) for part in (result["rss_mb"][:n], result["rss_mb"][-n:]))
    good = last - first <= growth_mb and result["drift"] <= drift_bound
    worst = sorted(result["programs"].items(), key=lambda x: -x[1])[:3]
    lines = [
        f"{result['rounds']} rounds of {len(result['programs'])} programs",
        f"resident memory: {first:.0f} MB in the first fifth, {last:.0f} MB in the last, {max(result['rss_mb']):.0f} MB at most",
        f"time of the last fifth over the first: {result['drift']:.3f} (geometric mean); most: "
        + ", ".join(f"{label} {ratio:.2f}" for label, ratio in worst),
    ]
    return lines, good


def plot(result, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3))
    axes.plot(result["rss_mb"], label="resident")
    axes.plot(result["pool_mb"], label="pool")
    axes.set(xlabel="round", ylabel="MB", ylim=0)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main(argv=None):
    p = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__.split("\n")[0])
    p.add_argument("--minutes", type=float, default=30)
    p.add_argument("--growth", type=float, default=50, help="MB that resident memory may grow by")
    p.add_argument("--drift", type=float, default=1.1, help="allowed time of the last fifth of the rounds over the first")
    p.add_argument("--json", metavar="FILE")
    p.add_argument("--png", metavar="FILE", help="plot of memory (needs matplotlib)")
    args = p.parse_args(argv)
    result = soak(args.minutes)
    lines, good = verdict(result, args.growth, args.drift)
    print("\n".join(lines))
    if args.json:
        Path(args.json).write_text(json.dumps(result))
    if args.png:
        plot(result, args.png)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
