"""python -m benchmarks.survey: the breadth of the namespace at moderate sizes, jitted (or `--eager`), beside JAX, PyTorch and NumPy.

Where `python -m benchmarks` measures workloads with care, this finds functions that are slow: a process per implementation times all
cases, the processes in turn, and each figure is the least of the rounds' medians. Results are compared with fgrad's.
"""

import argparse
import importlib
import json
import math
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from benchmarks.__main__ import cores
from benchmarks.namespaces import Backend, installed
from benchmarks.report import geomean
from benchmarks.runner import ROOT, Options, environment
from benchmarks.survey_cases import CASES
from benchmarks.survey_programs import register
from benchmarks.survey_torch import torch_versions
from benchmarks.worker import digest
from benchmarks.workload import leaves

register()

SAMPLE = 0.004  # seconds of calls in one sample
TOLERANCE = 2e-3  # of the largest element; a sum of many float32 differs by its order


def _namespace(name, threads):
    """(namespace, jit, wait, backend) of one implementation."""
    backend = Backend(name, threads)
    if name == "numpy":
        return SimpleNamespace(np=np), lambda f: f, lambda x: x, backend
    if name == "torch":
        return torch_versions(backend.m.torch), lambda f: f, lambda x: x, backend
    root = importlib.import_module(name)
    backend.m.special = importlib.import_module(f"{name}.scipy.special")
    backend.m.scipy_linalg = importlib.import_module(f"{name}.scipy.linalg")
    backend.m.image = importlib.import_module(f"{name}.image")
    backend.m.odeint = importlib.import_module(f"{name}.experimental.ode").odeint
    return backend.m, root.jit, root.block_until_ready, backend


def measure(f, args, wait, budget):
    """(seconds per call, seconds of the first call, the first result)."""
    start = time.perf_counter()
    result = wait(f(*args))
    first = time.perf_counter() - start
    wait(f(*args))
    start = time.perf_counter()
    wait(f(*args))
    repeats = max(1, int(SAMPLE / (time.perf_counter() - start)))
    samples, end = [], time.perf_counter() + budget
    while len(samples) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(repeats):
            last = f(*args)
        wait(last)
        samples.append((time.perf_counter() - start) / repeats)
    return statistics.median(samples), first, result


def serve(name, pattern, threads, budget, eager):
    """In the child: a JSON line for each case."""
    m, jit, wait, backend = _namespace(name, threads)
    if eager:
        jit = lambda f: f  # noqa: E731
    for label, case in CASES.items():
        if not re.search(pattern, label):
            continue
        if name == "torch" and label not in m:
            continue
        rng = np.random.default_rng(0)
        inputs = [make(rng) for make in case.inputs]
        try:
            call = m[label] if name == "torch" else lambda *args: case.function(m, *args)  # noqa: B023
            seconds, first, result = measure(jit(call), backend.arrays(inputs), wait, budget)
            digests = [digest(np.abs(x)) for x in backend.numpy(leaves(list(result) if isinstance(result, tuple) else result))]
            answer = {
                "seconds": seconds,
                "first": first,
                "digests": [[list(d["shape"]), d["sum"], float(d["elements"].max(initial=0))] for d in digests],
            }
        except Exception as error:
            answer = {"failure": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps({"case": label, **answer}), flush=True)


def run(name, pattern, options, budget, eager=False):
    """{case: answer} of a fresh process."""
    arguments = [sys.executable, "-m", "benchmarks.survey", "--serve", name, "--filter", pattern, "--budget", str(budget)]
    arguments += ["--eager"] * eager
    done = subprocess.run(arguments, env=environment(options), cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the survey of {name} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {a.pop("case"): a for a in answers}


def agree(ours, theirs):
    """Whether two answers' results have the same shapes and nearly the same sums of absolute values."""
    if len(ours) != len(theirs):
        return False
    for (shape, total, largest), (other_shape, other_total, _) in zip(ours, theirs):
        count = math.prod(shape) or 1
        near = math.isclose(total, other_total, rel_tol=TOLERANCE, abs_tol=TOLERANCE * largest * math.sqrt(count))
        if shape != other_shape or not (near or not (math.isfinite(total) or math.isfinite(other_total))):
            return False
    return True


def compare(rounds, peers):
    """[(case, seconds, {peer: ratio}, first call in seconds, {peer: ratio of first calls}, notes)], slowest beside its best peer first."""
    rows = []
    for label in rounds["fgrad"][0]:
        ours = [r[label] for r in rounds["fgrad"]]
        if "failure" in ours[0]:
            rows.append((label, None, {}, None, {}, f"fgrad failed: {ours[0]['failure']}"))
            continue
        seconds, first = min(a["seconds"] for a in ours), ours[0]["first"]
        ratios, firsts, notes = {}, {}, []
        for peer in peers:
            theirs = [r[label] for r in rounds[peer] if label in r]
            if not theirs or "failure" in theirs[0]:
                continue
            if CASES[label].checked and not agree(ours[0]["digests"], theirs[0]["digests"]):
                notes.append(f"{peer}'s result differs")
            ratios[peer], firsts[peer] = min(a["seconds"] for a in theirs) / seconds, theirs[0]["first"] / first
        rows.append((label, seconds, ratios, first, firsts, ", ".join(notes)))
    return sorted(rows, key=lambda row: min(row[2].values(), default=math.inf))


def report(rows, peers, below):
    """Lines: a summary, and each case whose best peer's ratio is less than `below`."""
    lines = []
    for peer in peers:
        ratios = [row[2][peer] for row in rows if peer in row[2]]
        behind = sum(r < 1 for r in ratios)
        firsts = geomean([row[4][peer] for row in rows if peer in row[4]])
        lines.append(
            f"{peer}: {geomean(ratios) or math.nan:.2f} over {len(ratios)} cases, behind in {behind}; first calls {firsts or math.nan:.1f}"
        )
    for label, seconds, ratios, _, _, note in rows:
        if note or min(ratios.values(), default=math.inf) < below:
            shown = "  ".join(f"{p} {r:.2f}" for p, r in ratios.items())
            lines.append(f"{label:50} {'failed' if seconds is None else f'{1e6 * seconds:.1f} us':>12}  {shown}  {note}")
    return lines


def main(argv=None):
    p = argparse.ArgumentParser(prog="python -m benchmarks.survey", description=__doc__.split("\n")[0])
    p.add_argument("--filter", default="", metavar="REGEX", help="only cases whose name matches")
    p.add_argument("--peers", default="jax,torch,numpy", help="comma-separated, of jax, torch and numpy")
    p.add_argument("--eager", action="store_true", help="call the functions without jit")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--budget", type=float, default=0.1, help="seconds of samples for a case in one round")
    p.add_argument("--below", type=float, default=1.2, help="list the cases whose best peer's ratio is less")
    p.add_argument("--json", metavar="FILE")
    p.add_argument("--serve", help=argparse.SUPPRESS)
    args = p.parse_args(argv)
    options = Options(threads=cores(), wait_policy="default")
    if args.serve:
        serve(args.serve, args.filter, options.threads, args.budget, args.eager)
        return 0
    peers = [x for x in args.peers.split(",") if x and installed(x)]
    rounds = {name: [] for name in ("fgrad", *peers)}
    for _ in range(args.rounds):
        for name, answers in rounds.items():
            answers.append(run(name, args.filter, options, args.budget, args.eager))
    rows = compare(rounds, peers)
    print("\n".join(report(rows, peers, args.below)))
    if args.json:
        Path(args.json).write_text(json.dumps(rows))
    return 1 if any(row[5] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
