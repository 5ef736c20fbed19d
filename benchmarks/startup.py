"""What is measured from outside: import time in fresh processes, and installed size with dependencies."""

import importlib.metadata
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from benchmarks.runner import Row, environment, timing_of

IMPORTS = {"fgrad": "import fgrad, fgrad.numpy", "jax": "import jax, jax.numpy", "torch": "import torch"}  # NumPy is a part of each
TIMED = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
NAMES = ("startup/import", "startup/installed size with dependencies")


def import_row(peers, options):
    """Seconds of the import statement, in a fresh process each round."""
    row = Row(NAMES[0], "", "s", True, "in a fresh process")
    samples = {p: [] for p in peers if p in IMPORTS}
    for p in samples:  # the first read of the files is the disk's time
        _import_seconds(p, options)
    for _ in range(min(options.rounds, options.processes)):
        for p, values in samples.items():
            time.sleep(0.01)
            values.append(_import_seconds(p, options))
    row.timings = {p: timing_of(v) for p, v in samples.items()}
    return row


def _import_seconds(peer, options):
    command = [sys.executable, "-c", TIMED.format(IMPORTS[peer])]
    return float(subprocess.run(command, env=environment(options), capture_output=True, text=True, check=True).stdout)


def size_row(peers):
    """MB on disk of each package with all that it requires."""
    row = Row(NAMES[1], "", "MB", True, "without Python itself")
    for p in peers:
        if p in IMPORTS:
            size = installed_mb(p)
            if size is not None:
                row.timings[p] = timing_of([size])
    return row


def _requirements(dist):
    """Names that a distribution requires without extras on this platform."""
    for text in dist.requires or ():
        spec, _, marker = text.partition(";")
        if "extra" in marker or "win32" in marker or "Windows" in marker:
            continue
        yield re.match(r"[\w.-]+", spec.strip()).group()


def _files_mb(dist):
    """Bytes of a distribution's files, without the bytecode that Python writes later."""
    paths = (Path(dist.locate_file(f)) for f in dist.files or () if not str(f).endswith(".pyc"))
    return sum(p.stat().st_size for p in paths if p.is_file()) / 1e6


def installed_mb(package):
    """MB of a package and its dependencies, or None if it is not installed."""
    total, seen = 0.0, set()
    waiting = [package]
    root = Path(__file__).parents[1]
    if package == "fgrad":  # the sources beside this file; what a wheel leaves out does not count
        kept = [f for f in (root / "fgrad").rglob("*") if f.suffix in (".py", ".so", ".pyd", ".h", ".pxd", ".pyx", ".typed")]
        total = sum(f.stat().st_size for f in kept) / 1e6
        specs = tomllib.loads((root / "pyproject.toml").read_text())["project"]["dependencies"]
        waiting = [re.match(r"[\w.-]+", s).group() for s in specs]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            dist = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            if name == package:
                return None
            continue  # optional on this platform
        total += _files_mb(dist)
        waiting += list(_requirements(dist))
    return total
