"""Functions that only move elements about also move those of overlays: arrays whose elements are rows of words, as random keys are."""

import functools
from collections.abc import Callable
from typing import Any

from fgrad import array_tree as tree
from fgrad.api import vmap

_make: dict[type, Callable[..., Any]] = {}  # type of overlay -> the function that makes one of its words


def register_overlay(kind, make):
    """Arrays of type `kind` have their words as `_words`, along its last axis; make(words) is another."""
    _make[kind] = make


def is_overlay(x):
    return type(x) in _make


def words_of(sequence):
    """The words of a sequence of overlays, as a list; None for a sequence of anything else."""
    return [x._words for x in sequence] if sequence and all(map(is_overlay, sequence)) else None


def overlay_like(x, words):
    """An overlay of x's type."""
    return _make[type(x)](words)


def moves_overlays(*data):
    """Decorator of a function that moves the elements of its arguments at positions `data`. Where it refuses overlays there, it runs on
    their words instead, batched along their last axis."""

    def decorate(fun):
        @functools.wraps(fun)
        def wrapped(*args, **kwargs):
            try:
                return fun(*args, **kwargs)
            except (TypeError, AttributeError):
                moved = tree.leaves([args[i] for i in data if i < len(args)], is_leaf=is_overlay)
                if not any(map(is_overlay, moved)):
                    raise
                if not all(map(is_overlay, moved)):
                    names = ", ".join(sorted({type(x).__name__ for x in moved}))
                    raise TypeError(f"{fun.__name__}: keys and other arrays do not mix, got {names}") from None
            return _on_words(fun, args, kwargs)

        return wrapped

    return decorate


def _on_words(fun, args, kwargs):
    leaves, treedef = tree.flatten((args, kwargs), is_leaf=is_overlay)
    at = [i for i, x in enumerate(leaves) if is_overlay(x)]

    def on_words(*words):
        filled = list(leaves)
        for i, w in zip(at, words):
            filled[i] = w
        again, options = tree.unflatten(treedef, filled)
        return fun(*again, **options)

    out = vmap(on_words, in_axes=-1, out_axes=-1)(*[leaves[i]._words for i in at])
    return tree.map(functools.partial(overlay_like, leaves[at[0]]), out)
