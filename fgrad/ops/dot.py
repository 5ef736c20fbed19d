"""dot_general: batched contraction, the one matmul primitive."""

import functools
import math

from fgrad import dtypes
from fgrad.config import config
from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.elementwise import convert_element_type
from fgrad.ops.rules import is_linear, jvp_by_args
from fgrad.ops.shape import transpose

TINY = 64  # elements up to which matrices of a batch are multiplied with an entry in each lane, and lie along one axis
FEW = 4  # rows that meet a matrix of bytes where it lies, which are widened once for all of them
LEAST_BYTES = 1 << 14  # of such a matrix
STREAMED = 4  # rows that meet large operands where they lie; more are worth copies, whose products run entry by entry with what follows
LONG = 16  # elements of a row of products that fills vectors
BYTES = "int8", "uint8"
APART = 128  # elements of a row of a matrix whose rows are several, apart, from which its parts are multiplied in turn
TURNS = 64  # of such parts at most
MANY = 1 << 14  # products of bytes, and along K, from which they are worth their copies


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
                f"dot_general requires {what} dimensions to have the same shape, got {tuple(a.shape[i] for i in ld)} and "
                f"{tuple(b.shape[i] for i in rd)}. They are axes {ld} of {a.shape} and {rd} of {b.shape}."
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
    """((batch, m, n, k), the order of a's axes, of b's, their shapes and the product's as matrices) for operands of shapes a and b."""
    (lc, rc), (lb, rb) = dimension_numbers
    lf, rf = free_axes(len(a), lc, lb), free_axes(len(b), rc, rb)
    sizes = tuple(math.prod(s) for s in ([a[i] for i in lb], [a[i] for i in lf], [b[i] for i in rf], [a[i] for i in lc]))
    batch, m, n, k = sizes
    return sizes, (*lb, *lf, *lc), (*rb, *rc, *rf), ((batch, m, k), (batch, k, n), (batch, m, n))


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


def dot_lower(ctx, ins, params, out_avals):
    a, b = ins
    aval = out_avals[0]
    single = a.dtype is aval.dtype is dtypes.FLOAT32  # no dtype need be looked at again
    inner = aval.dtype if single else _summed_as(a.dtype, aval.dtype)
    if not single and inner != aval.dtype:
        if a.dtype == dtypes.BOOL:
            a, b = ctx.cast(a, inner), ctx.cast(b, inner)
        wide = dot_lower(ctx, [a, b], {**params, "preferred_element_type": None}, [aval.update(dtype=inner)])
        return ctx.cast(wide, aval.dtype)
    if not single and a.dtype == dtypes.BOOL:
        a, b = ctx.cast(a, inner), ctx.cast(b, inner)
    (batch, m, n, k), a_order, b_order, shapes = _as_batch_of_matrices(a.shape, b.shape, params["dimension_numbers"])
    half = dtypes.is_float(a.dtype) and a.dtype.itemsize == 2 and aval.dtype in (a.dtype, dtypes.FLOAT32)
    if k and (batch > 1 and a.dtype == aval.dtype and a.dtype in (dtypes.FLOAT32, dtypes.FLOAT64) or half):
        if m == n == 1 or (batch > 1 and min(m, n) == 1 and _batch_innermost(a, b, params["dimension_numbers"])):
            return _sums_of_products(ctx, a, b, params["dimension_numbers"], aval, dtypes.FLOAT32 if half else aval.dtype)
    if k == 1:  # one product for each element, which fuses with what is around it
        return _sums_of_products(ctx, ctx.cast(a, aval.dtype), ctx.cast(b, aval.dtype), params["dimension_numbers"], aval)
    if batch == 1 and min(m, n) <= FEW and max(m, n) * k >= LEAST_BYTES and (single or half) and config.pass_simplify:
        if (out := _of_bytes(ctx, a, b, params["dimension_numbers"], aval)) is not None:
            return out
    if not single and m * n * k >= MANY and k >= LONG and aval.dtype in (dtypes.INT32, dtypes.UINT32):
        x, y = (a, b) if a.dtype.name in BYTES else (_bytes_widened(ctx, a), _bytes_widened(ctx, b))
        if x is not None and y is not None:
            return _dot_bytes(ctx, x, y, a_order, b_order, (batch, m, n, k), aval)
    if batch == 1 and len(params["dimension_numbers"][0][0]) > 1 and min(m, n) >= LONG and a.dtype == b.dtype == aval.dtype:
        if (out := _in_turn(ctx, a, b, a_order, b_order, (m, n, k), params["dimension_numbers"], aval)) is not None:
            return out
    if batch > 1 and min(m, n) <= STREAMED and max(m * k, k * n, m * n) > TINY:
        batches = _batch_axes(a, b, params["dimension_numbers"][1])
        shapes = (*batches, m, k), (*batches, k, n), (*batches, m, n)
    a3 = ctx.reshape(ctx.transpose(a, a_order), shapes[0])
    b3 = ctx.reshape(ctx.transpose(b, b_order), shapes[1])
    out_dtype = aval.dtype
    if not single and (
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
    out = ctx.kernel("dot", [a3, b3], [ShapedArray(shapes[2], out_dtype)], contiguous=False)[0]
    return ctx.reshape(out, aval.shape)


def _in_turn(ctx, a, b, a_order, b_order, sizes, numbers, aval):
    """Sums over axes that do not lie as one, by the first of them: a product of what lies together is added to the one before, and
    nothing is copied. None: they do lie as one, or copies cost less."""
    m, n, k = sizes
    turns = a.shape[numbers[0][0][0]]
    inner = k // max(turns, 1)
    if aval.dtype not in (dtypes.FLOAT32, dtypes.FLOAT64) or not 1 < turns <= TURNS or inner < APART or m * n > 2 * (m + n) * inner:
        return None
    left, right = ctx.transpose(a, a_order), ctx.transpose(b, b_order)
    if ctx.reshaped_view(left, (1, m, k)) is not None and ctx.reshaped_view(right, (1, k, n)) is not None:
        return None
    at = len(a_order) - len(numbers[0][0])
    left = ctx.reshaped_view(ctx.transpose(left, (at, *[i for i in range(len(a_order)) if i != at])), (turns, m, inner))
    right = ctx.reshaped_view(right, (turns, inner, n))
    if left is None or right is None or any(1 not in v.strides[1:] for v in (left, right)):
        return None
    out = None
    for i in range(turns):
        parts = [ctx.view(v, (1, *v.shape[1:]), v.strides, i * v.strides[0]) for v in (left, right)]
        more, ip = ([out], (1,)) if i else ([], ())
        out = ctx.kernel("dot", [*parts, *more], [ShapedArray((1, m, n), aval.dtype)], ip=ip, contiguous=False)[0]
    return ctx.reshape(out, aval.shape)


def _batch_axes(a, b, batch):
    """The batch as the one axis, or the two, that it is where both operands lie; what takes more is copied into one, as are matrices
    without contiguous rows or columns."""
    if not all([1 in [s for d, s in enumerate(x.strides) if d not in axes] for x, axes in zip((a, b), batch)]):
        return (math.prod([a.shape[i] for i in batch[0]]),)
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


def _dot_bytes(ctx, a, b, a_order, b_order, sizes, aval):
    """The product of int8 or uint8 with sums of 32 bits; few columns of a result are computed as its rows."""
    batch, m, n, k = sizes
    a3 = ctx.reshape(ctx.transpose(a, a_order), (batch, m, k))
    b3 = ctx.reshape(ctx.transpose(b, b_order), (batch, k, n))
    turned = n < LONG and n < m
    if turned:
        a3, b3, m, n = ctx.transpose(b3, (0, 2, 1)), ctx.transpose(a3, (0, 2, 1)), n, m
    out = ctx.kernel("dot_bytes", [a3, b3], [ShapedArray((batch, m, n), aval.dtype)], contiguous=False)[0]
    return ctx.reshape(ctx.transpose(out, (0, 2, 1)) if turned else out, aval.shape)


def _bytes_widened(ctx, v):
    """The bytes that v, of 32-bit integers, was widened from, in v's order of axes; None where it was not."""
    node = v.buf.node if config.pass_simplify and v.buf is not None and v.buf.kind == "temp" else None
    if node is None or node.kind != "ew" or node.op != "cast" or v.box is not None or v.size != v.buf.size:
        return None
    source, order = node.ins[0], sorted(range(len(v.shape)), key=lambda d: -v.strides[d])
    lies = ctx.transpose(v, order)
    if source.dtype.name not in BYTES or source.box is not None or not lies.whole() or lies.shape != source.shape:
        return None
    return ctx.transpose(source, [order.index(d) for d in range(len(order))])


def _bytes_behind(ctx, v):
    """(bytes, scales of their rows or columns or None) where a matrix of floats is made of them, in v's order of axes; else None."""
    node = _unrounded(v.buf.node if v.buf is not None and v.buf.kind == "temp" else None)
    if node is None or node.kind != "ew" or v.box is not None or len(v.shape) != 2 or v.size != v.buf.size or v.size < LEAST_BYTES:
        return None
    turned = v.strides == (1, v.shape[0])
    if not turned and not v.whole():
        return None
    scale = None
    if node.op == "mul":
        for x, scale in (node.ins, node.ins[::-1]):
            made = _unrounded(x.buf.node if x.buf is not None and x.buf.kind == "temp" and x.whole() else None)
            if made is not None and made.kind == "ew" and made.op == "cast" and 0 in scale.strides:
                node = made
                break
    source = node.ins[0]
    if node.op != "cast" or source.dtype.name not in ("int8", "uint8") or 1 not in source.strides or min(source.strides) < 1:
        return None
    shape = v.shape[::-1] if turned else v.shape
    if source.shape != shape:  # v is a reshape of what they are, as of blocks with a scale each
        return None
    if scale is not None and (scale.box is not None or scale.dtype != v.dtype or scale.shape != shape):
        return None
    if not turned:
        return source, scale
    return [x and ctx.transpose(x, (1, 0)) for x in (source, scale)]


def _unrounded(node):
    """A cast whose result `node` rounds to 16 bits, which have bytes as they are; else node."""
    x = node.ins[0] if node is not None and node.kind == "ew" and node.op in ("round_bf16", "round_f16") else None
    made = x.buf.node if x is not None and x.buf is not None and x.buf.kind == "temp" and x.whole() and x.box is None else None
    return made if made is not None and made.op == "cast" and made.outs[0].shape == node.outs[0].shape else node


def _of_bytes(ctx, a, b, numbers, aval):
    """A few rows times bytes that were made floats: read as bytes, and what is scaled are the rows or the result. None: it is not that."""
    out_dtype, aval = aval.dtype, aval.update(dtype=dtypes.FLOAT32)
    (lc, rc), (lb, _) = numbers
    for left, x, w, xc, wc in ((True, a, b, lc, rc), (False, b, a, rc, lc)):
        found = _bytes_behind(ctx, w) if len(wc) == 1 and not lb else None
        k = w.shape[wc[0]] if found is not None else 0
        rows = x.size // k if k else 0
        if min(k, w.size // max(k, 1)) < 2 or not 1 <= rows <= FEW:
            continue
        q, scale = found
        x = ctx.f32(x)
        free = free_axes(len(x.shape), xc, ())
        x = ctx.reshape(ctx.transpose(x, (*free, *xc)), (1, rows, k))
        n, along = w.size // k, None if scale is None else [d for d in (0, 1) if scale.strides[d]]
        if scale is not None and wc[0] in along:
            row = ctx.f32(ctx.view(scale, (1, rows, k), (0, 0, scale.strides[wc[0]])))
            x = ctx.elementwise("mul", [x, row], ShapedArray((1, rows, k), aval.dtype))
        q = ctx.view(q, (1, k, n), (0, q.strides[wc[0]], q.strides[1 - wc[0]]))
        out = ctx.kernel("dot", [x, q], [ShapedArray((1, rows, n), aval.dtype)], contiguous=False)[0]
        if scale is not None and wc[0] not in along:
            row = ctx.f32(ctx.view(scale, (1, rows, n), (0, 0, scale.strides[1 - wc[0]])))
            out = ctx.elementwise("mul", [out, row], ShapedArray((1, rows, n), aval.dtype))
        if not left:
            out = ctx.transpose(out, (0, 2, 1))
        return ctx.cast(ctx.reshape(out, aval.shape), out_dtype)
    return None


def _batch_innermost(a, b, numbers):
    """True if rows of both operands lie along one axis of the batch, long enough for vectors."""
    return any([a.strides[i] == b.strides[j] == 1 and a.shape[i] >= LONG for i, j in zip(*numbers[1])])


def _sums_of_products(ctx, a, b, numbers, aval, inner=None):
    """The product by elements, in the order in which the larger operand lies, and their sums, which fuse with what is around them.
    inner: the products' dtype, if another than the result's: float32 has those of 16-bit floats as they are."""
    (lc, rc), (lb, rb) = numbers
    lf, rf = free_axes(len(a.shape), lc, lb), free_axes(len(b.shape), rc, rb)
    axes = [*zip(lb, rb), *[(i, None) for i in lf], *[(None, j) for j in rf]]  # of the result; then those that are summed
    summed = [(i, j) for i, j in zip(lc, rc) if a.shape[i] != 1]
    sizes = [b.shape[j] if i is None else a.shape[i] for i, j in (*axes, *summed)]
    large = 0 if math.prod(a.shape) >= math.prod(b.shape) else 1
    strides = [None if pair[large] is None else abs((a, b)[large].strides[pair[large]]) for pair in (*axes, *summed)]
    order = list(range(len(sizes)))
    if None not in [s for s, n in zip(strides, sizes) if n != 1]:
        order.sort(key=lambda i: -(strides[i] or 0))
    shape = tuple([sizes[i] for i in order])
    place = {pair: order.index(i) for i, pair in enumerate((*axes, *summed))}
    sides = []
    for side, x in enumerate((a, b)):
        held = {pair[side]: at for pair, at in place.items() if pair[side] is not None}
        x = ctx.reshape(x, [n for d, n in enumerate(x.shape) if d in held])
        sides.append(ctx.broadcast(x, shape, [held[d] for d in sorted(held)]))
    out = ctx.elementwise("mul", sides, ShapedArray(shape, inner or aval.dtype))
    kept = [i for i in order if i < len(axes)]
    if summed:
        gone = sorted([order.index(i) for i in range(len(axes), len(sizes))])
        out = ctx.reduce("sum", out, gone, ShapedArray(tuple([sizes[i] for i in kept]), aval.dtype))
    out = ctx.cast(out, aval.dtype)
    return ctx.transpose(out, [kept.index(i) for i in range(len(axes))])


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
    """Cotangent of operand x, for out = dot(x, y) (or dot(y, x) when swapped): contract ct with y over y's free axes. A cotangent of
    more bits than y is rounded to bfloat16, which has its range; float16 would lose small and large ones."""
    y_aval, dtype = get_aval(y), get_aval(ct).dtype
    y_first, numbers, order = _transposed(len(x.shape), len(y_aval.shape), dimension_numbers, swapped)
    if dtypes.is_float(y_aval.dtype) and y_aval.dtype != dtypes.BFLOAT16 and dtype.itemsize > y_aval.dtype.itemsize:
        y = convert_element_type(y, dtype)
    else:
        ct = convert_element_type(ct, y_aval.dtype)
    operands = (y, ct) if y_first else (ct, y)
    out = dot_general_p.bind(*operands, dimension_numbers=numbers, preferred_element_type=None)
    return convert_element_type(transpose(out, order), x.dtype)


dot_general_p = Primitive("dot_general", abstract_eval=_dot_aval, lower=dot_lower, batch=_dot_batch, transpose=_dot_transpose)
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
