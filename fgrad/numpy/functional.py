"""Functions of functions: vectorize, apply_along_axis, piecewise, and ufunc objects."""

import functools
import math
import operator
import re

import numpy as np

from fgrad import array_tree as tree
from fgrad.api.vmap import vmap
from fgrad.control.cond import switch
from fgrad.control.loops import scan
from fgrad.numpy import ufuncs as U
from fgrad.numpy.creation import arange, array, asarray
from fgrad.numpy.manipulation import concatenate, expand_dims, moveaxis, ravel, squeeze
from fgrad.numpy.overlay import is_overlay
from fgrad.numpy.reductions import all as _all
from fgrad.numpy.reductions import any as _any
from fgrad.numpy.reductions import cumprod, cumsum, prod
from fgrad.numpy.reductions import max as _max
from fgrad.numpy.reductions import min as _min
from fgrad.numpy.reductions import sum as _sum
from fgrad.numpy.selection import where as _where
from fgrad.numpy.util import as_array, axis_index, axis_tuple, broadcast_shape, no_out, spread, user_dtype
from fgrad.ops import elementwise as E
from fgrad.ops.rules import full
from fgrad.ops.shape import reshape

__all__ = ["vectorize", "apply_along_axis", "apply_over_axes", "piecewise", "fromfunction", "frompyfunc", "ufunc"]

# --- mapping over axes --------------------------------------------------------------------------------------------------


def apply_along_axis(func1d, axis, arr, *args, **kwargs):
    """func1d(slice, *args, **kwargs) of each 1-D slice along `axis`, whose place the result's axes take."""
    x = as_array("apply_along_axis", arr)
    axis = axis_index(axis, x.ndim)
    fun = lambda v: func1d(v, *args, **kwargs)
    for i in range(1, x.ndim - axis):  # the outermost maps the last axis: the axes behind keep their order
        fun = vmap(fun, in_axes=i, out_axes=-1)
    for _ in range(axis):
        fun = vmap(fun)
    return fun(x)


def apply_over_axes(func, a, axes):
    """func(array, axis) applied for one axis after another; axes that it reduces away are kept with size 1."""
    x = as_array("apply_over_axes", a)
    for axis in axes if np.iterable(axes) else (axes,):
        out = func(x, axis)
        if out.ndim == x.ndim - 1:
            out = expand_dims(out, axis)
        if out.ndim != x.ndim:
            raise ValueError("function is not returning an array of the correct shape")
        x = out
    return x


_DIMS = r"\(\s*(?:\w+\s*(?:,\s*\w+\s*)*)?\)"
_SIDE = rf"\s*(?:{_DIMS}\s*(?:,\s*{_DIMS}\s*)*)?"


def _parse_signature(signature):
    """'(m,n),(n)->(m)' as lists of tuples of names: those of the arguments and of the results."""
    if not re.fullmatch(rf"{_SIDE}->{_SIDE}", signature):
        raise ValueError(f"not a valid gufunc signature: {signature}")
    return [[tuple(re.findall(r"\w+", dims)) for dims in re.findall(_DIMS, side)] for side in signature.split("->")]


def _array(x):
    return x if is_overlay(x) else asarray(x)


def vectorize(pyfunc, *, excluded=frozenset(), signature=None):
    """pyfunc mapped over leading axes, which broadcast, by vmap.

    signature: NumPy's notation such as "(m,n),(n)->(m)" for functions of arrays; without it pyfunc takes scalars. excluded: positions and
    names of arguments passed on as they are; so are None arguments.

    >>> import fgrad.numpy as jnp
    >>> jnp.vectorize(jnp.dot, signature="(n),(n)->()")(jnp.ones((3, 2)), jnp.arange(2.))
    Array([1., 1., 1.], dtype=float32)
    """
    if any(not isinstance(e, (str, int)) for e in excluded):
        raise TypeError(f"jax.numpy.vectorize can only exclude integer or string arguments, but excluded={set(excluded)!r}")
    if any(isinstance(e, int) and e < 0 for e in excluded):
        raise ValueError(f"excluded={excluded!r} contains negative numbers")
    parsed = None if signature is None else _parse_signature(signature)

    @functools.wraps(pyfunc)
    def wrapped(*args, **kwargs):
        fixed = {i for i, a in enumerate(args) if i in excluded or a is None}
        mapped_names = [k for k in kwargs if k not in excluded]
        mapped = [i for i in range(len(args)) if i not in fixed]
        arrays = [_array(args[i]) for i in mapped] + [_array(kwargs[k]) for k in mapped_names]
        core = [()] * len(arrays)
        if parsed is not None:
            count = len(parsed[0])
            if len(args) - len([e for e in excluded if isinstance(e, int) and e < len(args)]) != count or mapped_names:
                raise TypeError(f"wrong number of positional arguments: expected {count}, got {len(args)} (signature {signature!r})")
            names = iter(parsed[0])
            core = [next(names) if i not in excluded else None for i in range(len(args))]
            if any(core[i] for i in fixed if core[i] is not None):
                raise ValueError(f"Cannot pass None at locations {sorted(fixed)} with signature={signature!r}")
            core = [core[i] for i in mapped]

        def call(*values):
            full_args = list(args)
            for i, v in zip(mapped, values):
                full_args[i] = v
            named = {**kwargs, **dict(zip(mapped_names, values[len(mapped) :]))}
            return pyfunc(*full_args, **named)

        sizes = _core_sizes(arrays, core, signature)
        checked = call if parsed is None else _checked(call, parsed[1], sizes, signature)
        return _map_leading(checked, arrays, [len(c) for c in core])

    return wrapped


def _core_sizes(arrays, core, signature):
    sizes = {}
    for x, names in zip(arrays, core):
        if x.ndim < len(names):
            raise ValueError(f"input with shape {x.shape} does not have enough dimensions for all core dimensions {names} of {signature!r}")
        for name, n in zip(names, x.shape[x.ndim - len(names) :]):
            if sizes.setdefault(name, n) != n:
                raise ValueError(f"inconsistent size for core dimension {name!r}: {n} vs {sizes[name]} (signature {signature!r})")
    return sizes


def _checked(call, outputs, sizes, signature):
    def checked(*values):
        out = call(*values)
        several = isinstance(out, tuple)
        outs = [_array(o) for o in (out if several else (out,))]
        if len(outs) != len(outputs) or several != (len(outputs) != 1):
            raise TypeError(f"wrong number of output arguments: expected {len(outputs)}, got {len(outs)} (signature {signature!r})")
        for o, names in zip(outs, outputs):
            want = tuple(sizes.setdefault(k, n) for k, n in zip(names, o.shape))
            if o.ndim != len(names) or o.shape != want:
                raise ValueError(f"output shape {o.shape} does not match core dimensions {names} of {signature!r}")
        return tuple(outs) if several else outs[0]

    return checked


def _map_leading(fun, arrays, ranks):
    """fun vmapped over the broadcast leading axes of arrays, which have `ranks` axes of their own behind them."""
    leads = [x.shape[: x.ndim - r] for x, r in zip(arrays, ranks)]
    lead = broadcast_shape(*leads)
    squeezed = [squeeze(x, [i for i, n in enumerate(s) if n == 1]) for x, s in zip(arrays, leads)]
    padded = [(1,) * (len(lead) - len(s)) + s for s in leads]
    kept = []
    for axis in range(len(lead) - 1, -1, -1):
        in_axes = tuple(None if s[axis] == 1 else 0 for s in padded)
        if all(a is None for a in in_axes):
            kept.append(axis)
        else:
            fun = vmap(fun, in_axes=in_axes)
    out = fun(*squeezed)
    if not kept:
        return out
    return tree.map(lambda o: expand_dims(_array(o), tuple(sorted(kept))), out)


def piecewise(x, condlist, funclist, *args, **kw):
    """For each element the value of the function (or constant) of the last condition that holds; the extra last one, or 0, elsewhere.

    Every function sees scalars, mapped by vmap, and of a scalar only the one that is chosen is called, as by switch.
    """
    x = as_array("piecewise", x)
    several = isinstance(condlist, (list, tuple)) or getattr(condlist, "ndim", 0) > x.ndim
    several = several or (getattr(condlist, "ndim", 0) and len(condlist) in (len(funclist), len(funclist) - 1))
    conditions = list(condlist) if several else [condlist]
    n = len(conditions)
    if len(funclist) == n:
        funcs = [0, *funclist]
    elif len(funclist) == n + 1:
        funcs = [funclist[-1], *funclist[:-1]]
    else:
        raise ValueError(f"with {n} condition(s), either {n} or {n + 1} functions are expected; got {len(funclist)}")
    conditions = [U.truth(asarray(c) if isinstance(c, (list, tuple)) else as_array("piecewise", c)) for c in conditions]

    def branch(f):
        return lambda v: asarray(f(v, *args, **kw) if callable(f) else f, x.dtype).reshape(())

    if not x.ndim and not any(c.ndim for c in conditions):
        which = full((), 0, np.dtype(np.int32))
        for i, c in enumerate(conditions, 1):
            which = _where(c, np.int32(i), which)
        return switch(which, [branch(f) for f in funcs], x)
    values = [_map_leading(branch(f), [x], [0]) if callable(f) else asarray(f, x.dtype).reshape(()) for f in funcs]
    out = spread(values[0], x.shape)
    for c, value in zip(conditions, values[1:]):
        out = _where(c, value, out)
    return out


def fromfunction(function, shape, *, dtype=float, **kwargs):
    """function(i, j, ..., **kwargs) at every position of an array of `shape`, mapped by vmap; its arguments are scalars of dtype."""
    shape = tuple(map(operator.index, shape)) if np.iterable(shape) else (operator.index(shape),)
    fun = functools.partial(function, **kwargs)
    for i in range(len(shape)):
        fun = vmap(fun, in_axes=tuple(0 if j == len(shape) - 1 - i else None for j in range(len(shape))))
    return fun(*[arange(n, dtype=dtype) for n in shape])


# --- ufunc objects ------------------------------------------------------------------------------------------------------

_BY_AXES = {"add": _sum, "multiply": prod, "maximum": _max, "minimum": _min, "logical_and": _all, "logical_or": _any}
_RUNNING = {"add": cumsum, "multiply": cumprod}


class ufunc:
    """An elementwise function of two arguments with NumPy's methods reduce, accumulate, outer, at and reduceat."""

    def __init__(self, func, nin, nout, *, name=None, identity=None):
        self._func, self.nin, self.nout, self.identity = func, operator.index(nin), operator.index(nout), identity
        self.nargs = self.nin  # as in JAX; NumPy counts the results too
        self.__name__ = self.__qualname__ = name or getattr(func, "__name__", "ufunc")
        self.__doc__ = func.__doc__

    def __call__(self, *args, out=None, where=None):
        no_out(self.__name__, out)
        if where is not None:
            raise NotImplementedError(f"where argument of {self.__name__} is not supported; use jnp.where")
        return self._func(*args)

    def __repr__(self):
        return f"<jnp.ufunc {self.__name__!r}>"

    def __hash__(self):
        return hash((self._func, self.nin, self.nout))

    def __eq__(self, other):
        return isinstance(other, ufunc) and (self._func, self.nin, self.nout) == (other._func, other.nin, other.nout)

    def _binary(self, what):
        if self.nin != 2:
            raise ValueError(f"{what} only supported for binary ufuncs")
        if self.nout != 1:
            raise ValueError(f"{what} only supported for functions returning a single value")

    def reduce(self, a, axis=0, dtype=None, out=None, keepdims=False, initial=None, where=None):
        """The function folded over axes (None: all)."""
        self._binary("reduce")
        no_out(f"{self.__name__}.reduce", out)
        x = as_array(f"{self.__name__}.reduce", a)
        if where is not None and self.identity is None and initial is None:
            raise ValueError(f"reduction operation {self.__name__!r} does not have an identity, so to use a where mask one has to specify "
                             "'initial'.")  # fmt: skip
        fun = _BY_AXES.get(self.__name__)
        if fun in (_sum, prod):
            return fun(x, axis, dtype, None, keepdims, initial, where)
        if fun in (_max, _min) and dtype is None:
            return fun(x, axis, None, keepdims, initial, where)
        if fun is not None and initial is None and dtype is None:
            return fun(x, axis, None, keepdims, where=where)
        return self._fold(x, axis, keepdims, initial, where, dtype)

    def _typed(self, *args, dtype=None):
        """The arrays in the dtype of the function's result, or in the one that is given."""
        dtype = user_dtype(dtype) if dtype is not None else self._func(*[full((), 1, x.dtype) for x in args]).dtype
        return [E.convert_element_type(x, dtype) for x in args]

    def _fold(self, x, axis, keepdims, initial, where, dtype):
        """From `initial` (by default the identity, or the first element), one element after the other."""
        axes = axis_tuple(axis, x.ndim)
        (x,) = self._typed(x, x, dtype=dtype)[:1]
        initial = self.identity if initial is None else initial
        if where is not None:
            where = moveaxis(spread(as_array("reduce", where), x.shape), axes, tuple(range(len(axes))))
            where = reshape(where, (math.prod(where.shape[: len(axes)]), *where.shape[len(axes) :]))
        rows = moveaxis(x, axes, tuple(range(len(axes))))
        rows = reshape(rows, (math.prod(rows.shape[: len(axes)]), *rows.shape[len(axes) :]))
        if initial is None and not rows.shape[0]:
            raise ValueError(f"zero-size array to reduction operation {self.__name__} which has no identity")
        out = rows[0] if initial is None else E.broadcast_to(E.convert_element_type(as_array("reduce", initial), x.dtype), rows.shape[1:])
        rows = rows[1:] if initial is None else rows

        def step(out, given):
            row, kept = given
            new = E.convert_element_type(self._func(out, row), x.dtype)
            return new if kept is None else E.select(kept, new, out), None

        out = scan(step, out, (rows, where))[0] if rows.shape[0] else out
        return expand_dims(out, axes) if keepdims else out

    def accumulate(self, a, axis=0, dtype=None, out=None):
        """The running fold along an axis."""
        self._binary("accumulate")
        no_out(f"{self.__name__}.accumulate", out)
        x = as_array(f"{self.__name__}.accumulate", a)
        if self.__name__ in _RUNNING:
            return _RUNNING[self.__name__](x, axis, dtype)
        axis = axis_index(axis, x.ndim)
        (x,) = self._typed(x, x, dtype=dtype)[:1]
        if not x.size:
            return x
        rows = moveaxis(x, axis, 0)

        def step(last, row):
            new = E.convert_element_type(self._func(last, row), x.dtype)
            return new, new

        return moveaxis(concatenate([rows[:1], scan(step, rows[0], rows[1:])[1]], 0), 0, axis)

    def outer(self, A, B, /):
        """The function of every pair of elements."""
        self._binary("outer")
        a, b = as_array(f"{self.__name__}.outer", A), as_array(f"{self.__name__}.outer", B, 1)
        out = self._func(reshape(a, (a.size, 1)), reshape(b, (1, b.size)))
        return reshape(out, (*a.shape, *b.shape))

    def at(self, a, indices, b=None, /, *, inplace=True):
        """A copy of `a` with the function applied at indices (again for each repetition); pass inplace=False."""
        if inplace:
            raise NotImplementedError("jax.numpy ufunc.at() requires inplace=False: arrays are immutable")
        x = as_array(f"{self.__name__}.at", a)
        if self.nin == 1:
            return x.at[indices].apply(self._func)
        method = {"add": "add", "subtract": "subtract", "multiply": "multiply", "maximum": "max", "minimum": "min"}.get(self.__name__)
        if method is not None:
            return getattr(x.at[indices], method)(b)
        x, b = self._typed(x, as_array("at", b))
        positions = reshape(array(np.arange(x.size)), x.shape).at[indices].get(mode="fill", fill_value=x.size)

        def step(flat, given):
            i, value = given
            return flat.at[i].set(E.convert_element_type(self._func(flat.at[i].get(mode="clip"), value), x.dtype), mode="drop"), None

        return reshape(scan(step, ravel(x), (ravel(positions), ravel(spread(b, positions.shape))))[0], x.shape)

    def reduceat(self, a, indices, axis=0, dtype=None, out=None):
        """Folds over a[indices[i] : indices[i + 1]] (just a[indices[i]] where that is empty), in a's dtype or the one given.

        indices must be concrete; one beyond the end gives NaN, of integers the least number.
        """
        self._binary("reduceat")
        no_out(f"{self.__name__}.reduceat", out)
        x = as_array(f"{self.__name__}.reduceat", a)
        x = x if dtype is None else E.convert_element_type(x, user_dtype(dtype))
        axis = axis_index(axis, x.ndim)
        starts = [operator.index(i) for i in np.asarray(indices).tolist()]
        parts = []
        for lo, hi in zip(starts, [*starts[1:], x.shape[axis]]):
            if lo >= x.shape[axis]:
                parts.append(x.at[(slice(None),) * axis + (np.array([lo]),)].get(mode="fill"))
                continue
            idx = (slice(None),) * axis + (slice(lo, max(hi, lo + 1)),)
            parts.append(E.convert_element_type(self.reduce(x[idx], axis, keepdims=True), x.dtype))
        return concatenate(parts, axis)


def frompyfunc(func, /, nin, nout, *, identity=None):
    """A ufunc object of a function of scalars."""
    return ufunc(vectorize(func), nin, nout, name=f"{getattr(func, '__name__', 'function')} (vectorized)", identity=identity)


_IDENTITIES = {
    "add": 0, "subtract": None, "multiply": 1, "maximum": None, "minimum": None, "bitwise_and": -1, "bitwise_or": 0, "bitwise_xor": 0,
    "logical_and": True, "logical_or": False, "logical_xor": False, "logaddexp": -np.inf, "logaddexp2": -np.inf, "negative": None,
}  # fmt: skip
UFUNCS = {
    name: ufunc(getattr(U, name), 1 if name == "negative" else 2, 1, name=name, identity=identity) for name, identity in _IDENTITIES.items()
}
