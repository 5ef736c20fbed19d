"""checkpoint's companions: names for values, and a look at what a function stores for its backward pass."""

import inspect

from fgrad import array_tree as tree
from fgrad.core import Literal, get_aval, is_tracer, source_text, stage, to_array
from fgrad.transforms import checkpoint_policies
from fgrad.transforms.checkpoint_policies import name_p
from fgrad.transforms.linearize import linearize_flat
from fgrad.transforms.remat import checkpoint


def checkpoint_name(x, name):
    """x (a tree of arrays) with its leaves named, for the policies that go by names. Outside checkpoint it does nothing.

    >>> import fgrad, fgrad.numpy as jnp
    >>> from fgrad.ad_checkpoint import checkpoint_name
    >>> policy = fgrad.checkpoint_policies.save_only_these_names("hidden")
    >>> f = fgrad.checkpoint(lambda x: jnp.sin(checkpoint_name(jnp.exp(x), "hidden")), policy=policy)
    """
    if not isinstance(name, str):
        raise TypeError(f"checkpoint_name: the name must be a string, got {name!r}")
    return tree.map(lambda v: name_p.bind(v if is_tracer(v) else to_array(v), name=name), x)


def saved_residuals(f, *args, **kwargs):
    """[(aval, where it comes from)...]: what reverse-mode differentiation of f(*args, **kwargs) stores for its backward pass."""
    paths, treedef = tree.flatten_with_entries((args, kwargs))

    def flat(*leaves):
        a, kw = tree.unflatten(treedef, leaves)
        return tree.leaves(f(*a, **kw))

    jaxpr = stage(lambda *xs: _unique(linearize_flat(flat, xs)[1].consts), [get_aval(x) for _, x in paths], "residuals").jaxpr
    maker = {v: e for e in jaxpr.eqns for v in e.outvars}
    names = {v: _argument(f, path) for v, (path, _) in zip(jaxpr.invars, paths)}
    out = []
    for v in jaxpr.outvars:
        if type(v) is Literal:
            where = "from a literal"
        elif v in names:
            where = f"from the argument {names[v]}"
        elif v in maker:
            e = maker[v]
            what = f"named {e.params['name']!r}" if e.primitive is name_p else f"output of {e.primitive.name}"
            where = f"{what} from {source_text(e.source)}"
        else:
            where = "from a constant"
        out.append((v.aval, where))
    return out


def _unique(xs):
    return list({id(x): x for x in xs}.values())


def _argument(f, path):
    """An argument's name and the path of a leaf in it."""
    name = path[1]
    if path[0] == 0:
        try:
            params = list(inspect.signature(f).parameters.values())
        except (TypeError, ValueError):
            params = []
        if name < len(params) and params[name].kind is not inspect.Parameter.VAR_POSITIONAL:
            name = params[name].name
    return f"{name}{tree.keystr(path[2:])}"


def print_saved_residuals(f, *args, **kwargs):
    """Print what saved_residuals finds, one line for each value."""
    for aval, where in saved_residuals(f, *args, **kwargs):
        print(aval.short(), where)


remat = checkpoint
__all__ = ["checkpoint", "checkpoint_name", "checkpoint_policies", "print_saved_residuals", "remat", "saved_residuals"]
