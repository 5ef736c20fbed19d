"""Lowering: a jaxpr's equations become nodes over strided values. Views cost nothing; elementwise ops stay fusible."""
import numpy as np

from fgrad import dtypes
from fgrad._kernels import elementwise as vm
from fgrad.compile.algebra import COMMUTATIVE
from fgrad.compile.flipped import reversed_along
from fgrad.compile.narrow import lower_narrow
from fgrad.compile.planes import in_parts
from fgrad.compile.repeats import common, of_source
from fgrad.config import config
from fgrad.core import ShapedArray, eval_trace, source_text, stage, to_array, using_trace
from fgrad.core.array import CODES
from fgrad.errors import LoweringError
from fgrad.ops.rules import constant

from fgrad._kernels.operands cimport scalar_of
from fgrad.compile.algebra cimport simplify
from fgrad.compile.bounds cimport bounds
from fgrad.compile.choices cimport distribute
from fgrad.compile.pads cimport padded_alike, side_by_side
from fgrad.compile.values cimport Buf, Node, Value, elementwise_node, new_value, row_major, temporary, view_reshape
from fgrad.core.ir cimport AvalBase, Eqn, Literal, Var
from fgrad.core.tracing cimport PrimitiveBase

cdef enum:
    FOLD_LIMIT = 65536             # elements of a constant that is computed while compiling
    SPREAD_LEAST = 4096            # elements of a result that is worth an instruction of its own for the part that it repeats
    SPREAD_TIMES = 8               # how often it repeats that part at least
    SPREAD_WORK = 32768            # and the additions that this saves, unless the part is a single value
    SPREAD_HOLD = 16384            # elements of a part that is cheaper to read than to compute, whatever computes it
    SPREAD_ROW = 256               # elements of a row; a column is spread over shorter ones in memory, which costs as much as a division

cdef object F32 = dtypes.FLOAT32
cdef object U8 = np.dtype(np.uint8)
cdef frozenset _narrow = dtypes.NARROW
cdef set _narrow_seen = dtypes.narrow_seen
cdef tuple _HALF = (dtypes.FLOAT16, dtypes.BFLOAT16)
cdef dict _REGISTERS = dict.fromkeys(_HALF, F32)
cdef dict _codes = CODES
cdef object _F32_CODE = CODES[F32]
cdef frozenset _commutative = COMMUTATIVE
cdef dict _supported = vm.SUPPORTED
cdef dict _weights = vm.WEIGHTS


cpdef object compute_dtype(dtype):
    """The dtype of the VM register that holds values of `dtype`."""
    return dtype if dtype is F32 else _REGISTERS.get(dtype, dtype)


cdef class LowerContext:
    """Collects the nodes of one program. Primitives' lower rules call its methods (see CONTRIBUTING)."""
    cdef public list nodes
    cdef readonly list consts      # Arrays
    cdef public object stored      # the Arrays that the first arguments are in every call
    cdef dict const_values
    cdef dict seen                 # common subexpressions: key -> values
    cdef readonly set apart        # complex values of which a part was taken (planes.py), by key
    cdef int tags
    cdef readonly int checkpoints  # barriers of these
    cdef readonly bint cse
    cdef bint simplify, fold

    def __init__(self):
        self.nodes = []
        self.consts = []
        self.stored = ()
        self.const_values, self.seen, self.apart = {}, {}, set()
        self.cse = config.pass_cse
        self.simplify = config.pass_simplify
        self.fold = config.pass_fold

    # --- values ---------------------------------------------------------------------------------------------------
    def arg(self, i, aval, strides=None, known=None):
        """Argument i. known: bounds of its integers, or None."""
        if self.simplify and known is not None and known[0] == known[1] and aval.shape == ():
            return self.scalar(known[0], aval.dtype)
        if _narrow_seen and aval.dtype in _narrow:
            aval = ShapedArray(aval.shape, U8)
        buf = Buf("arg", aval.dtype, aval.size, index=i, strided=strides is not None)
        (<Buf>buf).bounds = known
        if strides is None:
            (<Buf>buf).shape = aval.shape
        return Value(buf, aval.shape, strides or row_major(aval.shape), 0, aval.dtype)

    cdef Value temp(self, AvalBase aval):
        return temporary(aval.shape, aval.dtype, aval.size)

    cpdef Value scalar(self, value, dtype):
        """A rank-0 constant in the program text."""
        if isinstance(dtype, (type, str)):
            dtype = np.dtype(dtype)
        number = dtype.type
        if type(value) is not number:
            value = scalar_of(number, value) if type(value) is float and dtype.kind == "f" else np.asarray(value).astype(dtype)[()]
        if dtype in _narrow:
            dtype, value = U8, value.view(U8)
        return new_value(None, (), (), 0, dtype, value, 0)

    cpdef Value constant(self, x):
        """An array constant."""
        if id(x) not in self.const_values:
            a = to_array(x)
            if a.dtype in _narrow:
                a = to_array(np.array(a).view(U8))
            if a.strides_or_none is not None:
                a = to_array(np.ascontiguousarray(np.asarray(a)))
            if a.shape == ():
                value = Value(None, (), (), 0, a.dtype, np.asarray(a)[()])
            else:
                self.consts.append(a)
                value = Value(Buf("const", a.dtype, a.size, index=len(self.consts) - 1), a.shape, row_major(a.shape), 0, a.dtype)
                (<Buf>value.buf).bounds = a
            self.const_values[id(x)] = (value, x)
        return self.const_values[id(x)][0]

    cpdef Value materialize(self, Value v):
        """A value with memory: scalar constants get a buffer."""
        if v.buf is not None:
            return v
        key = (v.dtype, v.scalar.tobytes())
        if key not in self.const_values:
            self.consts.append(to_array(constant(v.dtype, v.scalar)))
            self.const_values[key] = Buf("const", v.dtype, 1, index=len(self.consts) - 1)
        return Value(self.const_values[key], v.shape, v.strides, 0, v.dtype, v.scalar)

    def view(self, Value v, shape, strides, offset=0):
        v = self.materialize(v)
        return new_value(v.buf, tuple(shape), tuple(strides), v.offset + offset, v.dtype, None, v.tag)

    def transpose(self, Value v, perm):
        cdef Py_ssize_t i, p
        cdef tuple order = tuple(perm)
        for i in range(len(order)):
            if order[i] != i:
                return self.view(v, [v.shape[<Py_ssize_t>p] for p in order], [v.strides[<Py_ssize_t>p] for p in order])
        return v

    def reversed(self, v, dims):
        """v backwards along the axes `dims`."""
        return reversed_along(self, v, dims, self.simplify)

    cpdef Value broadcast(self, Value v, shape, dims):
        cdef Py_ssize_t i = 0
        cdef list strides = [0] * len(shape)
        for d in dims:
            strides[<Py_ssize_t>d] = v.strides[i] if v.shape[i] == shape[d] else 0
            i += 1
        return new_value(v.buf, tuple(shape), tuple(strides), v.offset, v.dtype, v.scalar, v.tag)

    def reshape(self, Value v, shape):
        shape = tuple(shape)
        if v.shape == shape:
            return v
        if v.buf is None:
            return new_value(None, shape, (0,) * len(shape), 0, v.dtype, v.scalar, 0)
        strides = view_reshape(v.shape, v.strides, shape)
        if strides is None:
            if self.simplify and _is_copy(v) and (found := of_source(v)) is not None:
                v = found[0]
            v = self.fresh_copy(v)
            strides = row_major(shape)
        return new_value(v.buf, shape, strides, v.offset, v.dtype, None, v.tag)

    def reshaped_view(self, Value v, shape):
        """v under another shape, or None where that takes a copy."""
        strides = view_reshape(v.shape, v.strides, tuple(shape))
        return None if strides is None else self.view(v, shape, strides)

    cpdef Value contiguous(self, Value v):
        """v, or a copy of it in row-major order, which all who read it so share."""
        v = self.materialize(v)
        if v.is_contiguous():
            return v
        if not self.cse:
            return self.fresh_copy(v)
        key = ("contiguous", v.key())
        copy = self.seen.get(key)
        if copy is None:
            copy = self.seen[key] = self.fresh_copy(v)
        return copy

    cpdef Value fresh_copy(self, Value v):
        """v's elements in memory of their own, row-major."""
        return self.kernel("copy", [self.materialize(v)], [v.aval], contiguous=False)[0]

    def bitcast(self, v, aval):
        """A copy of v's memory read as another shape and dtype of the same number of bytes."""
        out = self.fresh_copy(v)
        return Value(out.buf, aval.shape, row_major(aval.shape), 0, aval.dtype)

    def cast(self, v, dtype):
        dtype = np.dtype(dtype)
        return v if v.dtype == dtype else self.elementwise("cast", [v], ShapedArray(v.shape, dtype))

    def all_within(self, v, greatest):
        """True if integers are known to be in 0 .. greatest."""
        known = bounds(v)
        return self.simplify and known[0] >= 0 and known[1] <= greatest

    def f32(self, v):
        return self.cast(v, F32) if v.dtype in _HALF else v

    # --- nodes ----------------------------------------------------------------------------------------------------
    cpdef Value elementwise(self, str op, list ins, AvalBase aval):
        """One op of the elementwise VM; rank-0 operands are spread."""
        cdef tuple shape = aval.shape
        cdef Value v, operand
        cdef list given, kept
        dtype = aval.dtype
        if op == "cast" and (<Value>ins[0]).dtype == dtype:
            return ins[0]
        if self.simplify:
            operand = ins[len(ins) - 1]
            if (operand.dtype is not F32 and operand.dtype.kind == "c" or op == "cast" and dtype.kind == "c") and (apart := in_parts(self, op, ins, aval)) is not None:
                return apart
            simpler = simplify(op, ins, aval)
            if simpler is not None:
                op, ins = simpler
                if op is None:
                    return ins[0]
            chosen = distribute(self, op, ins, aval)
            if chosen is not None:
                return chosen
            if (op == "add" or op == "sub") and (padded := padded_alike(ins[0], ins[1])) is not None:
                a, b, pad = padded
                inner = self.elementwise(op, [a, b], ShapedArray(a.shape, dtype))
                return self.kernel("pad", [inner, pad.ins[1]], [aval], ip=pad.ip, contiguous=False)[0]
            if op == "add" and (joined := side_by_side(self, ins[0], ins[1], aval)) is not None:
                return joined
        given = []
        for v in ins:
            if v.shape is not shape and v.shape != shape:
                v = new_value(v.buf, shape, (0,) * len(shape), v.offset, v.dtype, v.scalar, v.tag)
            given.append(v)
        if self.simplify and aval.size >= SPREAD_LEAST and (kept := _repeated(op, given, aval)) is not None:
            part = tuple([shape[a] for a in kept])
            ins = [v if v.buf is None else Value(v.buf, part, tuple([v.strides[a] for a in kept]), v.offset, v.dtype, v.scalar, v.tag) for v in given]
            return self.broadcast(self.elementwise(op, ins, ShapedArray(part, dtype)), shape, kept)
        for v in given:
            if self.simplify and _is_copy(v):
                if (found := common(given, shape)) is not None:
                    ins, split, kept = found
                    part = self.elementwise(op, ins, ShapedArray((<Value>ins[0]).shape, dtype))
                    return self.reshape(self.broadcast(part, split, kept), shape)
                break
        operand = given[1] if op == "select" else given[0]
        source = compute_dtype(operand.dtype)
        code = _codes[compute_dtype(dtype)] if op == "cast" else _F32_CODE if source is F32 else _codes[source]
        if code not in _supported[op]:
            raise LoweringError(f"{op} has no kernel for dtype {operand.dtype.name}")
        if op == "cast" and dtype in _HALF:
            # A register is float32: round now, so that a chain sees the value that memory would hold.
            wide = given[0] if source == F32 else self.elementwise("cast", given, ShapedArray(shape, F32))
            return self.elementwise("round_f16" if dtype == dtypes.FLOAT16 else "round_bf16", [wide], aval)
        if op == "cast" and source == compute_dtype(dtype):
            op, code = "mul", _codes[F32]
            given = [given[0], self.broadcast(self.scalar(1, F32), shape, ())]
        return self._add(elementwise_node(op, given, self.temp(aval), shape, code))[0]

    def reduce(self, str kind, Value v, axes, aval):
        """A reduction ("sum", "prod", "max", "min", "fmax", "fmin") over axes, in the VM; of nothing it is a constant, over no axes the value itself."""
        if not axes:
            return self.cast(v, aval.dtype)
        if 0 in v.shape:
            return self.broadcast(self.scalar(reduction_identity(kind, aval.dtype), aval.dtype), aval.shape, ())
        if self.simplify and kind in ("sum", "max", "min", "prod") and any([v.shape[a] == 1 for a in axes]):
            return self._reduce_rest(kind, v, axes, aval)
        exact = kind in ("max", "min", "fmax", "fmin") or kind == "sum" and v.dtype not in _HALF and v.dtype.kind != "c"
        if self.simplify and _is_copy(v) and (found := of_source(v)) is not None:
            return self._reduce_repeated(kind, found[0], found[1], axes, aval)
        if self.simplify and exact and any([not v.strides[a] for a in axes]):
            return self._reduce_equal(kind, v, axes, aval)
        return self._add(Node("reduce", kind, [v], [self.temp(aval)], v.shape, axes=tuple(axes)))[0]

    cdef Value _reduce_rest(self, str kind, Value v, axes, aval):
        """A reduction of which some axes have one element: that over the others."""
        kept = [a for a in range(len(v.shape)) if v.shape[a] != 1 or a not in axes]
        left = [i for i, a in enumerate(kept) if a in axes]
        v = Value(v.buf, tuple([v.shape[a] for a in kept]), tuple([v.strides[a] for a in kept]), v.offset, v.dtype, v.scalar, v.tag)
        return self.reduce(kind, v, left, aval)

    cdef Value _reduce_equal(self, str kind, Value v, axes, aval):
        """A reduction of which some axes only repeat their elements: one of each, times their number in a sum."""
        shape, strides, left, count = [], [], [], 1
        for a, (n, s) in enumerate(zip(v.shape, v.strides)):
            if a in axes and not s:
                count *= n
                continue
            if a in axes:
                left.append(len(shape))
            shape.append(n)
            strides.append(s)
        v = Value(v.buf, tuple(shape), tuple(strides), v.offset, v.dtype, v.scalar, v.tag)
        out = self.reduce(kind, v, left, aval) if left else v
        return self.elementwise("mul", [out, self.scalar(count, aval.dtype)], aval) if kind == "sum" else out

    cdef Value _reduce_repeated(self, str kind, Value v, list pieces, axes, aval):
        """A reduction over some axes, of `pieces` of v's each, where v repeats along others: of what is different, and repeated then."""
        cdef list gone = [], left = [], walk = []
        for a, count in enumerate(pieces):
            for _ in range(count):
                (gone if a in axes else left).append(len(gone) + len(left))
        walk = [k for k in range(len(v.shape)) if k in gone or v.strides[k]]
        x = Value(v.buf, tuple([v.shape[k] for k in walk]), tuple([v.strides[k] for k in walk]), v.offset, v.dtype, v.scalar, v.tag)
        kept = [k for k in left if v.strides[k]]
        out = self.reduce(kind, x, [walk.index(k) for k in gone], ShapedArray(tuple([v.shape[k] for k in kept]), aval.dtype))
        return self.reshape(self.broadcast(out, tuple([v.shape[k] for k in left]), [left.index(k) for k in kept]), aval.shape)

    cdef Value laid(self, aval, order):
        """A temporary whose axes lie in memory in the given order, from the outermost on."""
        cdef list strides = [0] * len(order)
        step = 1
        for i in reversed(order):
            strides[<Py_ssize_t>i] = step
            step *= aval.shape[i]
        return Value(Buf("temp", aval.dtype, aval.size), aval.shape, tuple(strides), 0, aval.dtype)

    def kernel(self, str name, ins, out_avals, ip=(), fp=(), contiguous=True, orders=None):
        """orders: for each result None (row-major), or its axes in the order of memory, for a kernel that takes any."""
        cdef Value v
        cdef list given = [], outs = [self.temp(a) for a in out_avals]
        if orders is not None:
            outs = [v if order is None else self.laid(a, order) for a, v, order in zip(out_avals, outs, orders)]
        flags = None if isinstance(contiguous, bool) else iter(contiguous)
        for v in ins:
            given.append(self.contiguous(v) if (contiguous if flags is None else next(flags)) else self.materialize(v))
        return self._add(Node("kernel", name, given, outs, None, tuple(map(int, ip)) if ip else (), tuple(map(float, fp)) if fp else ()))

    def control(self, kind, children, ins, out_avals, ip, workspace_avals=()):
        """A while, scan or cond instruction; children are ClosedJaxprs without consts."""
        ins = [self.contiguous(v) for v in ins]
        outs = [self.temp(a) for a in out_avals]
        space = [self.temp(a) for a in workspace_avals]
        self._add(Node("control", kind, ins, outs + space, None, tuple(map(int, ip)), (), tuple(children)))
        return outs

    def callback(self, fun, ins, in_avals, out_avals, op="callback"):
        """A call of Python: fun(list of Arrays) -> list of Arrays. op "pure_callback": dropped if nobody reads its results."""
        ins = [self.contiguous(v) for v in ins]
        outs = [self.temp(a) for a in out_avals]
        self._add(Node("callback", op, ins, outs, obj=(fun, list(in_avals), list(out_avals))))
        return outs

    def barrier(self, ins, saves_memory=False):
        """The same values, but nothing computed from them merges with what was computed before. saves_memory: see again.py, tags below 0."""
        self.tags += 1
        if saves_memory:
            self.checkpoints += 1
        tag = -self.tags if saves_memory else self.tags
        return [Value(v.buf, v.shape, v.strides, v.offset, v.dtype, v.scalar, tag) for v in ins]

    cdef list _add(self, Node node):
        """Append a node and return its outputs, or those of an equal node that is there already."""
        cdef Value o
        if self.cse and (node.kind == "ew" or node.kind == "reduce" or (node.kind == "kernel" and node.op != "copy")):
            outs = self.seen.setdefault(_key(node), node.outs)
            if outs is not node.outs:
                return outs
        for o in node.outs:
            o.buf.node = node
        self.nodes.append(node)
        return node.outs

    def forget(self):
        """No equal node is sought any more: what told them apart makes room for what comes."""
        self.seen.clear()

    # --- jaxprs ---------------------------------------------------------------------------------------------------
    def inline(self, closed, ins):
        """The outputs of a closed jaxpr on `ins`, lowered into this program."""
        cdef dict env = {}, known = {}
        cdef list operands
        cdef Eqn eqn
        cdef PrimitiveBase prim
        jaxpr = closed.jaxpr
        for v, c in zip(jaxpr.constvars, closed.consts):
            env[v] = self.constant(c)
            if self.fold and c.size <= FOLD_LIMIT:
                known[v] = c
        for v, x in zip(jaxpr.invars, ins):
            env[v] = x
        for eqn in jaxpr.eqns:
            prim = eqn.primitive
            if self.fold and (values := _folded(eqn, known)) is not None:
                known.update(zip(eqn.outvars, values))
                continue
            if prim.lower is None:
                raise LoweringError(f"no lowering for '{prim.name}'")
            operands = [self.read(v, env, known) for v in eqn.invars]
            try:
                if _narrow_seen and is_narrow(eqn):
                    out = lower_narrow(self, prim, operands, eqn.params, [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars])
                elif prim.opcode is not None:
                    out = self.elementwise(prim.opcode, operands, eqn.outvars[0].aval)
                else:
                    out = prim.lower(self, operands, eqn.params, [v.aval for v in eqn.outvars])
            except LoweringError as e:
                if eqn.source and " (from " not in str(e):
                    raise LoweringError(f"{e} (from {source_text(eqn.source)})") from None
                raise
            if prim.multiple_results:
                env.update(zip(eqn.outvars, out))
            else:
                env[eqn.outvars[0]] = out
        return [self.read(v, env, known) for v in jaxpr.outvars]

    cdef object read(self, v, dict env, dict known):
        """The value of an atom."""
        if type(v) is Literal:
            return self.scalar((<Literal>v).val, (<Literal>v).aval.dtype)
        value = env.get(v)
        if value is None:
            value = env[v] = self.constant(known[v])
        return value

    def compose(self, fun, ins):
        """Lower fun(*arrays) -> list, a composition of ops functions."""
        return self.inline(stage(fun, [v.aval for v in ins], "composed"), ins)


cdef bint _is_copy(Value v):
    return v.buf is not None and v.buf.node is not None and (<Node>v.buf.node).op == "copy"


cdef bint is_narrow(Eqn eqn):
    for v in eqn.invars:
        if v.aval.dtype in _narrow:
            return True
    for v in eqn.outvars:
        if v.aval.dtype in _narrow:
            return True
    return False


cdef list _repeated(str op, list ins, AvalBase aval):
    """The axes along which operands differ, where an operation is better computed once for all others; else None."""
    cdef Value v
    cdef Py_ssize_t a, n, weight = _weights[op], last = 0, part = 1
    cdef list kept = []
    for a, n in enumerate(aval.shape):
        if n == 1:
            continue
        last = a
        for v in ins:
            if v.strides[a]:
                kept.append(a)
                part *= n
                break
    if not kept:
        return kept
    if part * SPREAD_TIMES > aval.size or aval.size * weight < SPREAD_WORK:
        return None
    if kept[len(kept) - 1] != last and aval.shape[last] < SPREAD_ROW:
        return kept if weight > 4 else None
    return kept if part <= SPREAD_HOLD or weight >= 4 else None


cdef tuple _key(Node node):
    """What equal nodes share; the order of operands does not count where it does not matter."""
    cdef Value v
    cdef list operands, results = []
    if node.kind == "ew" and 0 < len(node.ins) < 3:                # its operands have its shape
        a, b = (<Value>node.ins[0]).key(), None
        if len(node.ins) == 2:
            b = (<Value>node.ins[1]).key()
            if node.op in _commutative and (hash(a) > hash(b) if type(a) is type(b) else type(b) is Buf):
                a, b = b, a
        return (node.op, (<Value>node.outs[0]).dtype, a, b)
    operands = [v.key() for v in node.ins]
    if node.kind == "ew":
        return (node.op, (<Value>node.outs[0]).dtype, *operands)
    if len(operands) == 2 and node.op in _commutative and hash(operands[0]) > hash(operands[1]):
        operands.reverse()
    for v in node.outs:
        results.append(v.shape)
        results.append(v.dtype)
    return (node.op, node.kind, node.ip, node.fp, node.axes, tuple(operands), tuple(results))


def reduction_identity(kind, dtype):
    """What a reduction of no elements gives."""
    if kind in ("sum", "prod"):
        return int(kind == "prod")
    if kind in ("fmax", "fmin"):
        return np.nan
    if dtype.kind == "b":
        return kind == "min"
    if dtypes.is_float(dtype):
        return np.inf if kind == "min" else -np.inf
    return np.iinfo(dtype).max if kind == "min" else np.iinfo(dtype).min


cdef list _folded(Eqn eqn, dict known):
    """The results of an equation of constants, or None. What is cheaper to keep as text or strides is left: scalars and broadcasts."""
    for v in eqn.invars:
        if type(v) is not Literal and v not in known:
            return None
    cdef PrimitiveBase prim = eqn.primitive
    if prim.kind not in ("kernel", "elementwise", "reduce", "view") or prim.impl is not None or prim.effects is not None:
        return None
    if any([not 1 < v.aval.size <= FOLD_LIMIT for v in eqn.outvars]):
        return None
    if prim.name == "broadcast_in_dim" and eqn.invars[0].aval.size == 1:
        return None
    values = [to_array(constant(v.aval.dtype, v.val)) if type(v) is Literal else known[v] for v in eqn.invars]
    with using_trace(eval_trace):
        out = prim.bind_eqn(eqn, values)
    out = out if prim.multiple_results else [out]
    return list(out) if all([x.dtype == v.aval.dtype for x, v in zip(out, eqn.outvars)]) else None
