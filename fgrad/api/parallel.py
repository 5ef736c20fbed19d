"""pmap over the one device, and names for parts of a program."""

import contextlib

from fgrad import array_tree as tree
from fgrad.api.device import check_device
from fgrad.api.jit import jit
from fgrad.api.vmap import vmap
from fgrad.core import get_aval, wraps


def pmap(
    fun,
    axis_name=None,
    *,
    in_axes=0,
    out_axes=0,
    static_broadcasted_argnums=(),
    devices=None,
    backend=None,
    axis_size=None,
    donate_argnums=(),
):
    """`fun` mapped over devices. There is one, so the mapped axis must be of size 1; collectives over axis_name work.

    Raises ValueError for another size: use vmap, whose work is spread over the CPU's cores, and jit.

    >>> import fgrad, fgrad.numpy as jnp
    >>> fgrad.pmap(lambda x: fgrad.lax.psum(x, "i"), axis_name="i")(jnp.ones((1, 2)))
    Array([[1., 1.]], dtype=float32)
    """
    check_device(backend, "pmap backend")
    for device in devices or ():
        check_device(device, "pmap devices")
    static = (static_broadcasted_argnums,) if isinstance(static_broadcasted_argnums, int) else tuple(static_broadcasted_argnums)

    @wraps(fun)
    def mapped(*args, **kwargs):
        fixed = {i % len(args): args[i] for i in static if -len(args) <= i < len(args)}
        dynamic = tuple(a for i, a in enumerate(args) if i not in fixed)
        axes = in_axes
        if isinstance(axes, (tuple, list)) and len(axes) == len(args):
            axes = tuple(a for i, a in enumerate(axes) if i not in fixed)

        def body(*dynamic, **kwargs):
            given = iter(dynamic)
            return fun(*[fixed[i] if i in fixed else next(given) for i in range(len(args))], **kwargs)

        sizes = {get_aval(x).shape[0] for x in tree.leaves(dynamic) if get_aval(x).ndim} if axes == 0 else set()
        if (axis_size or 1) != 1 or sizes - {1}:
            raise ValueError(
                f"pmap: the mapped axis has size {axis_size if (axis_size or 1) != 1 else max(sizes)}, but there is 1 device. "
                "Use jit(vmap(...)), which uses all cores."
            )
        return vmap(body, axes, out_axes, axis_name=axis_name, axis_size=1)(*dynamic, **kwargs)

    return jit(mapped, static_argnums=static, donate_argnums=donate_argnums)


def named_call(fun, *, name=None):
    """`fun`, with a name in messages and jaxprs: its own, or `name`."""

    @wraps(fun)
    def named(*args, **kwargs):
        return fun(*args, **kwargs)

    if name is not None:
        named.__name__ = name
    return named


class named_scope(contextlib.ContextDecorator):
    """A context or decorator without effect: equations are known by their source lines, not by names. Raises TypeError for no string."""

    def __init__(self, name):
        if not isinstance(name, str):
            raise TypeError(f"named_scope takes a string, got {name!r}")
        self.name = name

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return False
