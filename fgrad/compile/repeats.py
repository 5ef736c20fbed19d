"""Views of copies whose source repeats: what jnp.repeat, jnp.tile and nearest upsampling lower to, a broadcast whose axes are merged.

A copy is seen as its source again, under more axes, so that two repeats are one copy, and what is computed of repeated elements is
computed once for each and repeated then.
"""

from fgrad.compile.values import Value, row_major

AXES = 16  # of an array at most
TIMES = 2  # that elements repeat at least, to be computed before


def _repeats(v):
    return any([not s and n > 1 for n, s in zip(v.shape, v.strides)])


def _in_order(axes):
    """True if those of the axes [(size, stride), ...] that do not repeat come in the order of memory."""
    steps = [s for n, s in axes if n > 1 and s]
    return all([s > 0 for s in steps]) and steps == sorted(steps, reverse=True)


def repeated(v):
    """True if v is a view of the copy of an array that repeats."""
    node = v.buf.node if v.buf is not None else None
    same = node is not None and node.op == "copy" and node.ins[0].dtype == v.dtype  # not the bits of one
    return same and not v.tag and not v.offset and v.box is None and _repeats(node.ins[0])


def pieces(v):
    """For each axis of v, a view of a copy: the axes [(size, stride), ...] of what was copied that it consists of; or None."""
    x, out = v.buf.node.ins[0], v.buf.node.outs[0]
    if x.tag or x.box is not None or x.buf is None or v.buf.size == 0:
        return None
    axes = [(t, n, s) for n, t, s in zip(out.shape, row_major(out.shape), x.strides) if n > 1]
    places, split, used = {t: k for k, (t, _, _) in enumerate(axes)}, [], set()
    for n, s in zip(v.shape, v.strides):
        if n == 1 or not s:
            split.append([(n, 0)])
            continue
        k, parts = places.get(s, -1), []
        while n > 1:
            if k < 0 or k in used:
                return None
            used.add(k)
            _, size, step = axes[k]
            if n % size and n > size:
                return None
            parts.insert(0, (min(n, size), step))
            n = n // size if n >= size else 1
            k -= 1
        split.append(parts)
    return split


def of_source(v):
    """(v as a view of what was copied, how many of its axes each of v's consists of); None where v is no view of a copy that repeats."""
    if not repeated(v):
        return None
    split = pieces(v)
    if split is None:
        return None
    flat = [axis for parts in split for axis in parts]
    x = v.buf.node.ins[0]
    out = Value(x.buf, tuple([n for n, _ in flat]), tuple([s for _, s in flat]), x.offset, x.dtype)
    return (out, [len(parts) for parts in split]) if len(flat) <= AXES and _repeats(out) and _in_order(flat) else None


def common(ins, shape):
    """([operands over the split axes], split shape, axes along which one of them does not repeat); None if no axis repeats in all of them.

    ins: operands of an elementwise operation over `shape`.
    """
    split = None
    for v in ins:
        if v.buf is not None and repeated(v):
            split = pieces(v)
            break
    if split is None or sum([len(parts) for parts in split]) > AXES:
        return None
    sizes, out = [[n for n, _ in parts] for parts in split], []
    for v in ins:
        if v.buf is None or not any(v.strides):
            steps = [0] * sum(map(len, sizes))
            out.append((v.buf, steps, v))
            continue
        own = pieces(v) if repeated(v) else None
        if own is not None and not _in_order([axis for parts in own for axis in parts]):
            return None
        steps = []
        for a, ns in enumerate(sizes):
            if own is not None and [n for n, _ in own[a]] == ns:
                steps += [s for _, s in own[a]]
            elif not v.strides[a] or v.shape[a] == 1:
                steps += [0] * len(ns)
            elif own is not None:
                return None
            else:
                step = v.strides[a]
                steps += [step * k for k in row_major(tuple(ns))]
        x = v if own is None else v.buf.node.ins[0]
        out.append((x.buf, steps, x))
    whole = tuple([n for ns in sizes for n in ns])
    kept = [k for k, n in enumerate(whole) if n > 1 and any([steps[k] for _, steps, _ in out])]
    part, size = 1, 1
    for k, n in enumerate(whole):
        size *= n
        part *= n if k in kept else 1
    if part * TIMES > size:
        return None
    small = tuple([whole[k] for k in kept])
    operands = [Value(b, small, tuple([steps[k] for k in kept]), x.offset, x.dtype, x.scalar, x.tag) for b, steps, x in out]
    return operands, whole, kept
