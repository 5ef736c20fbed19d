"""Checkpoints: one safetensors file with every array of a run, and its configuration as metadata."""

import dataclasses
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

import fgrad.numpy as jnp
from fgrad import random, tree
from llama.model import Config

FORMAT = "fgrad-llama-1"


@dataclasses.dataclass
class Run:
    """All that a run needs to go on to the bit; the batches are a function of `key` and `step`."""

    config: Config
    params: Any
    opt_state: Any
    key: Any  # the run's PRNG key
    step: int  # steps done
    train: list  # loss in nats of every step done
    held_out: list  # (steps done, loss in nats)
    data: dict  # {"path": as given or None, "sha256": of the text}


def _names(arrays):
    """Leaves by name: "params/layers/0/qkv"."""
    return {"/".join(re.findall(r"\w+", tree.keystr(path))): leaf for path, leaf in tree.leaves_with_path(arrays)}


def _digest(tensors):
    h = hashlib.sha256()
    for name in sorted(tensors):
        h.update(f"{name} {tensors[name].dtype} {tensors[name].shape}\n".encode())
        h.update(tensors[name].tobytes())
    return h.hexdigest()


def save(path, run):
    """Write `run` to `path`: to a file beside it first, then renamed, so that a crash never leaves half a checkpoint."""
    arrays = {"params": run.params, "optimizer": run.opt_state, "key": random.key_data(run.key)}
    tensors = {name: np.array(leaf, order="C") for name, leaf in _names(arrays).items()}
    tensors["history/train"] = np.asarray(run.train, np.float32)
    tensors["history/held_out_step"] = np.asarray([s for s, _ in run.held_out], np.int64)
    tensors["history/held_out"] = np.asarray([v for _, v in run.held_out], np.float32)
    metadata = {
        "format": FORMAT,
        "config": json.dumps(dataclasses.asdict(run.config)),
        "data": json.dumps(run.data),
        "step": str(run.step),
        "sha256": _digest(tensors),
    }
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        save_file(tensors, part, metadata)
        with open(part, "rb+") as f:
            os.fsync(f.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _read(path):
    """(metadata, tensors) of a file, or an error that says what is wrong with it."""
    if not Path(path).is_file():
        raise SystemExit(f"{path}: no such checkpoint")
    try:
        with safe_open(path, framework="numpy") as f:
            metadata, tensors = f.metadata() or {}, {name: f.get_tensor(name) for name in f.keys()}
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError) as e:
        raise SystemExit(f"{path}: not a readable safetensors file ({e})") from None
    if metadata.get("format") != FORMAT:
        raise SystemExit(f"{path}: not a checkpoint of train_llama.py (format {metadata.get('format')!r}, expected {FORMAT!r})")
    if metadata.get("sha256") != _digest(tensors):
        raise SystemExit(f"{path}: damaged (its arrays do not have the digest written with them)")
    return metadata, tensors


def _restore(path, template, tensors):
    """A tree like `template` (of shapes and dtypes) with the arrays of these names."""
    for name, want in _names(template).items():
        have = tensors.get(name)
        if have is None or (have.shape, have.dtype) != (want.shape, want.dtype):
            found = "is missing" if have is None else f"is {have.dtype}{list(have.shape)}"
            raise SystemExit(f"{path}: {name} {found}, expected {want.dtype}{list(want.shape)}; the checkpoint is of another version")
    leaves = [jnp.array(tensors[name]) for name in _names(template)]
    return tree.unflatten(tree.structure(template), leaves)


def load(path, template):
    """The Run stored at `path`. template(config): its shapes, {"params", "optimizer", "key"}. Raises SystemExit with what is wrong."""
    metadata, tensors = _read(path)
    try:
        config = Config(**json.loads(metadata["config"]))
    except TypeError as e:
        raise SystemExit(f"{path}: its configuration is of another version ({e})") from None
    arrays = _restore(path, template(config), tensors)
    held_out = zip(tensors["history/held_out_step"].tolist(), tensors["history/held_out"].tolist())
    return Run(
        config,
        arrays["params"],
        arrays["optimizer"],
        random.wrap_key_data(arrays["key"]),
        int(metadata["step"]),
        tensors["history/train"].tolist(),
        list(held_out),
        json.loads(metadata["data"]),
    )
