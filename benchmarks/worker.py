"""A process that holds one implementation of one workload: commands come pickled on stdin, answers go pickled to stdout."""

import os
import pickle
import resource
import sys
import time
import traceback

import numpy as np

from benchmarks.namespaces import Backend
from benchmarks.workload import load_all

SHORT_CALL = 50e-6  # shorter calls are not waited for one by one: the wait itself would be measured
SAMPLE_ELEMENTS = 20_000


def rss_mb():
    """Resident memory in MB."""
    try:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:
        return 0.0


def peak_rss_mb():
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def digest(x):
    """What stands for a result in the comparison: shape, sums, and evenly spread elements."""
    wide = x.astype(np.float64)
    flat = wide.ravel()
    step = max(1, flat.size // SAMPLE_ELEMENTS)
    return {"shape": x.shape, "sum": float(flat.sum()), "abs": float(np.abs(flat).sum()), "elements": flat[::step].copy()}


class Worker:
    def __init__(self, name, threads):
        self.backend = Backend(name, threads)
        self.backend.start()
        self.workloads = load_all()
        self.call, self.work, self.repeats, self.wait_each = None, None, 1, True

    def prepare(self, name, size):
        """Build and call. Returns the seconds that took, digests of the results to compare, and memory before the inputs were made."""
        self.call = None
        work = self.workloads[name](*size)
        before = rss_mb()
        inputs = self.backend.arrays(work.inputs(np.random.default_rng(0)))
        build = work.implementation(self.backend.name)
        start = time.perf_counter()
        call = build(self.backend.m, *inputs)
        result = self.backend.wait(call())
        seconds = time.perf_counter() - start
        for _ in range(work.calls - 1):
            result = self.backend.wait(call())
        self.call, self.work = call, work
        return {"first_call": seconds, "results": [digest(x) for x in self.backend.numpy(result)], "rss_before": before}

    def warm_up(self, seconds, sample):
        """Call for `seconds`, then choose how many calls make a sample of `sample` seconds."""
        end, best = time.perf_counter() + seconds, float("inf")
        while True:
            best = min(best, self._run(1))
            if time.perf_counter() > end:
                break
        self.wait_each = best > SHORT_CALL
        if not self.wait_each:
            best = self._run(max(1, int(sample / best / 4)))
        self.repeats = max(1, round(sample / best))
        return best

    def _run(self, n):
        call, wait = self.call, self.backend.wait
        start = time.perf_counter()
        if self.wait_each:
            for _ in range(n):
                wait(call())
        else:
            for _ in range(n):
                result = call()
            wait(result)
        return (time.perf_counter() - start) / n

    def sample(self):
        """Seconds per call."""
        return self._run(self.repeats)

    def peak(self):
        return peak_rss_mb()

    def arena(self):
        """MB that the workload's program takes for its temporaries, or None."""
        return self.work.compiled and self.work.compiled().memory_analysis().temp_size_in_bytes / 1e6


def serve(name, threads):
    answers, commands = os.fdopen(os.dup(1), "wb"), sys.stdin.buffer
    os.dup2(2, 1)  # what libraries print must not mix with the answers
    worker = None
    while True:
        try:
            command, args = pickle.load(commands)
        except EOFError:
            return
        try:
            if command == "start":
                worker, answer = Worker(name, threads), None
            else:
                answer = getattr(worker, command)(*args)
            reply = True, answer
        except Exception:
            reply = False, traceback.format_exc()
        pickle.dump(reply, answers)
        answers.flush()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
