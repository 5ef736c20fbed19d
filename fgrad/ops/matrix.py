"""What the rules of matrix primitives share: products, transposes, triangles and diagonals of batches (*batch, m, n)."""

import numpy as np

from fgrad import dtypes
from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.core.binding import always
from fgrad.errors import NotDifferentiableError, ShapeError
from fgrad.ops.along import put_along, take_along
from fgrad.ops.dot import dot_general
from fgrad.ops.elementwise import add, conj, convert_element_type, div, eq, ge, le, like, real, select
from fgrad.ops.reduce import reduce_sum
from fgrad.ops.rules import bdim_at_front, broadcast_in_dim
from fgrad.ops.shape import broadcasted_iota, transpose


def is_complex(x):
    """Whether x has a complex dtype."""
    return get_aval(x).dtype.kind == "c"


def mT(x):
    """The transposed matrices."""
    n = get_aval(x).ndim
    return transpose(x, (*range(n - 2), n - 1, n - 2))


def mH(x):
    """The conjugate transposes of matrices."""
    return conj(mT(x)) if is_complex(x) else mT(x)


def mm(a, b):
    """Products of matrices of equal batches."""
    n = get_aval(a).ndim
    batch = tuple(range(n - 2))
    return dot_general(a, b, (((n - 1,), (n - 2,)), (batch, batch)))


def symmetrized(x):
    """(x + x^H) / 2."""
    aval = get_aval(x)
    return convert_element_type(div(add(x, mH(x)), like(x, 2)), aval.dtype, aval.weak_type)


def real_part(x):
    """The real part; x itself where it is real."""
    return real(x) if is_complex(x) else x


def _triangle(compare, shape, k):
    rows, columns = (broadcasted_iota(np.int32, shape, len(shape) - i) for i in (2, 1))
    return compare(add(rows, np.int32(k)), columns)


def tril(x, k=0):
    """The lower triangles: what lies above diagonal k becomes 0."""
    return select(_triangle(ge, get_aval(x).shape, k), x, like(x, 0))


def triu(x, k=0):
    """The upper triangles: what lies below diagonal k becomes 0."""
    return select(_triangle(le, get_aval(x).shape, k), x, like(x, 0))


def eye_like(x, m=None, n=None):
    """Identity matrices of x's dtype and batch, (m, n) or of x's own shape."""
    aval = get_aval(x)
    m = aval.shape[-2] if m is None else m
    n = aval.shape[-1] if n is None else n
    return convert_element_type(_triangle(eq, (*aval.shape[:-2], m, n), 0), aval.dtype)


def diagonal(x):
    """The main diagonals (*batch, n) of square matrices."""
    n = get_aval(x).ndim
    return reduce_sum(select(_triangle(eq, get_aval(x).shape, 0), x, like(x, 0)), (n - 1,))


def as_rows(v, shape):
    """Vectors (*batch, n) spread over the rows of (*batch, m, n)."""
    n = len(shape)
    return broadcast_in_dim(v, shape, (*range(n - 2), n - 1))


def as_columns(v, shape):
    """Vectors (*batch, m) spread over the columns of (*batch, m, n)."""
    return broadcast_in_dim(v, shape, tuple(range(len(shape) - 1)))


def permute_rows(x, order):
    """x[..., order, :]: row i becomes row order[i] of x."""
    shape = get_aval(x).shape
    return take_along(x, as_columns(order, shape), len(shape) - 2) if 0 not in shape else x


def unpermute_rows(x, order):
    """The inverse of permute_rows: row i goes to row order[i]."""
    shape = get_aval(x).shape
    return put_along(x, as_columns(order, shape), len(shape) - 2, shape[-2]) if 0 not in shape else x


def permute_columns(x, order):
    """x[..., :, order]."""
    shape = get_aval(x).shape
    return take_along(x, as_rows(order, shape), len(shape) - 1) if 0 not in shape else x


# --- declarations -----------------------------------------------------------------------------------------------------


def check_matrices(name, x, square=False):
    """Raise unless x is a batch of (square) matrices of a dtype that LAPACK has."""
    if len(x.shape) < 2 or square and x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{name} takes {'square ' if square else ''}matrices (..., {'n, n' if square else 'm, n'}), got shape {x.shape}")
    check_dtype(name, x)


def check_dtype(name, x):
    """Raise TypeError unless x is float32, float64, complex64 or complex128."""
    if x.dtype.kind not in "fc" or x.dtype == dtypes.FLOAT16:
        raise TypeError(f"{name} does not accept dtype {x.dtype.name}. Accepted dtypes are float32, float64, complex64 and complex128.")


def check_batches(name, *avals_and_cores):
    """Raise unless arguments, given as (aval, number of core axes), have one dtype and one batch."""
    (first, core), *others = avals_and_cores
    batch = first.shape[: len(first.shape) - core]
    for a, c in others:
        if len(a.shape) < c or a.shape[: len(a.shape) - c] != batch:
            shapes = ", ".join(str(a.shape) for a, _ in avals_and_cores)
            raise ShapeError(f"{name}: the leading axes of its arguments must agree, got shapes {shapes}")
        if a.dtype != first.dtype:
            raise TypeError(f"{name} requires arguments to have the same dtypes, got {first.dtype.name} and {a.dtype.name}")


def refuse_jvp(prim, why):
    """Give a primitive a jvp rule that raises NotDifferentiableError."""

    def jvp(primals, tangents, **params):
        raise NotDifferentiableError(f"{prim.name} has no derivative: {why}")

    prim.jvp, prim.refuses = jvp, always


def matrix_primitive(name, shapes, *, square=False, kernel=None, ip=lambda **params: (), empty=None):
    """A primitive of one batch of matrices with several results.

    shapes(batch, m, n, dtype, **params) -> [(shape, dtype)] of the results; kernel: its name, or a function of the parameters;
    ip(**params): the kernel's integers; empty(x, **params) -> results for matrices without elements, where zeros are wrong.
    """

    def abstract_eval(x, **params):
        check_matrices(name, x, square)
        outs = shapes(x.shape[:-2], *x.shape[-2:], x.dtype, **params)
        return [ShapedArray(s, d, x.weak_type and d.kind != "i") for s, d in outs]

    def lower(ctx, ins, params, out_avals):
        if empty is not None and 0 in ins[0].shape[-2:]:
            return ctx.compose(lambda x: empty(x, **params), ins)
        chosen = kernel(**params) if callable(kernel) else kernel or name
        return ctx.kernel(chosen, ins, out_avals, ip=ip(**params))

    def batch(axis, args, dims, **params):
        outs = prim.bind(bdim_at_front(args[0], dims[0], axis.size), **params)
        return outs, [0] * len(outs)

    prim = Primitive(name, multiple_results=True, abstract_eval=abstract_eval, lower=lower, batch=batch)
    return prim
