"""A reversed result of a few cheap operations on one array, and on others alike along those axes, is what they make of it reversed.

What reads it beside that array, as the gradient of flip(x) * 2 + x does, is one pass then; the result would be written and read backwards.
"""

from fgrad import dtypes

LEAST = 4096  # elements
WORK = 8  # operations that are computed once more
CHEAP = frozenset(("add", "sub", "mul", "div", "neg", "square", "abs", "max", "min"))
DTYPES = (dtypes.FLOAT32, dtypes.FLOAT64)


def reversed_along(ctx, v, dims, anew):
    """v reversed along the axes `dims`, computed once more where that is cheap and `anew`."""
    if anew and v.buf is not None and v.size >= LEAST and _operation(v) is not None:
        arrays: set = set()
        if 0 < _work(v, v.shape, dims, arrays) <= WORK and len(arrays) == 1:
            return _reversed(ctx, v, dims)
    return _view(ctx, v, dims)


def _view(ctx, v, dims):
    offset = sum([(v.shape[d] - 1) * v.strides[d] for d in dims]) if v.size else 0
    return ctx.view(v, v.shape, tuple([-s if i in dims else s for i, s in enumerate(v.strides)]), offset)


def _operation(v):
    """The node that computes all of v by one cheap operation, or None."""
    node = v.buf.node
    alike = node is not None and node.kind == "ew" and node.op in CHEAP and v.dtype in DTYPES and v.shape == node.shape and v.whole()
    return node if alike and all([x.buf is None or x.tag == v.tag for x in node.ins]) else None


def _work(v, shape, dims, arrays):
    """How many operations make v; `arrays`, which are added to, are what they read that differs along `dims`. Too many where one of them
    is computed otherwise."""
    if v.buf is None:
        return 0
    node = _operation(v)
    if node is None:
        if v.shape == shape and v.box is None and not any([v.strides[d] for d in dims]):
            return 0
        arrays.add(v.buf)
        return WORK + 1 if v.shape != shape or v.box is not None or (v.buf.node is not None and v.buf.node.kind == "ew") else 0
    work = 1
    for x in node.ins:
        if work <= WORK:
            work += _work(x, shape, dims, arrays)
    return work


def _reversed(ctx, v, dims):
    if v.buf is None:
        return v
    node = _operation(v)
    return _view(ctx, v, dims) if node is None else ctx.elementwise(node.op, [_reversed(ctx, x, dims) for x in node.ins], v.aval)
