"""Arithmetic on whole pytrees, under optax's names."""

import functools
import math
import operator

import fgrad.numpy as jnp
from fgrad import dtypes, random, tree
from fgrad.core import Array
from fgrad.optim.base import abs_sq, corrected, dtype_of, full_like, leafwise, moment, zeros_like
from fgrad.optim.tree_state import NamedTupleKey, ParamsPlaceholder, tree_get, tree_get_all_with_path, tree_set

__all__ = [
    "tree_add", "tree_add_scale", "tree_allclose", "tree_bias_correction", "tree_cast", "tree_cast_like", "tree_clip", "tree_conj",
    "tree_div", "tree_dtype", "NamedTupleKey", "tree_full_like", "tree_get", "tree_get_all_with_path", "tree_max", "tree_min",
    "tree_mul", "tree_norm", "tree_ones_like", "tree_random_like", "tree_real", "tree_scale", "tree_set", "tree_size",
    "tree_batch_shape", "tree_map_params", "tree_unwrap_random_key_data", "tree_split_key_like", "tree_sub", "tree_sum",
    "tree_update_infinity_moment", "tree_update_moment", "tree_update_moment_per_elem_norm", "tree_vdot", "tree_where",
    "tree_zeros_like",
]  # fmt: skip


def tree_add(tree_x, tree_y, *other_trees):
    """The sum of two or more trees."""
    return leafwise(lambda *xs: functools.reduce(operator.add, xs), tree_x, tree_y, *other_trees)


def tree_sub(tree_x, tree_y):
    """tree_x - tree_y."""
    return leafwise(operator.sub, tree_x, tree_y)


def tree_mul(tree_x, tree_y):
    """tree_x * tree_y, elementwise."""
    return leafwise(operator.mul, tree_x, tree_y)


def tree_div(tree_x, tree_y):
    """tree_x / tree_y, elementwise."""
    return leafwise(operator.truediv, tree_x, tree_y)


def tree_scale(scalar, tree):
    """scalar * tree."""
    return leafwise(lambda x: scalar * x, tree)


def tree_add_scale(tree_x, scalar, tree_y):
    """tree_x + scalar * tree_y."""
    return leafwise(lambda x, y: x + scalar * y, tree_x, tree_y)


def tree_vdot(tree_x, tree_y):
    """The inner product of two trees, the first one conjugated."""
    return functools.reduce(operator.add, tree.leaves(leafwise(jnp.vdot, tree_x, tree_y)), 0)


def tree_sum(tree, associative_reduction=False):
    """The sum of all elements of all leaves; associative_reduction adds the leaves in a balanced tree instead of one by one."""
    if associative_reduction:
        return _reduce_associative(operator.add, [jnp.sum(x) for x in _leaves(tree)], identity=0)
    return functools.reduce(operator.add, [jnp.sum(x) for x in _leaves(tree)], 0)


def tree_max(tree):
    """The largest element of all leaves; -inf without elements."""
    return functools.reduce(jnp.maximum, [jnp.max(x) for x in _leaves(tree) if jnp.size(x)], -math.inf)


def tree_min(tree):
    """The smallest element of all leaves; inf without elements."""
    return functools.reduce(jnp.minimum, [jnp.min(x) for x in _leaves(tree) if jnp.size(x)], math.inf)


def tree_size(tree):
    """The number of elements of all leaves."""
    return sum(jnp.size(x) for x in _leaves(tree))


def tree_norm(tree, ord=None, squared=False):
    """The vector norm of all leaves together: ord 1, 2 (also None) or infinity."""
    if ord in (None, 2):
        total = jnp.asarray(tree_sum(leafwise(abs_sq, tree)))
        return total if squared else jnp.sqrt(total)
    if ord == 1:
        norm = tree_sum(leafwise(jnp.abs, tree))
    elif ord in (math.inf, "inf", "infinity"):
        norm = functools.reduce(jnp.maximum, [jnp.max(jnp.abs(x)) for x in _leaves(tree) if jnp.size(x)], 0.0)
    else:
        raise ValueError(f"tree_norm: ord must be None, 1, 2 or infinity, got {ord!r}")
    return jnp.square(norm) if squared else jnp.asarray(norm)


def tree_conj(tree):
    """The complex conjugate."""
    return leafwise(jnp.conj, tree)


def tree_real(tree):
    """The real part."""
    return leafwise(jnp.real, tree)


def tree_zeros_like(tree, dtype=None):
    """Zeros in the shapes of `tree`."""
    return zeros_like(tree, dtype)


def tree_ones_like(tree, dtype=None):
    """Ones in the shapes of `tree`."""
    return leafwise(lambda x: jnp.ones_like(x, dtype=dtype), tree)


def tree_full_like(tree, fill_value, dtype=None):
    """fill_value in the shapes of `tree`."""
    return full_like(tree, fill_value) if dtype is None else leafwise(lambda x: jnp.full_like(x, fill_value, dtype=dtype), tree)


def tree_clip(tree, min_value=None, max_value=None):
    """Every element clipped to [min_value, max_value]."""
    return leafwise(lambda x: jnp.clip(x, min_value, max_value), tree)


def tree_where(condition, tree_x, tree_y):
    """tree_x where `condition` (one array for all leaves), else tree_y."""
    return leafwise(lambda x, y: jnp.where(condition, x, y), tree_x, tree_y)


def tree_cast(tree, dtype):
    """The leaves in `dtype`; None leaves them as they are."""
    return tree if dtype is None else leafwise(lambda x: jnp.asarray(x, dtype), tree)


def tree_cast_like(tree, other_tree):
    """The leaves in the dtypes of other_tree."""
    return leafwise(lambda x, like: jnp.asarray(x, jnp.asarray(like).dtype), tree, other_tree)


def tree_dtype(tree, mixed_dtype_handler=None):
    """The dtype of all leaves. Where they differ: the "lowest" or "highest" there is, what they "promote" to, or ValueError."""
    dtypes = {dtype_of(x) for x in _leaves(tree)}
    if len(dtypes) <= 1:
        return next(iter(dtypes), None)
    if mixed_dtype_handler == "promote":
        return jnp.promote_types(*dtypes) if len(dtypes) == 2 else functools.reduce(jnp.promote_types, dtypes)
    if mixed_dtype_handler not in ("lowest", "highest"):
        raise ValueError(f"tree_dtype: the leaves have several dtypes, {sorted(map(str, dtypes))}; say which with mixed_dtype_handler")
    below = lambda a, b: jnp.promote_types(a, b) == b
    ends = [a for a in dtypes if all(below(a, b) if mixed_dtype_handler == "lowest" else below(b, a) for b in dtypes)]
    if not ends:
        raise ValueError(f"tree_dtype: none of {sorted(map(str, dtypes))} is the {mixed_dtype_handler}: they do not promote to each other")
    return ends[0]


def tree_allclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether all elements of two trees agree to a tolerance, as numpy.allclose."""
    close = leafwise(lambda x, y: jnp.allclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan), a, b)
    return functools.reduce(operator.and_, _leaves(close), True)


def tree_update_moment(updates, moments, decay, order):
    """The moving average of updates**order."""
    return leafwise(lambda g, t: moment(decay, g**order, t), updates, moments)


def tree_update_moment_per_elem_norm(updates, moments, decay, order):
    """The moving average of |updates|**order."""
    power = lambda g: abs_sq(g) if order == 2 else g**order if jnp.isrealobj(g) else abs_sq(g) ** (order / 2)
    return leafwise(lambda g, t: moment(decay, power(g), t), updates, moments)


def tree_update_infinity_moment(updates, moments, decay, eps):
    """max(|updates| + eps, decay * moments)."""
    return leafwise(lambda g, t: jnp.maximum(jnp.abs(g) + eps, decay * t), updates, moments)


def tree_bias_correction(moment, decay, count):
    """moment / (1 - decay^count): the moving average without the weight of its start at zero."""
    correction = 1 - decay**count
    return leafwise(lambda t: corrected(t, correction), moment)


def tree_batch_shape(tree, shape=()):
    """Every leaf spread over further leading axes."""
    return leafwise(lambda x: jnp.broadcast_to(x, (*shape, *jnp.shape(x))), tree)


def tree_unwrap_random_key_data(input_tree):
    """The tree with the words of keys in place of the keys."""
    keys = lambda x: isinstance(x, Array) and jnp.issubdtype(x.dtype, dtypes.prng_key)
    return tree.map(lambda x: random.key_data(x) if keys(x) else x, input_tree)


def tree_map_params(initable, f, state, /, *rest, transform_non_params=None, is_leaf=None):
    """An optimizer's state with f over those of its parts that are like the parameters (and over the trees of `rest`), and
    transform_non_params over its other leaves. initable: the optimizer or its init."""
    init = getattr(initable, "init", initable)

    def one(place, value):
        if isinstance(place, ParamsPlaceholder):
            return tree.map(f, value, *rest, is_leaf=is_leaf)
        return value if transform_non_params is None else transform_non_params(value)

    return tree.map(one, init(ParamsPlaceholder()), state, is_leaf=lambda x: isinstance(x, ParamsPlaceholder))


def tree_split_key_like(rng_key, target_tree):
    """A tree of keys split from rng_key, one for each leaf of target_tree."""
    treedef = tree.structure(target_tree)
    return tree.unflatten(treedef, list(random.split(rng_key, tree.num_leaves(treedef))))


def tree_random_like(rng_key, target_tree, sampler=random.normal, dtype=None):
    """Samples in the shapes (and dtypes, without dtype) of target_tree: sampler(key, shape, dtype)."""
    sample = lambda x, key: sampler(key, jnp.shape(x), dtype or jnp.asarray(x).dtype)
    return leafwise(sample, target_tree, tree_split_key_like(rng_key, target_tree))


_leaves = tree.leaves
_reduce_associative = tree.reduce_associative
