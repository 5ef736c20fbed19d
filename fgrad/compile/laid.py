"""Products that nobody reads but a copy of them in another order of axes are written in that order, and the copy goes."""

from fgrad.compile.values import Value, view_reshape

TINY = 64  # elements up to which matrices of a batch are multiplied with an entry in each lane: their results lie after each other


def lay_products(units, outs):
    """units without the copies that products can do without, given the program's results."""
    copies = [u for u in units if u.nodes[0].op == "copy" and len(u.nodes) == 1 and _made(u.nodes[0]) is not None]
    if not copies:
        return units
    reads, alone = {}, {id(u.nodes[0]) for u in units if len(u.nodes) == 1}  # buffer -> how many operands it is
    for u in units:
        for n in u.nodes:
            for v in n.ins:
                reads[v.buf] = reads.get(v.buf, 0) + 1
    for v in outs:
        reads[v.buf] = reads.get(v.buf, 0) + 1
    gone = set()
    for u in copies:
        copy = u.nodes[0]
        product, strides = _made(copy), _strides(copy)
        if id(product) in alone and reads[copy.ins[0].buf] == 1 and strides is not None:
            buf = copy.outs[0].buf
            product.outs[0] = Value(buf, product.outs[0].shape, strides, 0, buf.dtype)
            buf.node = product
            gone.add(u)
    return [u for u in units if u not in gone]


def _made(copy):
    """The product of matrices that makes what is copied, or None."""
    v = copy.ins[0]
    n = v.buf.node if v.buf is not None and v.buf.kind == "temp" else None
    if n is None or n.kind != "kernel" or n.op != "dot" or n.ip or v.box is not None or v.dtype != v.buf.dtype:
        return None
    (*_, m, k), cols = n.ins[0].shape, n.ins[1].shape[-1]
    return n if n.outs[0].whole() and max(m * k, k * cols, m * cols) > TINY else None


def _strides(copy):
    """Those under which the product is what the copy makes of it, None where it cannot be written so."""
    v, out, shape = copy.ins[0], copy.outs[0], _made(copy).outs[0].shape
    if v.size != v.buf.size or v.offset or not out.whole() or 0 in shape:
        return None
    axes = sorted([(s, n, to) for n, s, to in zip(v.shape, v.strides, out.strides) if n != 1], reverse=True)  # as they lie in the product
    step = v.size
    for s, n, _ in axes:
        if step != s * n:
            return None
        step = s
    strides = view_reshape(tuple([n for _, n, _ in axes]), tuple([to for _, _, to in axes]), shape)
    inner = [s for n, s in zip(shape[-2:], strides[-2:]) if n != 1] if strides is not None else ()
    return strides if 1 in inner else None
