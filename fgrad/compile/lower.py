"""Lowering: a jaxpr's equations become nodes over strided values. Views cost nothing; elementwise ops stay fusible."""

import numpy as np

from fgrad import dtypes
from fgrad._kernels import elementwise as vm
from fgrad.compile.algebra import COMMUTATIVE, simplify
from fgrad.compile.values import Buf, Node, Value, row_major, view_reshape
from fgrad.config import config
from fgrad.core import Literal, ShapedArray, eval_trace, source_text, stage, to_array, using_trace
from fgrad.core.array import CODES
from fgrad.errors import LoweringError

F32, F64 = dtypes.FLOAT32, dtypes.FLOAT64
_HALF = (dtypes.FLOAT16, dtypes.BFLOAT16)


FOLD_LIMIT = 1 << 16  # elements of a constant that is computed while compiling


_REGISTERS = dict.fromkeys(_HALF, F32)


def compute_dtype(dtype):
    """The dtype of the VM register that holds values of `dtype`."""
    return _REGISTERS.get(dtype, dtype)


class LowerContext:
    """Collects the nodes of one program. Primitives' lower rules call its methods (see CONTRIBUTING)."""

    def __init__(self):
        self.nodes = []
        self.consts = []  # Arrays
        self.const_values = {}
        self.seen = {}  # common subexpressions: key -> values
        self.tags = 0
        self.cse = config.pass_cse
        self.simplify = config.pass_simplify
        self.fold = config.pass_fold

    # --- values ---------------------------------------------------------------------------------------------------
    def arg(self, i, aval, strides=None):
        buf = Buf("arg", aval.dtype, aval.size, index=i, strided=strides is not None)
        return Value(buf, aval.shape, strides or row_major(aval.shape), 0, aval.dtype)

    def temp(self, aval, node=None):
        return Value(Buf("temp", aval.dtype, aval.size, node), aval.shape, row_major(aval.shape), 0, aval.dtype)

    def scalar(self, value, dtype):
        """A rank-0 constant in the program text."""
        dtype = np.dtype(dtype)
        exact = type(value) is dtype.type or (type(value) is float and dtype.kind == "f")
        return Value(None, (), (), 0, dtype, dtype.type(value) if exact else np.asarray(value).astype(dtype)[()])

    def constant(self, x):
        """An array constant."""
        if id(x) not in self.const_values:
            a = to_array(x)
            if a.strides_or_none is not None:
                a = to_array(np.ascontiguousarray(np.asarray(a)))
            if a.shape == ():
                value = Value(None, (), (), 0, a.dtype, np.asarray(a)[()])
            else:
                self.consts.append(a)
                value = Value(Buf("const", a.dtype, a.size, index=len(self.consts) - 1), a.shape, row_major(a.shape), 0, a.dtype)
            self.const_values[id(x)] = (value, x)
        return self.const_values[id(x)][0]

    def materialize(self, v):
        """A value with memory: scalar constants get a buffer."""
        if v.buf is not None:
            return v
        key = (v.dtype, v.scalar.tobytes())
        if key not in self.const_values:
            self.consts.append(to_array(np.asarray(v.scalar)))
            self.const_values[key] = Buf("const", v.dtype, 1, index=len(self.consts) - 1)
        return Value(self.const_values[key], v.shape, v.strides, 0, v.dtype, v.scalar)

    def view(self, v, shape, strides, offset=0):
        v = self.materialize(v)
        return Value(v.buf, tuple(shape), tuple(strides), v.offset + offset, v.dtype, tag=v.tag)

    def transpose(self, v, perm):
        if perm == tuple(range(len(perm))):
            return v
        return self.view(v, tuple(v.shape[p] for p in perm), tuple(v.strides[p] for p in perm))

    def broadcast(self, v, shape, dims):
        strides = [0] * len(shape)
        for i, d in enumerate(dims):
            strides[d] = v.strides[i] if v.shape[i] == shape[d] else 0
        return Value(v.buf, tuple(shape), tuple(strides), v.offset, v.dtype, v.scalar, v.tag)

    def reshape(self, v, shape):
        shape = tuple(shape)
        if v.shape == shape:
            return v
        if v.buf is None:
            return Value(None, shape, (0,) * len(shape), 0, v.dtype, v.scalar)
        strides = view_reshape(v.shape, v.strides, shape)
        if strides is None:
            v = self.fresh_copy(v)
            strides = row_major(shape)
        return Value(v.buf, shape, strides, v.offset, v.dtype, tag=v.tag)

    def reshaped_view(self, v, shape):
        """v under another shape, or None where that takes a copy."""
        strides = view_reshape(v.shape, v.strides, tuple(shape))
        return None if strides is None else self.view(v, shape, strides)

    def contiguous(self, v):
        v = self.materialize(v)
        return v if v.contiguous else self.fresh_copy(v)

    def fresh_copy(self, v):
        """v's elements in memory of their own, row-major."""
        return self.kernel("copy", [self.materialize(v)], [v.aval], contiguous=False)[0]

    def bitcast(self, v, aval):
        """A copy of v's memory read as another shape and dtype of the same number of bytes."""
        out = self.fresh_copy(v)
        return Value(out.buf, aval.shape, row_major(aval.shape), 0, aval.dtype)

    def cast(self, v, dtype):
        dtype = np.dtype(dtype)
        return v if v.dtype == dtype else self.elementwise("cast", [v], ShapedArray(v.shape, dtype))

    def f32(self, v):
        return self.cast(v, F32) if v.dtype in _HALF else v

    # --- nodes ----------------------------------------------------------------------------------------------------
    def elementwise(self, op, ins, aval):
        """One op of the elementwise VM; rank-0 operands are spread."""
        shape = aval.shape
        if op == "cast" and ins[0].dtype == aval.dtype:
            return ins[0]
        if self.simplify:
            op, ins = simplify(op, ins, aval)
            if op is None:
                return ins[0]
            if op in ("add", "sub") and (padded := self._padded_alike(*ins)) is not None:
                a, b, pad = padded
                inner = self.elementwise(op, [a, b], ShapedArray(a.shape, aval.dtype))
                return self.kernel("pad", [inner, pad.ins[1]], [aval], ip=pad.ip, contiguous=False)[0]
        ins = [v if v.shape == shape else self.broadcast(v, shape, ()) for v in ins]
        operand = ins[1] if op == "select" else ins[0]
        source = compute_dtype(operand.dtype)
        code = CODES[compute_dtype(aval.dtype)] if op == "cast" else CODES[source]
        if code not in vm.SUPPORTED[op]:
            raise LoweringError(f"{op} has no kernel for dtype {operand.dtype.name}")
        if op == "cast" and aval.dtype in _HALF:
            # A register is float32: round now, so that a chain sees the value that memory would hold.
            wide = ins[0] if source == F32 else self.elementwise("cast", ins, ShapedArray(shape, F32))
            return self.elementwise("round_f16" if aval.dtype == dtypes.FLOAT16 else "round_bf16", [wide], aval)
        if op == "cast" and source == compute_dtype(aval.dtype):
            op, code = "mul", CODES[F32]
            ins = [ins[0], self.broadcast(self.scalar(1, F32), shape, ())]
        return self._add(Node("ew", op, ins, [self.temp(aval)], shape, type_code=code))[0]

    @staticmethod
    def _padded_alike(x, y):
        """(a, b, a pad) where x and y are a and b padded with the same number of zeros, which a sum of them has too; else None."""
        nodes = [v.buf.node if v.buf is not None and v.whole() else None for v in (x, y)]
        if x.tag != y.tag or any(n is None or n.op != "pad" or n.outs[0].shape != x.shape for n in nodes):
            return None
        (a, zero), (b, other) = (n.ins for n in nodes)
        same = nodes[0].ip == nodes[1].ip and a.shape == b.shape and a.tag == b.tag == x.tag
        return (a, b, nodes[0]) if same and _is_zero(zero) and _is_zero(other) else None

    def reduce(self, kind, v, axes, aval):
        """A reduction ("sum", "prod", "max", "min") over axes, in the VM; of nothing it is a constant."""
        if 0 in v.shape:
            return self.broadcast(self.scalar(reduction_identity(kind, aval.dtype), aval.dtype), aval.shape, ())
        exact = kind in ("max", "min") or kind == "sum" and v.dtype not in _HALF and v.dtype.kind != "c"
        if self.simplify and exact and any(not v.strides[a] for a in axes):
            return self._reduce_equal(kind, v, axes, aval)
        return self._add(Node("reduce", kind, [v], [self.temp(aval)], v.shape, axes=tuple(axes)))[0]

    def _reduce_equal(self, kind, v, axes, aval):
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

    def kernel(self, name, ins, out_avals, ip=(), fp=(), contiguous=True):
        flags = [contiguous] * len(ins) if isinstance(contiguous, bool) else contiguous
        ins = [self.contiguous(v) if c else self.materialize(v) for v, c in zip(ins, flags)]
        outs = [self.temp(a) for a in out_avals]
        return self._add(Node("kernel", name, ins, outs, ip=tuple(map(int, ip)), fp=tuple(map(float, fp))))

    def control(self, kind, children, ins, out_avals, ip, workspace_avals=()):
        """A while, scan or cond instruction; children are ClosedJaxprs without consts."""
        ins = [self.contiguous(v) for v in ins]
        outs = [self.temp(a) for a in out_avals]
        space = [self.temp(a) for a in workspace_avals]
        self._add(Node("control", kind, ins, outs + space, ip=tuple(map(int, ip)), children=tuple(children)))
        return outs

    def callback(self, fun, ins, in_avals, out_avals, op="callback"):
        """A call of Python: fun(list of Arrays) -> list of Arrays. op "pure_callback": dropped if nobody reads its results."""
        ins = [self.contiguous(v) for v in ins]
        outs = [self.temp(a) for a in out_avals]
        self._add(Node("callback", op, ins, outs, obj=(fun, list(in_avals), list(out_avals))))
        return outs

    def barrier(self, ins):
        """The same values, but nothing computed from them merges with what was computed before."""
        self.tags += 1
        return [Value(v.buf, v.shape, v.strides, v.offset, v.dtype, v.scalar, self.tags) for v in ins]

    def _add(self, node):
        """Append a node and return its outputs, or those of an equal node that is there already."""
        kind = node.kind
        if self.cse and (kind == "ew" or kind == "reduce" or (kind == "kernel" and node.op != "copy")):
            key = (
                kind,
                node.op,
                node.ip,
                node.fp,
                node.axes,
                node.shape,
                _operands(node),
                *[(o.shape, o.dtype) for o in node.outs],
            )
            if key in self.seen:
                return self.seen[key]
            self.seen[key] = node.outs
        for o in node.outs:
            o.buf.node = node
        self.nodes.append(node)
        return node.outs

    # --- jaxprs ---------------------------------------------------------------------------------------------------
    def inline(self, closed, ins):
        """The outputs of a closed jaxpr on `ins`, lowered into this program."""
        env = {}
        jaxpr = closed.jaxpr
        for v, c in zip(jaxpr.constvars, closed.consts):
            env[v] = self.constant(c)
        for v, x in zip(jaxpr.invars, ins):
            env[v] = x

        known = {v: c for v, c in zip(jaxpr.constvars, closed.consts) if c.size <= FOLD_LIMIT} if self.fold else {}

        def read(v):
            if type(v) is Literal:
                return self.scalar(v.val, v.aval.dtype)
            if v not in env:
                env[v] = self.constant(known[v])
            return env[v]

        for eqn in jaxpr.eqns:
            prim = eqn.primitive
            if self.fold and (values := _folded(eqn, known)) is not None:
                known.update(zip(eqn.outvars, values))
                continue
            if prim.lower is None:
                raise LoweringError(f"no lowering for '{prim.name}'")
            try:
                out = prim.lower(self, [read(v) for v in eqn.invars], eqn.params, [v.aval for v in eqn.outvars])
            except LoweringError as e:
                if eqn.source and " (from " not in str(e):
                    raise LoweringError(f"{e} (from {source_text(eqn.source)})") from None
                raise
            env.update(zip(eqn.outvars, out if prim.multiple_results else [out]))
        return [read(v) for v in jaxpr.outvars]

    def compose(self, fun, ins):
        """Lower fun(*arrays) -> list, a composition of ops functions."""
        return self.inline(stage(fun, [v.aval for v in ins], "composed"), ins)


def _is_zero(v):
    """True if v is the constant +0."""
    return v.scalar is not None and v.scalar == 0 and not np.signbit(np.real(v.scalar))


def _operands(node):
    """What a node reads, as part of a key; the same for both orders where order does not matter."""
    keys = [v.key() for v in node.ins]
    return frozenset(keys) if node.op in COMMUTATIVE and len(keys) == 2 else tuple(keys)


def reduction_identity(kind, dtype):
    """What a reduction of no elements gives."""
    if kind in ("sum", "prod"):
        return int(kind == "prod")
    if dtype.kind == "b":
        return kind == "min"
    if dtypes.is_float(dtype):
        return np.inf if kind == "min" else -np.inf
    return np.iinfo(dtype).max if kind == "min" else np.iinfo(dtype).min


def _folded(eqn, known):
    """The results of an equation of constants, or None. What is cheaper to keep as text or strides is left: scalars and broadcasts."""
    for v in eqn.invars:
        if type(v) is not Literal and v not in known:
            return None
    prim = eqn.primitive
    if prim.kind not in ("kernel", "elementwise", "reduce", "view") or prim.impl is not None or prim.effects is not None:
        return None
    if any(not 1 < v.aval.size <= FOLD_LIMIT for v in eqn.outvars):
        return None
    if prim.name == "broadcast_in_dim" and eqn.invars[0].aval.size == 1:
        return None
    values = [to_array(np.asarray(v.val, v.aval.dtype)) if type(v) is Literal else known[v] for v in eqn.invars]
    with using_trace(eval_trace):
        out = prim.bind_eqn(eqn, values)
    out = out if prim.multiple_results else [out]
    return out if all(x.dtype == v.aval.dtype for x, v in zip(out, eqn.outvars)) else None
