"""dot_general: batched contraction, the one matmul primitive."""

import functools
import math

from fgrad import dtypes
from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.elementwise import convert_element_type
from fgrad.ops.rules import is_linear, jvp_by_args
from fgrad.ops.shape import transpose

TINY = 64  # elements up to which matrices of a batch are multiplied with an entry in each lane, and lie along one axis


@functools.lru_cache(10_000)
def _dot_aval(a, b, *, dimension_numbers, preferred_element_type):
    (lc, rc), (lb, rb) = dimension_numbers
    for name, x, dims in (("lhs", a, lc + lb), ("rhs", b, rc + rb)):
        if len(set(dims)) != len(dims) or any(not 0 <= d < len(x.shape) for d in dims):
            raise ShapeError(f"dot_general: {name} contracting and batch dimensions {dims} must be distinct axes of {name} shape {x.shape}")
    if len(lc) != len(rc) or len(lb) != len(rb):
        raise ShapeError(f"dot_general: lhs and rhs must have equally many contracting and batch dimensions, got {dimension_numbers}")
    for what, ld, rd in (("contracting", lc, rc), ("batch", lb, rb)):
        if any(a.shape[i] != b.shape[j] for i, j in zip(ld, rd)):
            raise ShapeError(
                f"dot_general requires {what} dimensions to have equal sizes, got {a.shape} (axes {ld}) and {b.shape} (axes {rd})"
            )
    if a.dtype != b.dtype:
        raise TypeError(f"dot_general requires operands of one dtype, got {a.dtype.name} and {b.dtype.name}")
    shape = tuple(a.shape[i] for i in lb) + tuple(a.shape[i] for i in _free(a, lc, lb)) + tuple(b.shape[j] for j in _free(b, rc, rb))
    return ShapedArray(shape, preferred_element_type or a.dtype, preferred_element_type is None and a.weak_type and b.weak_type)


def free_axes(ndim, contract, batch):
    """The axes of an operand that are neither contracted nor batched."""
    return [i for i in range(ndim) if i not in contract and i not in batch]


def _free(x, contract, batch):
    return free_axes(len(x.shape), contract, batch)


@functools.lru_cache(10_000)
def _as_batch_of_matrices(a, b, dimension_numbers):
    """((batch, m, n, k), the order of a's axes, the order of b's) for operands of shapes a and b."""
    (lc, rc), (lb, rb) = dimension_numbers
    lf, rf = free_axes(len(a), lc, lb), free_axes(len(b), rc, rb)
    sizes = tuple(math.prod(s) for s in ([a[i] for i in lb], [a[i] for i in lf], [b[i] for i in rf], [a[i] for i in lc]))
    return sizes, (*lb, *lf, *lc), (*rb, *rc, *rf)


def _summed_as(x, out):
    """The dtype that products of x's are summed in before they are converted to out."""
    if x == dtypes.BOOL:
        return dtypes.INT32
    if x == out or out.kind == "c" or dtypes.is_float(x) and x.itemsize == 2 and dtypes.is_float(out) and out.itemsize > 2:
        return out
    if dtypes.is_float(x) and x.itemsize == 2:
        return dtypes.FLOAT32
    if out == dtypes.BOOL or x == dtypes.FLOAT64 or x.kind in "iu" and out.kind in "iu" and out.itemsize <= x.itemsize:
        return x
    return out


def _dot_lower(ctx, ins, params, out_avals):
    a, b = ins
    aval = out_avals[0]
    inner = _summed_as(a.dtype, aval.dtype)
    if inner != aval.dtype:
        if a.dtype == dtypes.BOOL:
            a, b = ctx.cast(a, inner), ctx.cast(b, inner)
        wide = _dot_lower(ctx, [a, b], {**params, "preferred_element_type": None}, [aval.update(dtype=inner)])
        return ctx.cast(wide, aval.dtype)
    if a.dtype == dtypes.BOOL:
        a, b = ctx.cast(a, inner), ctx.cast(b, inner)
    (batch, m, n, k), a_order, b_order = _as_batch_of_matrices(a.shape, b.shape, params["dimension_numbers"])
    if batch > 1 and m == n == 1 and k and a.dtype == aval.dtype and a.dtype in (dtypes.FLOAT32, dtypes.FLOAT64):
        return ctx.reshape(_row_dots(ctx, a, b, params["dimension_numbers"]), aval.shape)
    batches = _batch_axes(a, b, params["dimension_numbers"][1]) if batch > 1 and max(m * k, k * n, m * n) > TINY else (batch,)
    a3 = ctx.reshape(ctx.transpose(a, a_order), (*batches, m, k))
    b3 = ctx.reshape(ctx.transpose(b, b_order), (*batches, k, n))
    out_dtype = aval.dtype
    if (
        dtypes.is_float(a.dtype)
        and a.dtype.itemsize == 2
        and out_dtype == dtypes.FLOAT64
        or a.dtype == dtypes.FLOAT32
        and out_dtype != a.dtype
        or a.dtype.kind in "iu"
        and out_dtype.kind not in "iu"
        or a.dtype.kind == "c"
        and out_dtype != a.dtype
        or out_dtype.kind == "c"
        and a.dtype.kind != "c"
    ):
        a3, b3 = ctx.cast(a3, out_dtype), ctx.cast(b3, out_dtype)
    if k == 1:
        a3, b3 = ctx.reshape(a3, (batch, m, k)), ctx.reshape(b3, (batch, k, n))
        return ctx.reshape(_outer(ctx, ctx.cast(a3, out_dtype), ctx.cast(b3, out_dtype)), aval.shape)
    out = ctx.kernel("dot", [a3, b3], [ShapedArray((*batches, m, n), out_dtype)], contiguous=False)[0]
    return ctx.reshape(out, aval.shape)


def _batch_axes(a, b, batch):
    """The batch as the one axis, or the two, that it is where both operands lie; what takes more is copied into one."""
    axes = []  # (size, stride of a, stride of b)
    for i, j in zip(*batch):
        size, left, right = a.shape[i], a.strides[i], b.strides[j]
        if size == 1:
            continue
        if axes and axes[-1][1:] == (size * left, size * right):
            axes[-1] = axes[-1][0] * size, left, right
        else:
            axes.append((size, left, right))
    sizes = tuple(size for size, _, _ in axes)
    return sizes if len(sizes) == 2 else (math.prod(sizes),)


def _outer(ctx, column, row):
    """(batch, m, 1) times (batch, 1, n): one product for each element, which fuses with what is around it."""
    aval = ShapedArray((*column.shape[:2], row.shape[2]), column.dtype)
    return ctx.elementwise("mul", [ctx.broadcast(x, aval.shape, (0, 1, 2)) for x in (column, row)], aval)


def _row_dots(ctx, a, b, dimension_numbers):
    """A number for each place of the batch: sums of products in the order in which a lies, which fuse with what is around them."""
    (lc, rc), (lb, rb) = dimension_numbers
    pairs = sorted(zip((*lb, *lc), (*rb, *rc)), key=lambda pair: -abs(a.strides[pair[0]]))
    left, right = zip(*pairs)
    shape = tuple(a.shape[i] for i in left)
    a = ctx.reshape(ctx.transpose(a, (*left, *free_axes(len(a.shape), lc, lb))), shape)
    b = ctx.reshape(ctx.transpose(b, (*right, *free_axes(len(b.shape), rc, rb))), shape)
    product = ctx.elementwise("mul", [a, b], ShapedArray(shape, a.dtype))
    kept = [i for i in left if i in lb]
    aval = ShapedArray(tuple(shape[left.index(i)] for i in kept), a.dtype)
    sums = ctx.reduce("sum", product, sorted(left.index(i) for i in lc), aval)
    return ctx.transpose(sums, tuple(kept.index(i) for i in lb))


def _dot_batch(axis, args, dims, *, dimension_numbers, preferred_element_type):
    (a, b), (da, db) = args, dims
    (lc, rc), (lb, rb) = dimension_numbers

    def shift(axes, d):
        return axes if d is None else tuple(i + (i >= d) for i in axes)

    lc, lb, rc, rb = shift(lc, da), shift(lb, da), shift(rc, db), shift(rb, db)
    if da is not None and db is not None:
        lb, rb, where = (da, *lb), (db, *rb), 0
    elif da is not None:
        where = len(lb) + sum(i < da for i in range(get_aval(a).ndim) if i not in (*lc, *lb))
    else:
        free_left = get_aval(a).ndim - len(lc) - len(lb)
        where = len(lb) + free_left + sum(i < db for i in range(get_aval(b).ndim) if i not in (*rc, *rb))
    return dot_general_p.bind(a, b, dimension_numbers=((lc, rc), (lb, rb)), preferred_element_type=preferred_element_type), where


def _dot_transpose(cts, a, b, *, dimension_numbers, preferred_element_type):
    if is_linear(a):
        return [_dot_transpose_lhs(cts[0], a.aval, b, dimension_numbers, False), None]
    (lc, rc), (lb, rb) = dimension_numbers
    return [None, _dot_transpose_lhs(cts[0], b.aval, a, ((rc, lc), (rb, lb)), True)]


@functools.lru_cache(10_000)
def _transposed(x_ndim, y_ndim, dimension_numbers, swapped):
    """(whether y comes first, dimension numbers, order of the result's axes) of the product of ct and y, see _dot_transpose_lhs."""
    (xc, yc), (xb, yb) = dimension_numbers
    x_free, y_free = free_axes(x_ndim, xc, xb), free_axes(y_ndim, yc, yb)
    nb = len(xb)
    first = nb if swapped else nb + len(x_free)
    ct_y_axes = tuple(range(first, first + len(y_free)))
    batch = tuple(range(nb))
    contracted = [xc[yc.index(c)] for c in sorted(yc)]  # axes of x where y's contracted axes come
    # The order of the two operands sets the order of the result's axes: x's own if it can be, else that of out.
    orders = {True: [*xb, *contracted, *x_free], False: [*xb, *x_free, *contracted]}
    y_first = swapped
    for choice in (swapped, not swapped):
        if orders[choice] == sorted(orders[choice]):
            y_first = choice
            break
    if y_first:
        numbers = (tuple(y_free), ct_y_axes), (tuple(yb), batch)
    else:
        numbers = (ct_y_axes, tuple(y_free)), (batch, tuple(yb))
    order = orders[y_first]
    inverse = [0] * len(order)
    for i, axis in enumerate(order):
        inverse[axis] = i
    return y_first, numbers, tuple(inverse)


def _dot_transpose_lhs(ct, x, y, dimension_numbers, swapped):
    """Cotangent of operand x, for out = dot(x, y) (or dot(y, x) when swapped): contract ct with y over y's free axes."""
    y_aval = get_aval(y)
    y_first, numbers, order = _transposed(len(x.shape), len(y_aval.shape), dimension_numbers, swapped)
    ct = convert_element_type(ct, y_aval.dtype)
    operands = (y, ct) if y_first else (ct, y)
    out = dot_general_p.bind(*operands, dimension_numbers=numbers, preferred_element_type=None)
    return convert_element_type(transpose(out, order), x.dtype)


dot_general_p = Primitive("dot_general", abstract_eval=_dot_aval, lower=_dot_lower, batch=_dot_batch, transpose=_dot_transpose)
dot_general_p.jvp = jvp_by_args(
    dot_general_p, lambda t, out, x, y, **kw: dot_general_p.bind(t, y, **kw), lambda t, out, x, y, **kw: dot_general_p.bind(x, t, **kw)
)


def dot_general(lhs, rhs, dimension_numbers, precision=None, preferred_element_type=None):
    """Contraction over dimension_numbers = ((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch)).

    The result's axes are the batch axes, then lhs's free axes, then rhs's. `precision` is accepted and ignored:
    products are always computed in full precision. 16-bit floats accumulate in float32.
    """
    (lc, rc), (lb, rb) = dimension_numbers
    preferred = None if preferred_element_type is None else dtypes.canonicalize_dtype(preferred_element_type)
    return dot_general_p.bind(
        lhs, rhs, dimension_numbers=((tuple(lc), tuple(rc)), (tuple(lb), tuple(rb))), preferred_element_type=preferred
    )


def dot(lhs, rhs, precision=None, preferred_element_type=None):
    """lax.dot: vector-vector, matrix-vector and matrix-matrix products."""
    a, b = get_aval(lhs), get_aval(rhs)
    if not 1 <= a.ndim <= 2 or not 1 <= b.ndim <= 2 or a.shape[-1] != b.shape[0]:
        raise ShapeError(f"Incompatible shapes for dot: got {a.shape} and {b.shape}")
    return dot_general(lhs, rhs, (((a.ndim - 1,), (0,)), ((), ())), precision, preferred_element_type)
