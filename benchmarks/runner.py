"""The parent: starts a process per implementation, checks their results against each other, and times them in turn."""

import contextlib
import mmap
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

ROOT = str(Path(__file__).resolve().parents[1])
SETTLE = {"passive": 0.005, "default": 0.15}  # seconds between two implementations' samples, for pools to go to sleep


@dataclass
class Options:
    threads: int
    rounds: int = 15
    warm_up: float = 0.2
    sample: float = 0.02
    budget: float = 10.0  # seconds of samples for one implementation of one row
    processes: int = 5  # fresh processes per implementation, where first calls and imports are measured
    timeout: float = 120.0  # for one command; JAX takes longer for the gradient of 1000 layers
    wait_policy: str = "passive"


@dataclass
class Timing:
    """One implementation's figures in a row: seconds per call (or MB, for sizes)."""

    median: float
    low: float  # quartiles
    high: float
    first_call: float | None = None
    peak_mb: float | None = None
    grown_mb: float | None = None  # peak over the memory before the inputs were made
    arena_mb: float | None = None  # of fgrad's program


@dataclass
class Row:
    workload: str
    size: str
    unit: str
    core: bool
    note: str
    bytes: float | None = None
    flops: float | None = None
    x64: bool = False
    timings: dict = field(default_factory=dict)
    failures: dict = field(default_factory=dict)
    mismatches: dict = field(default_factory=dict)
    checked: list = field(default_factory=list)  # peers whose results were compared

    def ratio(self, peer):
        """peer / fgrad, or None."""
        if peer not in self.timings or "fgrad" not in self.timings or peer in self.mismatches:
            return None
        return self.timings[peer].median / self.timings["fgrad"].median

    def best_peer(self):
        ratios = {p: self.ratio(p) for p in self.timings if p != "fgrad"}
        ratios = {p: r for p, r in ratios.items() if r is not None}
        return min(ratios.items(), key=lambda item: item[1]) if ratios else (None, None)

    def as_dict(self):
        return asdict(self)

    @classmethod
    def from_dict(cls, d):
        return cls(**{**d, "timings": {k: Timing(**v) for k, v in d["timings"].items()}})


def timing_of(samples, **extra):
    q = np.percentile(samples, [25, 75])
    return Timing(statistics.median(samples), float(q[0]), float(q[1]), **extra)


class WorkerError(Exception):
    pass


def environment(options, x64=False):
    """Variables that give every library the same threads, and have their pools sleep while others are measured."""
    n = str(options.threads)
    env = dict(os.environ, JAX_PLATFORMS="cpu", PYTHONPATH=os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep))
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages have bytecode: a source tree has it from its first import on
    for name in ("FGRAD", "OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB", "BLIS"):
        env[f"{name}_NUM_THREADS"] = n
    env.update({"NUMEXPR_MAX_THREADS": n, "JAX_ENABLE_X64": str(int(x64)), "FGRAD_ENABLE_X64": str(int(x64))})
    if options.wait_policy == "passive":
        env.update({"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0", "GOMP_SPINCOUNT": "0"})
        env["OPENBLAS_THREAD_TIMEOUT"] = "20"  # NumPy's pool spins for 2^20 cycles after a product, not 2^28, which is 0.1 s
    return env


def _pin(threads):
    """In the child: fewer threads than cores means fewer cores (XLA counts those it may use)."""
    if hasattr(os, "sched_getaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        if threads < len(cores):
            os.sched_setaffinity(0, cores[:threads])


class WorkerProcess:
    """One implementation in a process of its own. Between commands it waits on a pipe."""

    def __init__(self, peer, options, x64=False):
        self.peer, self.timeout = peer, options.timeout
        self._log, self._compiled = tempfile.TemporaryFile(), tempfile.TemporaryDirectory()
        env = environment(options, x64) | {"TORCHINDUCTOR_CACHE_DIR": self._compiled.name}  # else a first call finds earlier code
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", peer, str(options.threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=env,
            preexec_fn=lambda: _pin(options.threads),
        )
        self.send("start")

    def send(self, command, *args):
        try:
            pickle.dump((command, args), self._process.stdin)
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # receive() reports it

    def receive(self):
        alarm = threading.Timer(self.timeout, self._process.kill)
        alarm.start()
        try:
            good, answer = pickle.load(self._process.stdout)
        except EOFError:
            code = self._process.wait()
            self._log.seek(0)
            tail = self._log.read().decode(errors="replace")[-2000:]
            raise WorkerError(f"the process ended with status {code} (limit {self.timeout:.0f} s)\n{tail}") from None
        finally:
            alarm.cancel()
        if not good:
            raise WorkerError(answer)
        return answer

    def ask(self, command, *args):
        self.send(command, *args)
        return self.receive()

    def close(self):
        with contextlib.suppress(BrokenPipeError):  # of a command that it did not live to read
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()
        self._compiled.cleanup()


def difference(a, b, tol):
    """What differs between two lists of digests by more than tol of the largest element, or None."""
    if len(a) != len(b):
        return f"{len(a)} results against {len(b)}"
    for i, (x, y) in enumerate(zip(a, b)):
        if tuple(x["shape"]) != tuple(y["shape"]):
            return f"result {i}: shape {x['shape']} against {y['shape']}"
        p, q = x["elements"], y["elements"]
        if not np.array_equal(np.isnan(p), np.isnan(q)):
            return f"result {i}: NaN in different places"
        scale = np.nanmax(np.abs(q), initial=0.0)
        error = np.nanmax(np.abs(p - q), initial=0.0)
        if error > tol * max(scale, 1e-30):
            return f"result {i} of shape {x['shape']}: error {error:.2e} where the largest element is {scale:.2e}"
        if abs(x["sum"] - y["sum"]) > 10 * tol * max(y["abs"], 1e-30):
            return f"result {i} of shape {x['shape']}: sum {x['sum']:.6e} against {y['sum']:.6e}"
    return None


def _check(row, work, answers):
    reference = answers.get("fgrad")
    for peer, answer in answers.items():
        if peer != "fgrad" and reference and peer not in work.unchecked:
            wrong = difference(reference["results"], answer["results"], work.tol)
            if wrong:
                row.mismatches[peer] = wrong


def _try_all(row, workers, command, *args, together=False):
    """command to every worker, one at a time or (where nothing is timed) all at once; failures leave `workers`."""
    answers = {}
    if together:
        for worker in workers.values():
            worker.send(command, *args)
    for peer, worker in list(workers.items()):
        try:
            answers[peer] = worker.receive() if together else worker.ask(command, *args)
        except WorkerError as e:
            row.failures[peer] = str(e).strip()
            del workers[peer]  # of this row; who started it closes it
    return answers


def _row(work):
    steady = work.kind == "time"
    return Row(work.name, work.label, "s", work.core, work.note, steady and work.bytes() or None, steady and work.flops() or None, work.x64)


def _start(peers, options, x64):
    """(workers that started, messages of those that did not)"""
    workers, failures = {p: WorkerProcess(p, options, x64) for p in peers}, {}
    for peer, worker in list(workers.items()):
        try:
            worker.receive()
        except WorkerError as e:
            failures[peer] = str(e).strip()
            workers.pop(peer).close()
    return workers, failures


def run_workload(cls, sizes, peers, options):
    """Yield a Row per size: implementations are prepared, compared, warmed up, and sampled round by round in turn."""
    peers = [p for p in peers if cls(*sizes[0]).implementation(p) is not None]
    if cls.kind == "first call":
        yield from (first_call_row(cls(*size), peers, options) for size in sizes)
        return
    workers, start_failures = _start(peers, options, cls.x64)
    try:
        for size in sizes:
            yield _steady_row(cls(*size), workers, dict(start_failures), options)
    finally:
        for worker in workers.values():
            worker.close()


def _steady_row(work, workers, failures, options):
    row = _row(work)
    row.failures = failures
    workers = dict(workers)
    prepared = _try_all(row, workers, "prepare", work.name, work.size)
    _check(row, work, prepared)
    row.checked = [p for p in prepared if p != "fgrad" and p not in work.unchecked]
    if not options.rounds:
        return row
    cost = _try_all(row, workers, "warm_up", options.warm_up, options.sample)
    samples = {p: [] for p in workers}
    limit = {p: max(3, min(options.rounds, int(options.budget / max(cost[p], options.sample)))) for p in workers}
    for i in range(options.rounds):
        order = list(workers)
        order = order[i % len(order) :] + order[: i % len(order)] if order else order
        for peer in order:
            if peer in workers and len(samples[peer]) < limit[peer]:
                time.sleep(SETTLE[options.wait_policy])
                answer = _try_all(row, one := {peer: workers[peer]}, "sample")
                if not one:
                    del workers[peer]
                else:
                    samples[peer].append(answer[peer])
    peaks = _try_all(row, workers, "peak")
    arenas = _try_all(row, {p: w for p, w in workers.items() if p == "fgrad"}, "arena")
    for p, peak in peaks.items():
        first = prepared[p]
        memory = {"peak_mb": peak, "grown_mb": peak - first["rss_before"], "arena_mb": arenas.get(p)}
        row.timings[p] = timing_of(samples[p], first_call=first["first_call"], **memory)
    return row


def touch_memory(nbytes=512 << 20):
    """Take memory and free it again. A virtual machine's host takes back what is free (free page reporting), and whoever runs next pays
    up to 17 us a page: before a first call that is us, for every implementation alike."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return
    with mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as m:
        m.madvise(mmap.MADV_HUGEPAGE)
        for at in range(0, nbytes, mmap.PAGESIZE):
            m[at] = 1


def first_call_row(work, peers, options):
    """Seconds from building to the first result, in a fresh process per round."""
    row, samples, answers = _row(work), {p: [] for p in peers}, {}
    for _ in range(min(max(options.rounds, 1), options.processes)):
        for peer in peers:
            if peer in row.failures:
                continue
            workers, failures = _start([peer], options, work.x64)
            row.failures.update(failures)
            touch_memory()
            try:
                for p, answer in _try_all(row, dict(workers), "prepare", work.name, work.size).items():
                    samples[p].append(answer["first_call"])
                    answers[p] = answer
            finally:
                for worker in workers.values():
                    worker.close()
    _check(row, work, answers)
    row.checked = [p for p in answers if p != "fgrad" and p not in work.unchecked]
    row.timings = {p: timing_of(s) for p, s in samples.items() if s}
    return row
