"""What a row of the table of ggml's ops holds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Case:
    """op: its ggml name; fun(*args) the call; ref(*args) the same in NumPy; wrt: the arguments with a derivative.

    why: said instead of a derivative where there is none. order: of the derivatives that are checked.
    """

    op: str
    fun: Callable
    args: list
    ref: Callable
    wrt: Any = None
    why: str = ""
    label: str = ""
    order: int = 2

    def __post_init__(self):
        floats = tuple(i for i, a in enumerate(self.args) if np.asarray(a).dtype.kind == "f")
        self.wrt = () if self.why else floats if self.wrt is None else self.wrt

    @property
    def id(self):
        return self.op + (f" {self.label}" if self.label else "")


def numbers(seed, *shape, low=-1.0, high=1.0):
    return np.random.default_rng(seed).uniform(low, high, shape)


def softmax(x, axis=-1):
    e = np.exp(x - np.where(np.isfinite(m := x.max(axis, keepdims=True)), m, 0))
    return e / e.sum(axis, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))
