"""Mutable arrays, and reads and writes of them as functions."""

from fgrad.core.refs import AbstractRef, Ref, empty_ref, free_ref, freeze, new_ref


def get(ref, idx=None):
    """ref[idx]; all of it without idx.

    >>> import fgrad
    >>> fgrad.ref.get(fgrad.new_ref(fgrad.numpy.arange(3)), 1)
    Array(1, dtype=int32)
    """
    return ref[... if idx is None else idx]


def set(ref, idx, value):  # noqa: A001
    """ref[idx] = value."""
    ref[... if idx is None else idx] = value


def swap(ref, idx, value):
    """Write ref[idx], and return what was there.

    >>> import fgrad
    >>> fgrad.ref.swap(fgrad.new_ref(fgrad.numpy.arange(3)), 1, fgrad.numpy.int32(7))
    Array(1, dtype=int32)
    """
    old = get(ref, idx)
    set(ref, idx, value)
    return old


def addupdate(ref, idx, x):
    """ref[idx] += x."""
    set(ref, idx, get(ref, idx) + x)


__all__ = ["AbstractRef", "Ref", "addupdate", "empty_ref", "free_ref", "freeze", "get", "new_ref", "set", "swap"]
