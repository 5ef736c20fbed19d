"""Functions with derivatives of one's own, as HIPS autograd's `extend` declares them: rules per argument."""

from fgrad import numpy as jnp
from fgrad import tree
from fgrad.api import custom_jvp, custom_vjp
from fgrad.core import wraps


def primitive(fun):
    """A function of arrays whose derivatives are those that `defvjp` or `defjvp` give it.

    Differentiated before it has rules, it raises NotImplementedError. Keyword arguments have no derivative.

    >>> import fgrad, fgrad.numpy as jnp
    >>> @fgrad.extend.primitive
    ... def log_sum(x):
    ...     return jnp.log(jnp.sum(jnp.exp(x)))
    >>> fgrad.extend.defvjp(log_sum, lambda ans, x: lambda g: g * jnp.exp(x - ans))
    >>> fgrad.grad(log_sum)(jnp.array([0.0, 0.0]))
    Array([0.5, 0.5], dtype=float32)
    """
    name = getattr(fun, "__name__", "function")

    def missing(kind, at):
        raise NotImplementedError(f"{kind} of {name} wrt argnum {at} not defined: give it with {'defvjp' if kind == 'VJP' else 'defjvp'}")

    def by_pullbacks(rules, kwargs):
        applied = custom_vjp(lambda *args: fun(*args, **kwargs))

        def forward(*args):
            for at, arg in enumerate(args):
                if at not in rules and any(leaf.perturbed for leaf in tree.leaves(arg)):
                    missing("VJP", at)
            args = tree.map(lambda leaf: leaf.value, args)
            ans = fun(*args, **kwargs)
            return ans, (ans, args)

        def backward(kept, g):
            ans, args = kept
            zero = lambda x: tree.map(jnp.zeros_like, x)
            g = tree.map(jnp.asarray, g)
            return tuple(rules[at](ans, *args, **kwargs)(g) if rules.get(at) is not None else zero(x) for at, x in enumerate(args))

        applied.defvjp(forward, backward, symbolic_zeros=True)
        return applied

    def by_pushforwards(rules, kwargs):
        applied = custom_jvp(lambda *args: fun(*args, **kwargs))

        def rule(primals, tangents):
            ans = fun(*primals, **kwargs)
            parts = []
            for at, tangent in enumerate(tangents):
                if at not in rules:
                    missing("JVP", at)
                if rules[at] is not None:
                    parts.append(rules[at](tangent, ans, *primals, **kwargs))
            total = parts[0] if parts else tree.map(jnp.zeros_like, ans)
            for part in parts[1:]:
                total = tree.map(jnp.add, total, part)
            return ans, total

        applied.defjvp(rule)
        return applied

    @wraps(fun)
    def call(*args, **kwargs):
        build = by_pushforwards if call.pushforwards else by_pullbacks
        return build(call.pushforwards or call.pullbacks, kwargs)(*args)

    call.pullbacks, call.pushforwards = {}, {}
    return call


def _set_rules(table, makers, argnums):
    table.update(zip(range(len(makers)) if argnums is None else argnums, makers, strict=True))


def defvjp(fun, *vjpmakers, argnums=None):
    """Give a `primitive` its pullbacks: each maker(ans, *args, **kwargs) returns a function of the result's cotangent.

    One for each argument, or for each of `argnums`; None says that the derivative is zero.
    """
    _set_rules(fun.pullbacks, vjpmakers, argnums)


def defjvp(fun, *jvpfuns, argnums=None):
    """Give a `primitive` its pushforwards: each fun(tangent, ans, *args, **kwargs) returns the result's tangent by one argument.

    One for each argument, or for each of `argnums`; None says that the derivative is zero. They also serve reverse mode.
    """
    _set_rules(fun.pushforwards, jvpfuns, argnums)


__all__ = ["defjvp", "defvjp", "primitive"]
