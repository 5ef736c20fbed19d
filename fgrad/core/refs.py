"""Mutable arrays: a Ref holds an array that reads and writes replace.

Programs stay functional. What runs at once reads and writes the Ref itself. A function that is staged (by jit, a loop, a branch) runs
under `watching`, which notes the Refs of outside that it touches; if there are any, whoever stages it does so anew with the values
of those Refs as further arguments and results, under `bound`, and writes the results back. So each transformation sees arrays only.
"""

import threading

import numpy as np

from fgrad import array_tree, tree
from fgrad.core.array import Array, to_array
from fgrad.core.trace import Tracer

_count = 0  # of the Refs that exist: without any nobody looks for them


class _Frames(threading.local):
    def __init__(self):
        self.stack = []


_frames = _Frames()


class Frame:
    """What a function that runs now has done to the Refs of outside: the values they have for it, and which it touched and wrote."""

    __slots__ = ("touched", "values", "written")

    def __init__(self):
        self.values, self.touched, self.written = {}, {}, {}

    def __enter__(self):
        _frames.stack.append(self)
        return self

    def __exit__(self, *exc):
        _frames.stack.remove(self)

    def restart(self):
        """Another function runs: what the one before wrote is not for it."""
        self.values.clear()


class bound(Frame):
    """The frame of a function that is given the values of `refs`. What it writes to others it writes where it is called."""

    __slots__ = ("refs",)

    def __init__(self, refs, values):
        super().__init__()
        self.refs, self.values = refs, dict(zip(refs, values))

    def __exit__(self, kind, *exc):
        super().__exit__()
        if kind is None:
            for r in self.written:
                if r not in self.refs:
                    r._write(self.values[r])

    def results(self):
        """The values of the refs now; None for those that were not written."""
        return [self.values[r] if r in self.written else None for r in self.refs]


watching = Frame


def any_refs():
    """Whether a Ref exists."""
    return _count > 0


def values_of(refs):
    """What each of `refs` holds."""
    return [r._read() for r in refs]


def write_back(refs, values):
    """Give each of `refs` its value of `values`, where there is one."""
    for r, v in zip(refs, values):
        if v is not None:
            r._write(v)


class running:
    """Context manager for a transformation that runs a function once, without staging it: at its end `leave(ref, value)` gives what
    of a value that was written stays when the transformation is over."""

    def __init__(self, leave):
        self.leave, self.frame = leave, Frame() if _count else None

    def __enter__(self):
        if self.frame is not None:
            self.frame.__enter__()
        return self

    def __exit__(self, kind, *exc):
        if self.frame is not None:
            self.frame.__exit__()
            if kind is None:
                for r in self.frame.written:
                    r._write(self.leave(r, self.frame.values[r]))


def primal_of(ref, x):
    """The value without the derivatives that a transformation which is over has given it."""
    while isinstance(x, Tracer) and x._trace.done and hasattr(x, "primal"):
        x = x.primal
    return x


class Ref:
    """A mutable array: r[i] reads, r[i] = x writes, under any transformation. Made by fgrad.new_ref.

    It can be an argument of a transformed function, or a value that it closes over, but no result. What is written must have the Ref's
    dtype and the shape of what it replaces; ValueError otherwise.

    >>> import fgrad, fgrad.numpy as jnp
    >>> r = fgrad.new_ref(jnp.zeros(3))
    >>> @fgrad.jit
    ... def f(x):
    ...     r[1] += x
    >>> f(2.0)
    >>> r
    Ref([0., 2., 0.], dtype=float32)
    """

    __slots__ = ("__weakref__", "_frame", "_value", "dtype", "shape")

    def __init__(self, value):
        global _count
        self._value, self._frame = value, _frames.stack[-1] if _frames.stack else None
        self.shape, self.dtype = tuple(value.shape), value.dtype
        _count += 1

    def __del__(self):
        global _count
        _count -= 1

    def _read(self):
        frame = None
        for frame in reversed(_frames.stack):
            if frame is self._frame:
                return self._value
            if self in frame.values:
                return frame.values[self]
            frame.touched[self] = True
        return self._value

    def _write(self, value):
        frame = _frames.stack[-1] if _frames.stack else None
        if frame is None or frame is self._frame:
            self._value = value
            return
        self._read()  # touches the frames below
        frame.values[self] = value
        frame.written[self] = frame.touched[self] = True

    def __getitem__(self, index):
        self._check_index(index)
        return self._read()[index]

    def __setitem__(self, index, value):
        self._check_index(index)
        before = self._read()
        value = value if hasattr(value, "dtype") and isinstance(value, Array) else to_array(value)
        self._check_value(value, before if index is Ellipsis else before[index])
        self._write(self._typed(value) if index is Ellipsis else before.at[index].set(value))

    def _check_index(self, index):
        for i, n in zip(index if isinstance(index, tuple) else (index,), self.shape):
            if type(i) is int and not -n <= i < n:
                raise ValueError(f"Out of bound indexer: idx={i}, dim={n}.")
            if i is Ellipsis:
                break

    def _check_value(self, value, old):
        if value.dtype != self.dtype:
            raise ValueError(f"Invalid dtype for `swap`. Ref dtype: {self.dtype}. Value dtype: {value.dtype}.")
        if value.shape != old.shape:
            raise ValueError(f"Invalid shape for `swap`. Ref shape: {self.shape}. Expected shape: {old.shape}. Value shape: {value.shape}.")

    def _typed(self, value):
        """A whole new value, weakly typed as the old one."""
        weak = self._value.weak_type
        return value if value.weak_type == weak else value.astype(self.dtype) if not weak else self._read().at[...].set(value)

    def addupdate(self, value, index=...):
        """r[index] += value."""
        self[index] = self[index] + value

    def swap(self, value, index=...):
        """Write, and return what was there."""
        old = self[index]
        self[index] = value
        return old

    @property
    def at(self):
        """r.at[index]: the part of r there, as something that reads and writes."""
        return _At(self)

    @property
    def aval(self):
        return AbstractRef(self._value.aval)

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: self._value.size)
    sharding = property(lambda self: self._value.sharding)
    committed = property(lambda self: self._value.committed)

    def typeof(self):
        """What fgrad.typeof gives."""
        return self.aval

    def unsafe_buffer_pointer(self):
        """The address of the values."""
        return self._read().unsafe_buffer_pointer()

    def block_until_ready(self):
        return self

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __array__(self, *args, **kwargs):
        raise TypeError("a Ref is no array; read it with ref[...]")

    def __repr__(self):
        return repr(self._read()).replace("Array(", "Ref(", 1).replace("\n  ", "\n")


class _At:
    __slots__ = ("ref",)

    def __init__(self, ref):
        self.ref = ref

    def __getitem__(self, index):
        return _Part(self.ref, index)


class _Part:
    """A part of a Ref: part[index] reads and writes within it."""

    __slots__ = ("index", "ref")

    def __init__(self, ref, index):
        self.ref, self.index = ref, index

    shape = property(lambda self: self.ref[self.index].shape)
    dtype = property(lambda self: self.ref.dtype)

    def __getitem__(self, index):
        return self.ref[self.index][index]

    def __setitem__(self, index, value):
        self.ref[self.index] = value if index is Ellipsis else self.ref[self.index].at[index].set(value)

    @property
    def at(self):
        return _At(self)


class AbstractRef:
    """The type of a Ref: that of what it holds."""

    def __init__(self, inner_aval):
        self.inner_aval, self.shape, self.dtype = inner_aval, inner_aval.shape, inner_aval.dtype

    def __eq__(self, other):
        return isinstance(other, AbstractRef) and self.inner_aval == other.inner_aval

    def __hash__(self):
        return hash(("Ref", self.inner_aval))

    def __repr__(self):
        return f"Ref{{{self.dtype.name}[{','.join(map(str, self.shape))}]}}"

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: self.inner_aval.size)
    str_short = __repr__


class _Held:
    """Stands for a Ref among the arguments of a function of values: what it holds. `opener` is who makes a Ref of it again."""

    def __init__(self, value, opener):
        self.value, self.opener = value, opener


def is_held(x):
    """Whether x is what `held` puts in place of a Ref."""
    return type(x) is _Held


def refs_in(x):
    """The Refs of a pytree."""
    return [leaf for leaf in tree.leaves(x) if type(leaf) is Ref]


def held(x, opener):
    """A pytree with what its Refs hold in place of them."""
    return tree.map(lambda leaf: _Held(leaf._read(), opener) if type(leaf) is Ref else leaf, x)


def opened(x, opener, refs):
    """A pytree with new Refs, which are added to the list, in place of what `held` has put there."""

    def leaf_of(leaf):
        if type(leaf) is not _Held or leaf.opener is not opener:
            return leaf
        refs.append(Ref(leaf.value))
        return refs[-1]

    return tree.map(leaf_of, x)


# A leaf to users; to transformations part of the structure, as a value closed over is.
array_tree.register_array_node(Ref, lambda r: ((), r), lambda r, _: r)
array_tree.register_array_node(_Held, lambda h: ((h.value,), h.opener), lambda opener, children: _Held(children[0], opener))


def new_ref(init_val, *, memory_space=None, kind=None):
    """A Ref that holds an array, a number or keys. memory_space and kind are hints.

    >>> import fgrad
    >>> fgrad.new_ref(1.0)[...]
    Array(1., dtype=float32, weak_type=True)
    """
    if isinstance(init_val, Ref):
        raise TypeError("new_ref of a Ref: read it with ref[...]")
    try:
        return Ref(init_val if isinstance(init_val, Array) else to_array(init_val))
    except TypeError:
        raise TypeError(
            f"Error interpreting argument to new_ref as a JAX value. The problematic value is of type {type(init_val)} and was passed "
            "to new_ref at position 0."
        ) from None


def empty_ref(ty, memory_space=None):
    """A Ref of zeros, of the shape and dtype of `ty`.

    >>> import fgrad
    >>> fgrad.empty_ref(fgrad.ShapeDtypeStruct((2,), "float32"))
    Ref([0., 0.], dtype=float32)
    """
    return new_ref(to_array(np.zeros(ty.shape, ty.dtype)))


def freeze(ref):
    """What a Ref holds; it should not be used afterwards.

    >>> import fgrad
    >>> fgrad.freeze(fgrad.new_ref(2))
    Array(2, dtype=int32, weak_type=True)
    """
    return ref[...]


def free_ref(ref):
    """Say that a Ref is not used any more."""


__all__ = [
    "AbstractRef",
    "Frame",
    "Ref",
    "any_refs",
    "bound",
    "empty_ref",
    "free_ref",
    "freeze",
    "held",
    "is_held",
    "new_ref",
    "opened",
    "primal_of",
    "refs_in",
    "running",
    "values_of",
    "watching",
    "write_back",
]
