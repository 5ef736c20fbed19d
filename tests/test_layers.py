"""Imports run one way through the layers. (That each primitive has its rules, test_table.py checks.)"""

import ast
import re
from pathlib import Path

import fgrad

ROOT = Path(fgrad.__file__).parent
LAYERS = [
    ("errors", "config", "monitoring", "dtypes", "tree", "tree_walk", "tree_keys", "tree_util", "array_tree"),
    ("_kernels",),
    ("core",),
    ("ops",),
    ("transforms",),
    ("compile",),
    ("control",),
    ("api",),
    (
        "numpy",
        "lax",
        "debug",
        "ad_checkpoint",
        "custom_batching",
        "custom_derivatives",
        "differential",
        "distributed",
        "profiler",
        "stages",
        "typing",
        "interpreters",
        "memory",
        "ref",
        "sharding",
    ),
    ("random",),
    ("extend", "flatten_util", "test_util", "experimental", "api_util", "export"),
    ("nn", "image", "optim", "scipy", "example_libraries"),
    ("ggml",),
]
RANK = {name: i for i, layer in enumerate(LAYERS) for name in layer}


def imported(path):
    if path.suffix != ".py":  # Cython
        yield from re.findall(r"^(?:from|cimport|import) fgrad\.(\w+)", path.read_text(), re.MULTILINE)
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("fgrad"):
            parts = node.module.split(".")
            if len(parts) > 1:
                yield parts[1]
            else:
                yield from (a.name for a in node.names)
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("fgrad."))


def test_no_back_edge():
    bad = []
    for path in (p for p in ROOT.rglob("*") if p.suffix in (".py", ".pyx", ".pxd")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[0] not in RANK:
            continue
        for name in imported(path):
            if name in RANK and RANK[name] > RANK[parts[0]]:
                bad.append(f"{'/'.join(parts)} imports {name}")
    assert not bad, bad
