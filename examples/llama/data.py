"""Text as bytes: Python's own standard library, or the user's file or folder; and batches that depend on nothing but key and step."""

import functools
import hashlib
import sysconfig
from pathlib import Path

import numpy as np

import fgrad
import fgrad.numpy as jnp
from fgrad import random

HELD_OUT = 20  # one part in so many, at the end


def _is_text(content):
    return b"\0" not in content[:4096]  # what git takes for text


def _standard_library():
    root = Path(sysconfig.get_paths()["stdlib"])
    skipped = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
    return sorted(p for p in root.rglob("*.py") if not skipped & set(p.relative_to(root).parts))


def _files(path):
    if path.is_file():
        return [path]
    hidden = lambda p: any(part.startswith(".") or part == "__pycache__" for part in p.relative_to(path).parts)  # noqa: E731
    return sorted(p for p in path.rglob("*") if p.is_file() and not hidden(p))


def read_bytes(path):
    """All text at `path` (a file, or a folder with its subfolders), one file after another; None: Python's standard library."""
    if path is None:
        files = _standard_library()
    elif not Path(path).exists():
        raise SystemExit(f"--data {path}: no such file or folder")
    else:
        files = _files(Path(path))
    try:
        contents = [p.read_bytes() for p in files]
    except OSError as e:
        raise SystemExit(f"--data {path}: {e}") from None
    text = b"\n".join(c for c in contents if c and _is_text(c))
    if not text:
        what = "is empty or not text" if len(files) == 1 else f"has no text in its {len(files)} files"
        raise SystemExit(f"--data {path or 'standard library'} {what}")
    return text


def split(text, context):
    """(training, held-out) bytes as uint8 arrays; the last twentieth is held out. Both must hold at least one sequence."""
    cut = len(text) - len(text) // HELD_OUT
    if len(text) - cut < context + 1:
        raise SystemExit(f"the data have {len(text):,} bytes: --context {context} needs at least {HELD_OUT * (context + 1):,}")
    values = np.frombuffer(text, np.uint8)
    return jnp.asarray(values[:cut]), jnp.asarray(values[cut:])


def fingerprint(text):
    """A digest by which a checkpoint knows its data again."""
    return hashlib.sha256(text).hexdigest()


@functools.partial(fgrad.jit, static_argnums=(3, 4))
def batch_at(data, key, step, batch, context):
    """Batch number `step`: int32 (batch, context + 1), windows at random places. A pure function, so a resumed run sees the same ones."""
    starts = random.randint(random.fold_in(key, step), (batch,), 0, data.shape[0] - context)
    return data[starts[:, None] + jnp.arange(context + 1)].astype(jnp.int32)
