"""Products of vectors, matrices and tensors."""

import functools
import math
import operator
from importlib import import_module
from string import ascii_letters

import numpy as np

from fgrad import dtypes
from fgrad.compile.eager import eager
from fgrad.core.binding import is_array
from fgrad.errors import ShapeError
from fgrad.numpy.manipulation import diagonal, moveaxis, ravel, reshape
from fgrad.numpy.util import as_array, axis_tuple, broadcast_shape, no_out, promoted
from fgrad.ops import elementwise as E
from fgrad.ops import shape as S
from fgrad.ops.dot import dot_general
from fgrad.ops.reduce import reduce_or, reduce_sum

__all__ = [
    "matmul", "dot", "vdot", "vecdot", "matvec", "vecmat", "inner", "outer", "tensordot", "kron", "cross", "einsum", "einsum_path",
]  # fmt: skip


def _pair(name, a, b):
    if is_array(a) and is_array(b) and a.aval.dtype is b.aval.dtype:
        return a, b
    a, b = promoted(name, [as_array(name, a), as_array(name, b, 1)])
    return a, b


@eager(2)
def matmul(a, b, *, precision=None, preferred_element_type=None, out_sharding=None):
    """The matrix product a @ b, batched over leading axes, which broadcast."""
    a, b = _pair("matmul", a, b)
    if not a.ndim or not b.ndim:
        raise ValueError(f"matmul input operand {int(a.ndim > 0)} must have ndim at least 1, but it has ndim 0")
    k, kb = a.shape[-1], b.shape[-2] if b.ndim > 1 else b.shape[0]
    if k != kb:
        raise TypeError(
            f"dot_general requires contracting dimensions to have the same shape, got ({k},) and ({kb},) (matmul of "
            f"{a.shape} and {b.shape})"
        )
    if b.ndim <= 2:
        return dot_general(a, b, (((a.ndim - 1,), (0,)), ((), ())), precision, preferred_element_type)
    if a.ndim == 1:
        return dot_general(b, a, (((b.ndim - 2,), (0,)), ((), ())), precision, preferred_element_type)
    lead = broadcast_shape(a.shape[:-2], b.shape[:-2])
    n = len(lead)
    # Batch axes that only b has stay free axes of b: one product over all of them.
    a = S.broadcast_in_dim(a, (*lead, *a.shape[-2:]), tuple(range(n + 2 - a.ndim, n + 2)))
    b = S.broadcast_in_dim(b, (*lead, *b.shape[-2:]), tuple(range(n + 2 - b.ndim, n + 2)))
    batch = tuple(range(n))
    return dot_general(a, b, (((n + 1,), (n,)), (batch, batch)), precision, preferred_element_type)


@eager(2)
def dot(a, b, *, precision=None, preferred_element_type=None, out_sharding=None):
    """NumPy's dot: over the last axis of a and the second-to-last of b."""
    a, b = _pair("dot", a, b)
    if not a.ndim or not b.ndim:
        return E.mul(a, b)
    axis = b.ndim - 2 if b.ndim > 1 else 0
    return dot_general(a, b, (((a.ndim - 1,), (axis,)), ((), ())), precision, preferred_element_type)


@eager(2)
def vdot(a, b, *, precision=None, preferred_element_type=None):
    """The product conj(a) . b of flattened arrays."""
    a, b = _pair("vdot", a, b)
    return dot(E.conj(ravel(a)), ravel(b), precision=precision, preferred_element_type=preferred_element_type)


@eager(2)
def vecdot(x1, x2, /, *, axis=-1, precision=None, preferred_element_type=None):
    """The products conj(x1) . x2 of vectors along `axis`; other axes broadcast."""
    a, b = _pair("vecdot", x1, x2)
    a, b = moveaxis(a, axis, -1), moveaxis(b, axis, -1)
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"vecdot: shapes {a.shape} and {b.shape} differ along the contracted axis")
    a, b = E.conj(a), S.expand_dims(b, (b.ndim,))
    a = S.expand_dims(a, (a.ndim - 1,))
    out = matmul(a, b, precision=precision, preferred_element_type=preferred_element_type)
    return S.squeeze(out, (out.ndim - 2, out.ndim - 1))


@eager(2)
def matvec(x1, x2, /):
    """Products of matrices (..., m, n) with vectors (..., n); leading axes broadcast."""
    a, b = _pair("matvec", x1, x2)
    if a.ndim < 2 or b.ndim < 1:
        raise ValueError(f"matvec needs a matrix and a vector, got shapes {a.shape} and {b.shape}")
    out = matmul(a, S.expand_dims(b, (b.ndim,)))
    return S.squeeze(out, (out.ndim - 1,))


@eager(2)
def vecmat(x1, x2, /):
    """Products conj(vector) (..., n) with matrices (..., n, m); leading axes broadcast."""
    a, b = _pair("vecmat", x1, x2)
    if a.ndim < 1 or b.ndim < 2:
        raise ValueError(f"vecmat needs a vector and a matrix, got shapes {a.shape} and {b.shape}")
    out = matmul(S.expand_dims(E.conj(a), (a.ndim - 1,)), b)
    return S.squeeze(out, (out.ndim - 2,))


@eager(2)
def inner(a, b, *, precision=None, preferred_element_type=None):
    """Products over the last axes of both arrays."""
    a, b = _pair("inner", a, b)
    if not a.ndim or not b.ndim:
        return E.mul(a, b)
    return dot_general(a, b, (((a.ndim - 1,), (b.ndim - 1,)), ((), ())), precision, preferred_element_type)


@eager(2)
def outer(a, b, out=None):
    """The products of every element of a with every element of b, both flattened."""
    no_out("outer", out)
    a, b = _pair("outer", ravel(a), ravel(b))
    return E.mul(S.broadcast_in_dim(a, (a.size, b.size), (0,)), S.broadcast_in_dim(b, (a.size, b.size), (1,)))


@eager(2)
def tensordot(a, b, axes=2, *, precision=None, preferred_element_type=None, out_sharding=None):
    """Contraction over the last axes of a and first of b (a number), or over given pairs of axes."""
    a, b = _pair("tensordot", a, b)
    if not np.iterable(axes):
        axes = operator.index(axes)
        if axes > min(a.ndim, b.ndim):
            raise TypeError(f"Number of tensordot axes (axes {axes}) exceeds input ranks ({a.shape} and {b.shape})")
        left, right = tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes))
    else:
        left, right = (axis_tuple(x, y.ndim) for x, y in zip(axes, (a, b)))
    return dot_general(a, b, ((left, right), ((), ())), precision, preferred_element_type)


@eager(2)
def kron(a, b):
    """The Kronecker product: b scaled by every element of a."""
    a, b = _pair("kron", a, b)
    n = max(a.ndim, b.ndim)
    a, b = S.reshape(a, (1,) * (n - a.ndim) + a.shape), S.reshape(b, (1,) * (n - b.ndim) + b.shape)
    shape = tuple(d for p in zip(a.shape, b.shape) for d in p)
    out = E.mul(S.broadcast_in_dim(a, shape, tuple(range(0, 2 * n, 2))), S.broadcast_in_dim(b, shape, tuple(range(1, 2 * n, 2))))
    return reshape(out, tuple(p * q for p, q in zip(a.shape, b.shape)))


@eager(2)
def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    """The vector product of 2- or 3-vectors; of two 2-vectors its third component. axis: overrides axisa, axisb and axisc."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = _pair("cross", moveaxis(a, axisa, -1), moveaxis(b, axisb, -1))
    if a.shape[-1] not in (2, 3) or b.shape[-1] not in (2, 3):
        raise ValueError("Dimension must be either 2 or 3 for cross product")
    if a.shape[-1] == b.shape[-1] == 2:
        return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    a, b = (x if x.shape[-1] == 3 else S.pad(x, E.like(x, 0), [(0, 0, 0)] * (x.ndim - 1) + [(0, 1, 0)]) for x in (a, b))
    a1, a2, a3 = (a[..., i] for i in range(3))
    b1, b2, b3 = (b[..., i] for i in range(3))
    parts = [a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1]
    out = S.concatenate([S.expand_dims(p, (p.ndim,)) for p in parts], parts[0].ndim)
    return moveaxis(E.convert_element_type(out, out.aval.dtype), -1, axisc)  # of vectors in space never weakly typed


@functools.cache
def _opt_einsum():
    """opt_einsum, imported when it is first needed: it takes a twentieth of the time of `import fgrad`."""
    return import_module("opt_einsum")


def _as_subscripts(subscripts, operands):
    """einsum's arguments as ("ij,j->i", arrays): they may also come as array, [0, 1], array, [1], ..., [0]."""
    if not isinstance(subscripts, str):
        if not operands:
            raise TypeError(
                f"einsum takes subscripts (a string) first, or arrays each followed by its axes; got {type(subscripts).__name__} alone"
            )
        subscripts, operands = _opt_einsum().parser.convert_interleaved_input((subscripts, *operands))
    if not operands:
        raise ValueError(f"einsum: the subscripts {subscripts!r} are of one operand at least, got none")
    ops = promoted("einsum", [as_array("einsum", x, i) for i, x in enumerate(operands)])
    ins, out = _letters(subscripts, tuple(x.shape for x in ops))
    return ins, out, ops


@functools.lru_cache(1024)
def _letters(subscripts, shapes):
    """The letters of the operands, joined by commas, and of the result, which subscripts may leave open."""
    ins, arrow, out = subscripts.replace(" ", "").partition("->")
    terms, shared = ins.split(","), ""
    if len(terms) == len(shapes) and all(t.count(".") in (0, 3) and t.count("...") == t.count(".") // 3 for t in (*terms, out)):
        ranks = [len(s) - len(t) + 3 if "." in t else 0 for t, s in zip(terms, shapes)]  # of the axes that an ellipsis stands for
        free = [c for c in ascii_letters if c not in subscripts][: max(ranks)]
        shared = "".join(free)
        terms = [t.replace("...", shared[len(shared) - n :]) for t, n in zip(terms, ranks)]
        ins = ",".join(terms)
        if not arrow:
            out = shared + "".join(sorted(c for c in set(ins) - {",", *shared} if ins.count(c) == 1))
        out = out.replace("...", shared)
        letters = set(ins) - {","}
        if (
            min(ranks) >= 0
            and len(shared) == max(ranks)
            and "".join(letters).isalpha()
            and len(set(out)) == len(out)
            and set(out) <= letters
        ):
            return ins, out
    return _opt_einsum().parser.parse_einsum_input((subscripts, *[np.broadcast_to(np.float32(0), s) for s in shapes]))[:2]


def _order_of_three(terms, out, shapes):
    """The order in which three operands are contracted with the fewest operations, as opt_einsum counts them; the first of equals."""
    sizes: dict = {}
    for t, shape in zip(terms, shapes):
        for c, n in zip(t, shape):
            sizes[c] = max(n, sizes.get(c, 1))
    operands = [set(t) for t in terms]

    def work(a, b, keep):
        return math.prod([sizes[c] for c in a | b]) * (2 if (a & b) - keep else 1)

    def total(pair):
        a, b, (c,) = operands[pair[0]], operands[pair[1]], [t for k, t in enumerate(operands) if k not in pair]
        keep = c | set(out)
        return work(a, b, keep) + work((a | b) & keep, c, set(out))

    return [min(((0, 1), (0, 2), (1, 2)), key=total), (0, 1)]


def einsum_path(subscripts, /, *operands, optimize="auto"):
    """(order of contractions, text that describes it) of einsum, as opt_einsum finds it."""
    ins, out, ops = _as_subscripts(subscripts, operands)
    path, info = _opt_einsum().contract_path(f"{ins}->{out}", *[x.shape for x in ops], shapes=True, optimize=optimize)
    return list(path), info


def einsum(
    subscripts,
    /,
    *operands,
    out=None,
    optimize="auto",
    precision=None,
    preferred_element_type=None,
    out_sharding=None,
    _dot_general=dot_general,
):
    """Einstein summation; the order of contractions is opt_einsum's. _dot_general: what multiplies, called as lax.dot_general is.

    >>> import fgrad.numpy as jnp
    >>> jnp.einsum("ij,j->i", jnp.ones((2, 3)), jnp.arange(3.))
    Array([3., 3.], dtype=float32)
    """
    no_out("einsum", out)
    if type(subscripts) is str and preferred_element_type is None and _dot_general is dot_general:
        return _einsum_of_arrays(operands, subscripts, optimize)
    return _einsum_of(subscripts, operands, optimize, precision, preferred_element_type, _dot_general)


@eager(-1)
def _einsum_of_arrays(operands, subscripts, optimize):
    return _einsum_of(subscripts, operands, optimize)


def _einsum_of(subscripts, operands, optimize, precision=None, preferred_element_type=None, _dot_general=dot_general):
    ins, out, ops = _as_subscripts(subscripts, operands)
    preferred = None if preferred_element_type is None else dtypes.canonicalize_dtype(preferred_element_type)
    terms = ins.split(",")
    for t, x in zip(terms, ops):
        if len(t) != x.ndim:
            raise ShapeError(f"einsum: subscript {t!r} does not match an operand of shape {x.shape}")
    shapes = [x.shape for x in ops]
    if len(ops) < 3:
        path = [tuple(range(len(ops)))]
    elif len(ops) == 3 and optimize in ("auto", "optimal", True):
        path = _order_of_three(terms, out, shapes)
    else:
        path = _opt_einsum().contract_path(f"{ins}->{out}", *shapes, shapes=True, optimize=optimize)[0]
    dot = dot_general
    if _dot_general is not dot_general:
        dot = functools.partial(_dot_general, precision=precision, preferred_element_type=preferred)
    return _einsum(*ops, terms=tuple(terms), out=out, path=tuple(path), dot=dot, preferred=preferred)


def _einsum(*ops, terms, out, path, dot=dot_general, preferred=None):
    """The contractions of operands with these letters, in the order of the path; results are of the dtype that is preferred, if any."""
    items = list(zip(terms, ops))
    for step in path:
        chosen = [items[i] for i in sorted(step)]
        items = [it for i, it in enumerate(items) if i not in step]
        later = set(out).union(*[t for t, _ in items])
        while len(chosen) > 1:
            b, a = chosen.pop(), chosen.pop()
            keep = later.union(*[t for t, _ in chosen])
            pair = _simplify(*a, keep | set(b[0]), preferred), _simplify(*b, keep | set(a[0]), preferred)
            chosen.append(_contract(*pair, keep, dot, out, preferred))
        items.append(_simplify(*chosen[0], later, preferred))
    term, x = items[0]
    x = S.transpose(x, tuple(term.index(c) for c in out))
    return x if preferred is None else E.convert_element_type(x, preferred)


def _summed(x, axes, preferred):
    """The sum that einsum means: of booleans, whether any is true."""
    if axes and preferred is not None:
        x = E.convert_element_type(x, preferred)
    return reduce_or(x, axes) if x.dtype == dtypes.BOOL else reduce_sum(x, axes)


def _simplify(term, x, keep, preferred):
    """Diagonals of repeated letters taken, letters that nobody needs summed."""
    for c in set(term):
        while term.count(c) > 1:
            i, j = term.index(c), term.rindex(c)
            if x.shape[i] != x.shape[j]:
                raise ShapeError(f"einsum: label {c!r} has sizes {x.shape[i]} and {x.shape[j]} in one operand")
            x = diagonal(x, 0, i, j)
            term = term[:i] + term[i + 1 : j] + term[j + 1 :] + c
    drop = tuple(i for i, c in enumerate(term) if c not in keep)
    return "".join(c for c in term if c in keep), _summed(x, drop, preferred)


def _contract(left, right, keep, dot, order, preferred):
    """(letters, product) of two operands. Where nothing is summed and all letters stay its axes are in the given order: those of a
    product of matrices by one, whose derivatives are products too; others by an elementwise product, which fuses."""
    (ta, a), (tb, b) = left, right
    shared = [c for c in ta if c in tb]
    sizes = dict(zip(ta, a.shape))
    for c, n in zip(tb, b.shape):
        if sizes.get(c, n) != n:
            if n != 1 and sizes[c] != 1:
                raise ShapeError(f"einsum: label {c!r} has sizes {sizes[c]} and {n}")
            a, b = _spread(ta, a, c, max(n, sizes[c])), _spread(tb, b, c, max(n, sizes[c]))
            sizes[c] = max(n, sizes[c])
    batch, gone = [c for c in shared if c in keep], [c for c in shared if c not in keep]
    left, right = [c for c in ta if c not in shared], [c for c in tb if c not in shared]
    if preferred is not None and dot is dot_general:
        if not gone or a.dtype != b.dtype:
            a, b = (E.convert_element_type(x, preferred) for x in (a, b))
        dot = functools.partial(dot_general, preferred_element_type=preferred) if gone else dot
    if not gone and dot is dot_general and batch + left + right != list(order):
        if batch + right + left == list(order):
            return order, dot(b, a, (((), ()), (tuple(map(tb.index, batch)), tuple(map(ta.index, batch)))))
        if set(order) == sizes.keys() | set(tb):
            shape = tuple([b.shape[tb.index(c)] if c in tb else sizes[c] for c in order])
            return order, E.mul(_laid_out(ta, a, order, shape), _laid_out(tb, b, order, shape))
    out = dot(a, b, ((tuple(map(ta.index, gone)), tuple(map(tb.index, gone))), (tuple(map(ta.index, batch)), tuple(map(tb.index, batch)))))
    return "".join([*batch, *left, *right]), out


def _laid_out(term, x, letters, shape):
    """x, with axes of these letters, over all letters' axes."""
    at = [letters.index(c) for c in term]
    order = sorted(range(x.ndim), key=at.__getitem__)
    return S.broadcast_in_dim(S.transpose(x, tuple(order)), shape, tuple(sorted(at)))


def _spread(term, x, c, n):
    i = term.index(c)
    return S.broadcast_in_dim(x, (*x.shape[:i], n, *x.shape[i + 1 :]), tuple(range(x.ndim)))
