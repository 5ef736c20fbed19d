"""How jit runs a primitive: as a function of other operations. (There is no MLIR: rules that write it cannot be run.)"""

from fgrad import array_tree as tree

__all__ = ["LoweringRuleContext", "lower_fun", "register_lowering"]


class LoweringRuleContext:
    """What rules that write MLIR would be given: a name for annotations."""


class _Lowering:
    def __init__(self, fun, multiple_results):
        self.fun, self.multiple_results = fun, multiple_results

    def __call__(self, ctx, ins, params, out_avals):
        outs = ctx.compose(lambda *args: tree.leaves(self.fun(*args, **params)), ins)
        return outs if self.multiple_results else outs[0]


def lower_fun(fun, multiple_results=True):
    """The lowering that runs fun(*args, **params), a function of fgrad's operations."""
    return _Lowering(fun, multiple_results)


def _refuse(ctx, ins, params, out_avals):
    raise TypeError("a primitive whose lowering writes MLIR: there is none here; give register_lowering what lower_fun(function) returns")


def register_lowering(prim, rule, platform=None, inline=True, cacheable=True):
    """Set how jit runs `prim`: rule is what lower_fun gives. With another one, jit raises TypeError where it meets `prim`.

    >>> import fgrad.numpy as jnp, fgrad
    >>> from fgrad.extend.core import Primitive
    >>> cube = Primitive("cube_of_mine")
    >>> _ = cube.def_abstract_eval(lambda x: x)
    >>> register_lowering(cube, lower_fun(lambda x: x * x * x, multiple_results=False))
    >>> float(fgrad.jit(cube.bind)(2.0))
    8.0
    """
    if platform in (None, "cpu"):
        prim.lower = rule if isinstance(rule, _Lowering) else _refuse
