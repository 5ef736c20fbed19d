"""python -m benchmarks: fgrad beside its peers, each in its own process, in turn."""

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import re
import sys
from pathlib import Path

from benchmarks import limits, report, startup
from benchmarks.namespaces import MODULES, installed
from benchmarks.runner import Options, Row, run_workload
from benchmarks.workload import load_all

PEERS = ("numpy", "numexpr", "jax", "torch")


def cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def arguments(argv):
    p = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    p.add_argument("--quick", action="store_true", help="a few workloads and sizes, few rounds")
    p.add_argument("--filter", default="", metavar="REGEX", help="only workloads whose 'name size' matches")
    p.add_argument("--list", action="store_true", help="list the workloads and stop")
    p.add_argument("--peers", default=",".join(PEERS), help="comma-separated, of numpy, numexpr, jax, torch, torch-compile")
    p.add_argument("--check", action="store_true", help="compare the results and time nothing")
    p.add_argument("--threads", type=int, default=cores(), help="threads of every implementation (all cores)")
    p.add_argument("--rounds", type=int, help="interleaved rounds (15; 5 with --quick)")
    p.add_argument("--wait-policy", choices=("passive", "default"), default="passive", help="OpenMP pools sleep at once, or as they like")
    p.add_argument("--json", metavar="FILE", help="write all figures")
    p.add_argument("--markdown", metavar="FILE", help="write the tables, e.g. docs/benchmarks.md")
    p.add_argument("--png", metavar="FILE", help="write a plot of the ratios (needs matplotlib)")
    p.add_argument("--compare", metavar="OLD.json", help="fgrad's times now over those of an earlier --json")
    p.add_argument("--no-limits", action="store_true", help="do not measure the machine's limits")
    args = p.parse_args(argv)
    args.peers = [x for x in args.peers.split(",") if x]
    known = [x for x in MODULES if x != "fgrad"]
    unknown = [x for x in args.peers if x not in known]
    if unknown:
        p.error(f"unknown peers {unknown}; choose from {', '.join(known)}")
    if not 1 <= args.threads <= cores():
        p.error(f"--threads {args.threads}: expected 1 to {cores()}")
    return args


def selection(pattern, quick):
    """[(workload class, sizes)] whose 'name size' matches, families in order of name."""
    chosen = []
    for cls in load_all().values():
        sizes = [s for s in (cls.quick if quick else cls.sizes) if re.search(pattern, f"{cls.name} {cls(*s).label}")]
        if sizes:
            chosen.append((cls, sizes))
    return sorted(chosen, key=lambda item: (not item[0].core, item[0].name))


def measure(args, options, chosen, outside):
    """Yield rows as they are measured."""
    implementations = ["fgrad", *args.peers]
    for name in outside:
        yield startup.import_row(implementations, options) if name == startup.NAMES[0] else startup.size_row(implementations)
    for cls, sizes in chosen:
        yield from run_workload(cls, sizes, implementations, options)


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return __import__(package).__version__


def cpu_name():
    try:
        return re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text()).group(1)
    except (OSError, AttributeError):
        return platform.processor() or platform.machine()


def describe(args, options):
    packages = dict.fromkeys(MODULES[p] for p in ["fgrad", *args.peers])
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": cpu_name(),
        "threads": options.threads,
        "python": platform.python_version(),
        "versions": {p: version(p) for p in packages},
        "rounds": options.rounds,
        "wait_policy": options.wait_policy,
        "quick": args.quick,
    }


def main(argv=None):
    args = arguments(argv)
    chosen = selection(args.filter, args.quick)
    outside = [n for n in startup.NAMES if re.search(args.filter, n) and not args.check]
    if args.list:
        for name in outside:
            print(name)
        for cls, sizes in chosen:
            print(cls.name, *(cls(*s).label for s in sizes))
        return 0
    for peer in [p for p in args.peers if not installed(p)]:
        print(f"{peer} is not installed: skipped", file=sys.stderr)
        args.peers.remove(peer)
    rounds = 0 if args.check else args.rounds or (5 if args.quick else 15)
    options = Options(args.threads, rounds=rounds, wait_policy=args.wait_policy)
    if args.quick:
        options.warm_up, options.budget, options.processes = 0.05, 1.0, 3
    meta = describe(args, options)
    meta["limits"] = None if args.no_limits or args.check else limits.measure(["fgrad", *args.peers], options)
    if meta["limits"]:
        print("limits: triad {triad_gbs:.1f} GB/s, sgemm {sgemm_gflops:.0f} and dgemm {dgemm_gflops:.0f} GFLOP/s".format(**meta["limits"]))
    rows = []
    for row in measure(args, options, chosen, outside):
        rows.append(row)
        limits.seen(row, meta["limits"])
        print(report.line(row, meta["limits"]), flush=True)
        if args.json:  # after every row: a run that is stopped keeps what it measured
            Path(args.json).write_text(json.dumps({"meta": meta, "rows": [r.as_dict() for r in rows]}, indent=1))
        if args.markdown:
            Path(args.markdown).write_text(report.markdown(rows, meta))
    print(report.summary(rows))
    if args.png:
        report.plot(rows, args.png)
    if args.compare:
        print(report.compare([Row.from_dict(r) for r in json.loads(Path(args.compare).read_text())["rows"]], rows))
    return 1 if any(r.mismatches or "fgrad" in r.failures for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
