"""Bounds of integers, seen from how they are made: a loop's counter stays in its range, so an index made of it need not be wrapped or moved.

Arithmetic that may leave its dtype wraps around: then nothing is known of the result. So is what a loop carries, unless it steps by
something of one sign, up to the number of steps or to what a while loop's condition compares it with.
"""

import numpy as np

from fgrad.compile.values cimport Buf, Node, Value
from fgrad.core.ir cimport AvalBase, Eqn, Literal

cdef enum:
    DEEP = 64                      # operations that are looked back at
    MANY = 65536                   # elements of a constant that are looked at

cdef dict _ranges = {np.dtype(c): (int(np.iinfo(c).min), int(np.iinfo(c).max)) for c in "bhilqBHILQ"}
_ranges[np.dtype(bool)] = (0, 1)


cpdef tuple bounds(Value v):
    """(least, greatest) that elements of integers or booleans may be; None for other dtypes."""
    return _bounds(v, 0)


cdef bint within(Value v, Value low, Value high) except -1:
    """Whether integers are known to lie between two others (None: any)."""
    cdef tuple known, low_known, high_known
    if v.dtype not in _ranges:
        return False
    known = _bounds(v, 0)
    low_known = None if low is None else _bounds(low, 0)
    high_known = None if high is None else _bounds(high, 0)
    return (low is None or known[0] >= low_known[1]) and (high is None or known[1] <= high_known[0])


cdef tuple _bounds(Value v, int depth):
    cdef Buf buf = v.buf
    cdef tuple full = _ranges.get(v.dtype)
    if full is None:
        return None
    if v.scalar is not None:
        n = int(v.scalar)
        return (n, n)
    if buf is None or buf.dtype != v.dtype or v.box is not None:
        return full
    if buf.bounds is None:
        buf.bounds = _of_node(buf, full, depth)
    elif type(buf.bounds) is not tuple:            # a constant array
        a = np.asarray(buf.bounds)
        buf.bounds = (int(a.min()), int(a.max())) if 0 < a.size <= MANY else full
    return buf.bounds


cdef tuple _of_node(Buf buf, tuple full, int depth):
    cdef Node node = buf.node
    cdef Value out
    cdef list known
    cdef str op
    if node is None or depth > DEEP or not node.outs:
        return full
    out = node.outs[0]
    if out.buf is not buf or not out.whole():
        return full
    op = node.op
    if node.kind == "ew":
        known = [_bounds(v, depth + 1) for v in node.ins]
        found = _of_operation(op, known, full, buf.dtype.itemsize * 8) if None not in known else None
        if op == "sub" and (rest := _of_rest(node.ins, full, depth)) is not None:
            found = rest
    elif node.kind == "reduce":
        found = _bounds(node.ins[0], depth + 1) if op == "max" or op == "min" else None
    elif op == "copy" or op == "dynamic_slice":
        found = _bounds(node.ins[0], depth + 1)
    elif op == "concatenate":
        known = [_bounds(v, depth + 1) for v in node.ins]
        found = (min([a for a, _ in known]), max([b for _, b in known]))
    elif op == "iota":
        found = (0, max(out.shape[node.ip[0]] - 1, 0))
    elif op == "argreduce":
        found = (-1 if node.ip[2] else 0, (<Value>node.ins[0]).shape[node.ip[1]] - 1)
    else:
        found = None
    return full if found is None or found[0] < full[0] or found[1] > full[1] else found


cdef tuple _of_operation(str op, list known, tuple full, int bits):
    """Bounds of an operation's result, before it wraps around; None where nothing is known."""
    cdef tuple x = known[0], y
    if op == "cast":
        return x
    if op == "neg":
        return (-x[1], -x[0])
    if op == "not":
        return (~x[1], ~x[0]) if full[0] < 0 else None
    if op == "select":
        y = known[1]
        return (min(y[0], known[2][0]), max(y[1], known[2][1]))
    if op == "clamp":
        y = known[1]
        return (min(max(y[0], x[0]), known[2][0]), min(max(y[1], x[1]), known[2][1]))
    if len(known) != 2:
        return None
    y = known[1]
    if full[1] == 1:
        return None                    # booleans
    if op == "add":
        return (x[0] + y[0], x[1] + y[1])
    if op == "sub":
        return (x[0] - y[1], x[1] - y[0])
    if op == "mul":
        corners = (x[0] * y[0], x[0] * y[1], x[1] * y[0], x[1] * y[1])
        return (min(corners), max(corners))
    if op == "max":
        return (max(x[0], y[0]), max(x[1], y[1]))
    if op == "min":
        return (min(x[0], y[0]), min(x[1], y[1]))
    if op == "rem" and y[0] > 0:       # has the sign of x
        return (max(x[0], 1 - y[1]) if x[0] < 0 else 0, min(x[1], y[1] - 1) if x[1] > 0 else 0)
    if op == "div" and y[0] > 0:       # towards zero
        corners = [n // d if n >= 0 else -(-n // d) for n in x for d in y]
        return (min(corners), max(corners))
    if op == "and" and (x[0] >= 0 or y[0] >= 0):
        return (0, min([b for a, b in (x, y) if a >= 0]))
    if (op == "or" or op == "xor") and x[0] >= 0 and y[0] >= 0:
        return (0, (1 << max(x[1], y[1]).bit_length()) - 1)
    if x[0] >= 0 and 0 <= y[0] and y[1] < bits:
        if op == "shl":
            return (x[0] << y[0], x[1] << y[1])
        if op == "shr_logical" or op == "shr_arith":
            return (x[0] >> y[1], x[1] >> y[0])
    return None


cdef tuple _of_rest(list ins, tuple full, int depth):
    """Bounds of x - x / d * d, the rest that a division by a constant leaves; None for other differences."""
    cdef Value x = ins[0], product = ins[1], q, d
    cdef Node mul = product.buf.node if product.buf is not None else None, div
    if mul is None or mul.op != "mul" or mul.kind != "ew" or not product.whole():
        return None
    for q, d in (mul.ins, mul.ins[::-1]):
        div = q.buf.node if q.buf is not None else None
        if div is not None and div.op == "div" and div.kind == "ew" and q.whole() and d.scalar is not None:
            if (<Value>div.ins[1]).scalar == d.scalar and (<Value>div.ins[0]).key() == x.key() and (<Value>div.ins[0]).shape == x.shape:
                return _of_operation("rem", [_bounds(x, depth + 1), (int(d.scalar), int(d.scalar))], full, 0)
    return None


cpdef object only(str op, list ins, AvalBase aval):
    """The one integer that an operation can give, where its operands' bounds tell; else None."""
    cdef tuple full = _ranges.get(aval.dtype), found
    if full is None or aval.dtype.kind == "b":
        return None
    known = [_bounds(v, 0) for v in ins]
    found = _of_operation(op, known, full, aval.dtype.itemsize * 8) if None not in known else None
    return found[0] if found is not None and full[0] <= found[0] == found[1] <= full[1] else None


cpdef object compared(str op, Value a, Value b):
    """What comparing two integers gives, where their bounds tell; else None."""
    cdef tuple x, y
    if a.dtype not in _ranges:
        return None
    x, y = _bounds(a, 0), _bounds(b, 0)
    if op == "gt" or op == "le":
        x, y = y, x
    if op == "lt" or op == "gt":       # x < y
        return True if x[1] < y[0] else False if x[0] >= y[1] else None
    if op == "le" or op == "ge":       # not x < y
        return False if x[1] < y[0] else True if x[0] >= y[1] else None
    if x[1] < y[0] or y[1] < x[0]:
        return op == "ne"
    return op == "eq" if x[0] == x[1] == y[0] == y[1] else None


# --- loops --------------------------------------------------------------------------------------------------------------


def loop_bounds(node):
    """For each sub-program of a loop or branches: the bounds of its arguments, in their order."""
    cdef list given = [_bounds(v, 0) for v in node.ins]
    if node.op == "cond":
        return [given[1:]] * len(node.children)
    if node.op == "scan" or node.op == "members":
        return [_of_scan(node.ip, node.children[0].jaxpr, given)]
    return _of_while(node.ip, node.children[0].jaxpr, node.children[1].jaxpr, given)


cdef list _of_scan(tuple ip, jaxpr, list given):
    nk, nc, length = ip[0], ip[1], ip[4]
    cdef list out = given[:nk] + [None] * nc + given[nk + nc:]
    for i, (least, greatest) in _steps(jaxpr, nk, nc, given).items():
        low, high = given[nk + i]
        low, high = low + min(least * (length - 1), 0), high + max(greatest * (length - 1), 0)
        out[nk + i] = _inside(low, high, jaxpr.invars[nk + i].aval)
    return out


cdef list _of_while(tuple ip, cond, body, list given):
    ncc, nbc, nc = ip
    cdef list first = given[ncc + nbc:], for_cond = given[:ncc] + [None] * nc, for_body = given[ncc:ncc + nbc] + [None] * nc
    cdef dict steps = _steps(body, nbc, nc, given[ncc:]), limits
    known = {i: first[i] for i, step in steps.items() if step == (0, 0)}
    limits = _limits(cond, ncc, given, known)
    for i in {*steps, *limits}:
        aval = body.invars[nbc + i].aval
        bottom, top = _ranges[aval.dtype]
        low, high = limits.get(i, (bottom, top))       # where the body runs
        if i in steps:
            least, greatest = steps[i]
            start, end = first[i]
            if least >= 0 and high + greatest <= top:  # it has only grown, and has not wrapped around
                low, start = max(low, start), start
            elif greatest <= 0 and low + least >= bottom:
                high, end = min(high, end), end
            if low + least >= bottom and high + greatest <= top and low <= high:
                for_cond[ncc + i] = _inside(min(start, low + least), max(end, high + greatest), aval)
        for_body[nbc + i] = _inside(low, high, aval)
    return [for_cond, for_body]


cdef tuple _inside(low, high, AvalBase aval):
    """(low, high) if these are bounds within the dtype, else None."""
    cdef tuple full = _ranges[aval.dtype]
    return (low, high) if full[0] <= low <= high <= full[1] else None


cdef dict _steps(jaxpr, nk, nc, list given):
    """{carry: bounds of what a turn of the body adds to it} of a loop's integers, as far as that is seen; `given`: of its arguments."""
    cdef dict places = {v: i for i, v in enumerate(jaxpr.invars)}, out = {}, wanted = {}
    for i in range(nc):
        v, result = jaxpr.invars[nk + i], jaxpr.outvars[i]
        if v.aval.shape == () and v.aval.dtype.kind in "iu":
            if result is v:
                out[i] = (0, 0)
            else:
                wanted[result] = i
    cdef Eqn eqn
    for eqn in jaxpr.eqns if wanted else ():
        i = wanted.get(eqn.outvars[0]) if eqn.outvars else None
        if i is None or eqn.primitive.name not in ("add", "sub"):
            continue
        a, b = eqn.invars
        v = jaxpr.invars[nk + i]
        if a is not v and (b is not v or eqn.primitive.name == "sub"):
            continue
        by = b if a is v else a
        k = places.get(by, -1) if type(by) is not Literal else -1
        if type(by) is Literal:
            n = int(by.val)
            step = (n, n)
        elif 0 <= k and (k < nk or k < nk + nc and out.get(k - nk) == (0, 0)):
            step = given[k]
        else:
            continue
        out[i] = step if eqn.primitive.name == "add" else (-step[1], -step[0])
    return out


cdef dict _limits(cond, ncc, list given, dict known):
    """{carry: (low, high)} that a while loop's condition sets for its body. known: of carries that stay as they are."""
    cdef dict made = {v: eqn for eqn in cond.eqns for v in eqn.outvars}, places = {v: i for i, v in enumerate(cond.invars)}, out = {}
    cdef list left = [cond.outvars[0]]
    while left:
        v = left.pop()
        eqn = made.get(v) if type(v) is not Literal else None
        if eqn is None:
            continue
        op = eqn.primitive.name
        if op == "and":
            left += eqn.invars
        if op not in ("lt", "le", "gt", "ge"):
            continue
        for turned in (False, True):
            a, b = eqn.invars[::-1] if turned else eqn.invars
            i = places.get(a, -1) - ncc if type(a) is not Literal else -1
            if i < 0 or a.aval.shape != () or a.aval.dtype.kind not in "iu":
                continue
            if type(b) is Literal:
                other = (int(b.val), int(b.val))
            else:
                k = places.get(b, -1)
                other = given[k] if 0 <= k < ncc else known.get(k - ncc)
            if other is None:
                continue
            low, high = out.get(i, _ranges[a.aval.dtype])
            if (op in ("lt", "le")) is not turned:
                high = min(high, other[1] - (op == "lt"))
            else:
                low = max(low, other[0] + (op == "gt"))
            out[i] = (low, high)
    return out
