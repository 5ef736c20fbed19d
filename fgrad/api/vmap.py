"""vmap: a function mapped over an axis of its arguments."""

import operator

import numpy as np

from fgrad import array_tree as tree
from fgrad.api.common import arg_paths, as_arrays, check_args, check_callable, flat_fun, fun_name
from fgrad.core import get_aval, wraps
from fgrad.core.float0 import is_float0
from fgrad.core.refs import any_refs, held, is_held, opened, refs_in, running, values_of, write_back
from fgrad.ops.rules import bdim_at_front, move_axis
from fgrad.transforms.vmap import Axis, BatchTracer, batch_flat


def _axes_leaves(axes, treedef, what):
    """The axis of each leaf of a tree of structure `treedef`, from a tree prefix of ints and None."""
    try:
        found = tree.prefix_leaves(axes, treedef)
    except ValueError as e:
        raise ValueError(
            f"vmap {what} specification must be a tree prefix of the corresponding value, got specification {axes} "
            f"for value tree structure {treedef}: {e}"
        ) from None
    for a in found:
        if a is not None and not hasattr(a, "__index__"):
            raise TypeError(f"vmap {what} must be ints, None, or pytrees of them, got {a!r}")
    return found


def _unbatched(ref, value):
    """What an unmapped mutable array keeps of a value that was written under vmap."""
    if isinstance(value, BatchTracer) and value._trace.done:
        raise ValueError(
            f"performing a set/swap operation with vmapped value on an unbatched array reference of type {ref.aval}. Move the array "
            "reference to be an argument to the vmapped function?"
        )
    return value


def vmap(fun, in_axes=0, out_axes=0, axis_name=None, axis_size=None, spmd_axis_name=None):
    """`fun` mapped over an axis of its arguments. in_axes, out_axes: ints or None, or pytrees of them (prefixes).

    >>> import fgrad, fgrad.numpy as jnp
    >>> fgrad.vmap(jnp.dot, in_axes=(0, None))(jnp.ones((3, 2)), jnp.ones(2))
    Array([2., 2., 2.], dtype=float32)
    """
    check_callable(fun)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not (in_axes is None or isinstance(in_axes, tuple) or hasattr(in_axes, "__index__")):
        raise TypeError(
            f"vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments passed to the "
            f"function, but got {in_axes!r}."
        )
    for what, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        if not hasattr(axes, "__index__") and not all(hasattr(a, "__index__") for a in tree.leaves(axes)):
            raise TypeError(f"vmap {what} must be an int, None, or (nested) container with those types as leaves, but got {axes}.")

    def _of_refs(given, args, kwargs):
        """The call with mutable arrays among its arguments, as one of their values that gives the new ones along the same axes."""

        @wraps(fun)
        def of_values(*args, **kwargs):
            inside: list = []
            args, kwargs = opened(args, vmap, inside), opened(kwargs, vmap, inside)
            out = fun(*args, **kwargs)
            return out, values_of(inside)

        args, kwargs = held(args, vmap), held(kwargs, vmap)
        axes = [*_axes_leaves(in_axes, tree.structure(args), "in_axes"), *[0] * len(tree.leaves(kwargs))]
        ref_axes = [axis for x, axis in zip(tree.leaves((args, kwargs), is_leaf=is_held), axes) if is_held(x)]
        mapped = vmap(of_values, in_axes, (out_axes, ref_axes), axis_name, axis_size, spmd_axis_name)
        out, values = mapped(*args, **kwargs)
        write_back(given, values)
        return out

    @wraps(fun)
    def wrapped(*args, **kwargs):
        if any_refs() and (given := refs_in((args, kwargs))):
            return _of_refs(given, args, kwargs)
        leaves, treedef = tree.flatten((args, kwargs))
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                f"vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments passed to "
                "the function, "
                f"but got len(in_axes)={len(in_axes)}, len(args)={len(args)}"
            )
        of_args, of_kwargs = treedef.children()
        axes = _axes_leaves(in_axes, of_args, "in_axes") + [0] * of_kwargs.num_leaves
        check_args([0 if a is None else x for a, x in zip(axes, leaves)], treedef, fun, "vmap")  # unmapped ones may be functions, say
        dims, size = _map_sizes(leaves, treedef, axes, axis_size, fun)
        out_tree = [None]
        with running(_unbatched):
            outs, out_dims = batch_flat(flat_fun(fun, treedef, out_tree), Axis(size, axis_name), dims, leaves)
        want = _axes_leaves(out_axes, out_tree[0], "out_axes")
        final = []
        for i, (o, d, w) in enumerate(zip(outs, out_dims, want)):
            if d == w == 0:
                final.append(o)
            elif w is None:
                if d is not None:
                    where = tree.keystr(tree.paths(out_tree[0])[i])
                    raise ValueError(
                        f"at vmap out_axes{where}, got axis spec None but output was batched on axis {d}: "
                        "a result that depends on a mapped argument needs an axis"
                    )
                final.append(o)
            else:
                front, ndim = bdim_at_front(o, d, size), get_aval(o).ndim + (d is None)
                if not -ndim <= w < ndim:
                    raise ValueError(f"vmap out_axes: axis {w} is out of bounds for a mapped result of dimension {ndim}")
                final.append(move_axis(front, 0, w))
        return _map_float0(tree.unflatten(out_tree[0], as_arrays(final)), out_axes, size)

    return wrapped


def _map_float0(result, out_axes, size):
    """float0 leaves, which flat_fun hides from the mapping, with the mapped axis."""
    leaves, treedef = tree.flatten(result)
    if not any(is_float0(x) for x in leaves):
        return result
    axes = _axes_leaves(out_axes, treedef, "out_axes")

    def mapped(x, axis):
        return x if axis is None or not is_float0(x) else np.repeat(np.expand_dims(x, axis), size, axis)

    return tree.unflatten(treedef, list(map(mapped, leaves, axes)))


def _map_sizes(leaves, treedef, axes, axis_size, fun):
    """(the mapped axis of each leaf or None, the size of the mapped axes)."""
    dims: list[int | None] = []
    where: dict[int, list[int | str]] = {} if axis_size is None else {axis_size: ["the axis_size argument"]}
    for i, (x, a) in enumerate(zip(leaves, axes)):
        if a is None:
            dims.append(None)
            continue
        aval = get_aval(x)
        a = operator.index(a)
        if not -aval.ndim <= a < aval.ndim:
            raise ValueError(
                f"vmap was requested to map its argument along axis {a}, which implies that its rank should be at "
                f"least {a + 1 if a >= 0 else -a}, but is only {aval.ndim} (its shape is {aval.shape}): {arg_paths(fun, treedef)[i]}"
            )
        dims.append(a % aval.ndim)
        where.setdefault(aval.shape[a], []).append(i)
    if not where:
        raise ValueError(f"vmap must have at least one non-None value in in_axes or axis_size must be specified, for {fun_name(fun)}")
    if len(where) > 1:
        raise ValueError(f"vmap got inconsistent sizes for array axes to be mapped:{_size_report(where, leaves, treedef, dims, fun)}")
    return dims, next(iter(where))


def _size_report(where, leaves, treedef, dims, fun):
    """One line per size: what has it."""
    paths = arg_paths(fun, treedef)
    name = lambda i: i if isinstance(i, str) else f"axis {dims[i]} of {paths[i]} of type {get_aval(leaves[i])}"
    lines = []
    for size, who in sorted(where.items(), key=lambda item: -len(item[1])):
        count = "one axis" if len(who) == 1 else f"{len(who)} axes"
        lines.append(f"\n  * {count} had size {size}: {', '.join(name(i) for i in who[:3])}{', ...' if len(who) > 3 else ''}")
    return ";".join(lines)
