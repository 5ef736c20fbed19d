"""Concatenations and pads of what fused groups compute: these write each piece where it belongs. A concatenation has nothing left to do,
a pad its margins; where one piece is nearly all, the others are copied beside it. What an array is padded by along one axis after
another (reflections, edges) lies in the last result from the beginning."""

from math import prod

from fgrad._kernels import elementwise as vm
from fgrad.compile.fuse import Unit, in_register
from fgrad.compile.values import Buf, Node, Value, row_major, view_reshape

LEAST = 256  # elements of a result from which a pass less is felt
RUN = 64  # bytes of a piece that lie side by side, at least: narrower ones are turned in vectors by the concatenation,
COLUMNS = 4  # or by the group, if there are so few and each is one element;
PIECES, SHARE = 4, 16  # operands of a concatenation of which one is all but such a part: the others are copied
LONG = 1024  # of rows of so many bytes, any piece costs little
PADDED = 3000  # elements of a pad from which what computes its inside goes by rows for its sake: a smaller one costs less than that
CHEAP = 2  # additions that an operation costs which is done twice, for a pad and for its group, rather than copied


def write_joined(units, outs):
    """units without the concatenations whose operands are written into their result; what is padded is written there too."""
    moves = [u for u in units if u.nodes[0].op in ("concatenate", "pad") and u.nodes[0].outs[0].size >= LEAST]
    if not moves:
        return units
    reads = {}  # buffer -> how many operands it is
    for u in units:
        for node in u.nodes:
            for v in node.ins:
                reads[v.buf] = reads.get(v.buf, 0) + 1
    for v in outs:
        reads[v.buf] = reads.get(v.buf, 0) + 1
    gone, groups, copies = {}, set(units), {}  # gone: what comes in place of a concatenation; copies: those that make a buffer
    for u in moves:
        if u.nodes[0].op == "pad":
            _put_inside(u, reads, groups)
            continue
        pieces = _pieces(u.nodes[0], reads, groups)
        for node, v in pieces or ():
            node.outs[0] = v
        if pieces:
            gone[u] = []
        elif largest := _largest(u.nodes[0], reads, groups):
            gone[u] = _others(u, *largest)
        else:
            _lay_inside(u, reads, groups, gone, copies)
    return [w for u in units for w in gone.get(u, (u,))]


def _maker(v, out, reads, groups, others=0):
    """The elementwise operation that makes all of v for one reader, and `others`, where it can be written into `out`; else None."""
    made = v.buf.node if v.buf is not None and v.buf.kind == "temp" else None
    if made is None or made.kind != "ew" or made.group.axes is not None or not v.whole() or v.dtype != out.dtype:
        return None
    if reads[v.buf] != 1 + others:
        return None
    return made if 0 not in v.shape and made.group in groups and any([n is made for n in made.group.nodes]) else None


def _put_inside(unit, reads, groups):
    """What is padded is computed between its margins."""
    pad = unit.nodes[0]
    v, out = pad.ins[0], pad.outs[0]
    inside = _readers_inside(v)
    made = _maker(v, out, reads, groups, len(inside))
    if made is not None and out.size < PADDED and out.strides != row_major(v.shape) and not _goes_by_rows(made.group):
        return
    if made is None or made.shape != v.shape or any(pad.ip[2::3]) or min(pad.ip) < 0 or v.shape[-1] * v.dtype.itemsize < RUN:
        return
    at = sum([a * s for a, s in zip(pad.ip[::3], out.strides)])
    if inside:
        _do_twice(made, inside)
    made.outs[0] = pad.ins[0] = Value(out.buf, v.shape, out.strides, at, out.dtype)
    unit.reads.discard(v.buf)
    unit.reads.add(out.buf)


def _goes_by_rows(unit):
    """True if a group reads what does not lie as its walk goes."""
    return any([x.buf is not None and any(x.strides) and x.strides != row_major(x.shape) for n in unit.nodes for x in n.ins])


def _readers_inside(v):
    """The operations of the group that makes v that read it there, once for each operand; none where that is too dear to do twice."""
    made = v.buf.node if v.buf is not None else None
    if (
        made is None
        or made.kind != "ew"
        or made.shape is None
        or vm.WEIGHTS.get(made.op, 1) > CHEAP
        or "take" in made.op
        or made.op == "window"
    ):
        return []
    return [n for n in made.group.nodes for x in n.ins if x.buf is v.buf and n.kind == "ew" and in_register(x, made.shape)]


def _do_twice(made, readers):
    """Let readers within the group take the result of an operation of their own."""
    out = made.outs[0]
    twin = Value(Buf("temp", out.dtype, out.size), out.shape, row_major(out.shape), 0, out.dtype)
    twin.buf.node = Node("ew", made.op, made.ins, [twin], made.shape, made.ip, made.fp, obj=made.obj, type_code=made.type_code)
    twin.buf.node.group = made.group
    for n in readers:
        n.ins = [twin if x.buf is out.buf else x for x in n.ins]
    nodes = made.group.nodes
    nodes.insert(nodes.index(made) + 1, twin.buf.node)


def _places(join):
    """Where each operand lies in the result."""
    out, axis, at, places = join.outs[0], join.ip[0], 0, []
    for v in join.ins:
        places.append(Value(out.buf, v.shape, out.strides, at * out.strides[axis], out.dtype))
        at += v.shape[axis]
    return places


def _largest(join, reads, groups):
    """(number, the elementwise operation that makes it) of the operand that is nearly all of a concatenation, if one is; else None."""
    out = join.outs[0]
    k = max(range(len(join.ins)), key=lambda i: prod(join.ins[i].shape))
    v = join.ins[k]
    made = _maker(v, out, reads, groups)
    if made is None or made.shape != v.shape or len(join.ins) > PIECES or SHARE * (prod(out.shape) - prod(v.shape)) > prod(out.shape):
        return None
    return (k, made) if v.shape[-1] * v.dtype.itemsize >= RUN else None


def _others(unit, k, made):
    """Copies of the other operands, once operand k is written where it belongs."""
    join, places = unit.nodes[0], _places(unit.nodes[0])
    made.outs[0] = places[k]
    return [_copy(v, places[i]) for i, v in enumerate(join.ins) if i != k and 0 not in v.shape]


def _copy(v, place):
    copy = Node("kernel", "copy", [v], [place])
    copy.group = Unit(copy, 0)
    return copy.group


def _lay_inside(unit, reads, groups, gone, copies):
    """Where the operands of a concatenation are parts of a smaller one, which is most of it: that lies in the result, where the other parts
    are copied from. So arrays are padded by their own elements along several axes."""
    join = unit.nodes[0]
    out, axis, inner = join.outs[0], join.ip[0], join.ins[0].buf
    made = inner.node if inner is not None and inner.kind == "temp" else None
    if made is None or made.op != "concatenate" or made.group not in groups or not out.whole():
        return
    small = made.outs[0]
    if small.buf is not inner or not small.whole() or reads[inner] != len(join.ins):
        return
    if (*small.shape[:axis], *small.shape[axis + 1 :]) != (*out.shape[:axis], *out.shape[axis + 1 :]):
        return
    if 2 * small.size < out.size or max(len(join.ins), len(made.ins)) > PIECES or (made.group in gone and inner not in copies):
        return
    found = [_within(v, small) if v.buf is inner else None for v in join.ins]
    if None in found:
        return
    places, at, rest = _places(join), 0, []
    k = max(range(len(join.ins)), key=lambda i: join.ins[i].shape[axis])
    low = sum([v.shape[axis] for v in join.ins[:k]]) - found[k][0][axis]
    high = low + small.shape[axis]
    if min(low, out.shape[axis] - high) < 0:
        return
    whole = Value(out.buf, small.shape, out.strides, low * out.strides[axis], out.dtype)
    for v, place, (first, steps) in zip(join.ins, places, found):
        n = v.shape[axis]
        begin, end = max(low - at, 0), min(high - at, n)  # what lies in its place with the smaller one
        if begin < end and not _same(v, first, steps, axis, begin, at + begin - low, end - begin):
            return
        for b, e in ((0, n),) if begin >= end else ((0, begin), (end, n)):
            if b < e:
                shape = (*v.shape[:axis], e - b, *v.shape[axis + 1 :])
                part = Value(out.buf, shape, out.strides, place.offset + b * out.strides[axis], out.dtype)
                here = [f + b * t if d == axis else f for d, (f, t) in enumerate(zip(first, steps))]
                rest.append(_copy(_moved(v, shape, here, steps, whole), part))
        at += n
    if inner in copies:
        for u in copies.pop(inner):
            node = u.nodes[0]
            for values in (node.ins, node.outs):
                if values[0].buf is inner:
                    values[0] = _moved(values[0], values[0].shape, *_within(values[0], small), whole)
            if inner in u.reads:
                u.reads.discard(inner)
                u.reads.add(out.buf)
            copies.setdefault(out.buf, []).append(u)
    else:
        pieces = [(v, p) for v, p in zip(made.ins, _places(made)) if 0 not in v.shape]
        gone[made.group] = [_copy(v, _moved(p, p.shape, *_within(p, small), whole)) for v, p in pieces]
        copies[out.buf] = list(gone[made.group])
    gone[unit] = rest
    copies[out.buf] += rest


def _within(v, small):
    """(first position, step) along each axis of what v reads of the whole array `small`; None if it is read otherwise."""
    first, steps, offset = [], [], v.offset
    if len(v.shape) != len(small.shape) or v.box is not None or v.dtype != small.dtype or 0 in v.shape:
        return None
    for n, size, s, step in zip(v.shape, small.shape, v.strides, small.strides):
        k, (t, odd) = offset // step, divmod(s, step) if n > 1 else (0, 0)
        offset -= k * step
        if odd or not (0 <= k < size and 0 <= k + t * (n - 1) < size):
            return None
        first.append(k)
        steps.append(t)
    return None if offset else (first, steps)


def _same(v, first, steps, axis, skip, at, n):
    """True if elements `skip` and on, n of them, of v along an axis are those at `at` and on, and all others as they lie."""
    ends = [first[axis] + steps[axis] * (skip + k) == at + k for k in (0, n - 1)]
    return all(ends) and all([d == axis or size == 1 or (t == 1 and not f) for d, (size, f, t) in enumerate(zip(v.shape, first, steps))])


def _moved(v, shape, first, steps, whole):
    """What v reads, or of this shape from `first` on, of an array that now lies in `whole`."""
    strides = tuple([t * s for t, s in zip(steps, whole.strides)])
    return Value(whole.buf, shape, strides, whole.offset + sum([f * s for f, s in zip(first, whole.strides)]), v.dtype, None, v.tag)


def _pieces(join, reads, groups):
    """[(node, value)]: the elementwise operations that make the operands, and where they are to be written; None if not so."""
    out, axis, at, pieces = join.outs[0], join.ip[0], 0, []
    row = prod(out.shape[axis:]) * out.dtype.itemsize
    for v in join.ins:
        made = _maker(v, out, reads, groups)
        if made is None:
            return None
        width = v.shape[axis] * prod(out.shape[axis + 1 :])
        column = width == 1 and len(join.ins) == out.shape[axis] <= COLUMNS and v.dtype.itemsize >= 4
        strides = view_reshape(v.shape, row_major(out.shape), made.outs[0].shape)
        if strides is None or (width * v.dtype.itemsize < RUN and row < LONG and not column):
            return None
        pieces.append((made, Value(out.buf, made.outs[0].shape, strides, at * row_major(out.shape)[axis], v.dtype)))
        at += v.shape[axis]
    return pieces
