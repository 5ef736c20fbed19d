"""What binds a primitive to the arguments of a call: functions, operators, and the jvps that are sums over arguments.

Closures of Cython: they stand between the user's line and each equation of a trace.
"""
from libc.stdint cimport int64_t

from fgrad._kernels.array import CODES
from fgrad.errors import NotDifferentiableError, ShapeError

from fgrad._kernels.abi cimport FG_BF16, FG_BOOL, FG_F16, FG_F64
from fgrad._kernels.array cimport ArrayBase
from fgrad._kernels.context cimport current_trace, x64
from fgrad._kernels.operands cimport get_aval, scalar_of
from fgrad.core.ir cimport AvalBase, Linear, Zero
from fgrad.core.tracing cimport NO_PARAMS, PrimitiveBase, TracerBase, _array_class, process

cdef tuple _REAL = (float, int, bool)
cdef object _broadcast = None
cdef object _config = None
cdef dict _codes = CODES


def install_broadcast(broadcast_in_dim, config):
    """Hand over the primitive that broadcasts, and the settings."""
    global _broadcast, _config
    _broadcast, _config = broadcast_in_dim, config


def unary_of(PrimitiveBase prim):
    """The function x -> prim.bind(x)."""

    def fun(x):
        return process(current_trace(), prim, (x,), NO_PARAMS)

    return fun


cdef tuple in_order(str name, tuple names, tuple args, dict kwargs):
    """The operands of a call that names some of them."""
    cdef dict given = dict(zip(names, args), **kwargs)
    if len(args) > len(names) or len(given) != len(args) + len(kwargs) or given.keys() != set(names):
        raise TypeError(f"{name} takes the operands {', '.join(names)}, each once; got {len(args)} by position and {sorted(kwargs)} by name")
    return tuple([given[n] for n in names])


def nary_of(PrimitiveBase prim, unify, spread, tuple names):
    """The function that binds prim to its arguments, called `names`; unify(name, args) gives them one dtype, spread(args) one shape or None."""

    def fun(*args, **kwargs):
        if kwargs or len(args) != len(names):
            args = in_order(prim.name, names, args, kwargs)
        if not alike(args):
            args = tuple(unify(prim.name, args))
        try:
            return process(current_trace(), prim, args, NO_PARAMS)
        except ShapeError:
            args = spread(args)
            if args is None:
                raise
        return process(current_trace(), prim, args, NO_PARAMS)

    return fun


def always(params):
    """True: a jvp that may raise whatever the parameters are."""
    return True


def jvp_of(PrimitiveBase prim, tuple rules, dict ops):
    """The jvp that sums one rule per argument, see ops.rules.jvp_by_args; ops has `add` and `broadcast_in_dim`."""

    if None in rules:
        prim.refuses = always

    def jvp(primals, tangents, **params):
        cdef Py_ssize_t i
        cdef tuple shape
        cdef AvalBase aval
        out = process(current_trace(), prim, tuple(primals), params)
        aval = get_aval(out)
        shape = aval.shape
        total = None
        for i in range(min(len(rules), len(tangents))):
            t = tangents[i]
            if type(t) is Zero:
                continue
            rule = rules[i]
            if rule is None:
                raise NotDifferentiableError(f"{prim.name} has no derivative in this argument")
            if params:
                term = rule(t, out, *primals, **params)
            elif len(primals) == 2:
                term = rule(t, out, primals[0], primals[1])
            else:
                term = rule(t, out, *primals)
            spread = (<AvalBase?>get_aval(term)).shape
            if spread is not shape and spread != shape:
                term = ops["broadcast_in_dim"](term, shape, ())
            total = term if total is None else ops["add"](total, term)
        return out, (Zero(aval.tangent_aval()) if total is None else total)

    return jvp


def tangent_alone(t, out, x, y):
    """The rule of an argument that a sum adds."""
    return t


cdef object unbroadcast(ct, AvalBase aval, dict ops):
    """A cotangent summed down to a rank-0 operand that an elementwise operation spread."""
    cdef tuple shape = (<AvalBase?>get_aval(ct)).shape
    return ct if shape is aval.shape or shape == aval.shape else ops["reduce_sum"](ct, tuple(range(len(shape))))


def sum_transpose(dict ops, negative=None):
    """The transpose of x + y, or with `negative`, which gives -ct, of x - y; ops has `reduce_sum`."""

    def transpose(cts, x, y):
        ct = cts[0]
        a = unbroadcast(ct, (<Linear>x).aval, ops) if type(x) is Linear else None
        if type(y) is not Linear:
            return a, None
        return a, unbroadcast(ct if negative is None else negative(ct), (<Linear>y).aval, ops)

    return transpose


def product_rules(multiply, dict ops):
    """(the rules of both arguments for jvp_of, the transpose) of multiply(x, y); ops has `reduce_sum`."""

    def first(t, out, x, y):
        return multiply(t, y)

    def second(t, out, x, y):
        return multiply(x, t)

    def transpose(cts, x, y):
        if type(x) is Linear:
            return unbroadcast(multiply(cts[0], y), (<Linear>x).aval, ops), None
        return None, unbroadcast(multiply(x, cts[0]), (<Linear>y).aval, ops)

    return (first, second), transpose


cpdef bint alike(tuple args):
    """True if all operands have one dtype."""
    cdef Py_ssize_t i
    dtype = (<AvalBase?>get_aval(args[0])).dtype
    for i in range(1, len(args)):
        if (<AvalBase?>get_aval(args[i])).dtype is not dtype:
            return False
    return True


cdef inline AvalBase aval_or_none(x):
    """The aval of an array or tracer; None of what else there is, and of dtypes beyond NumPy's."""
    if type(x) is _array_class:
        aval = (<ArrayBase>x).aval
    elif isinstance(x, TracerBase):
        aval = (<TracerBase>x).aval
    else:
        return None
    return <AvalBase>aval if isinstance(aval, AvalBase) else None


def is_array(x):
    """True for arrays and tracers."""
    return type(x) is _array_class or isinstance(x, TracerBase)


def floating_of(PrimitiveBase prim, slow):
    """prim.bind of an array or tracer of real floats; slow of all else."""

    def fun(*args, **kwargs):
        cdef AvalBase aval = aval_or_none(args[0]) if len(args) == 1 and not kwargs else None
        code = None if aval is None else _codes.get(aval.dtype)
        if code is not None and FG_F16 <= <int>code <= FG_F64:
            return process(current_trace(), prim, args, NO_PARAMS)
        return slow(*args, **kwargs)

    return fun


def pairing_of(PrimitiveBase prim, slow):
    """prim.bind of what `paired` pairs; slow of all else."""

    def fun(*args, **kwargs):
        pair = paired(args[0], args[1]) if len(args) == 2 and not kwargs else None
        return slow(*args, **kwargs) if pair is None else process(current_trace(), prim, pair, NO_PARAMS)

    return fun


cpdef object paired(x, y, bint inexact=False):
    """(x, y) as an elementwise primitive takes them, where one look tells: arrays or tracers of one dtype, not bool (with `inexact`,
    not of integers), broadcast to one shape unless one has rank 0; or one of floats that are not weakly typed beside a real Python scalar. None else."""
    cdef AvalBase a = aval_or_none(x), b = aval_or_none(y), aval
    if a is None or b is None:
        aval = b if a is None else a
        scalar = x if a is None else y
        if aval is None or aval.weak_type or type(scalar) not in _REAL:
            return None
        code = _codes.get(aval.dtype)
        if code is None or not FG_F16 <= <int>code <= FG_F64 or code == FG_BF16 or (code == FG_F64 and not x64()):
            return None
        scalar = scalar_of(aval.dtype.type, scalar)
        return (scalar, y) if a is None else (x, scalar)
    if a.dtype is not b.dtype:
        return None
    code = _codes.get(a.dtype)
    if code is None or code == FG_BOOL or (inexact and code < FG_F16):
        return None
    return (x, y) if a.shape is b.shape or a.shape == b.shape or not a.shape or not b.shape else broadcast_pair(x, y, a.shape, b.shape)


cdef object broadcast_pair(x, y, tuple a, tuple b):
    """x and y of shapes a and b, broadcast to one shape by NumPy's rules; None where they do not fit or a setting has its say."""
    cdef Py_ssize_t rank = max(len(a), len(b)), i
    cdef int64_t m, n
    cdef list shape = []
    if _broadcast is None or len(a) != len(b) and _config.numpy_rank_promotion != "allow":
        return None
    for i in range(-rank, 0):
        m = a[i + len(a)] if i + len(a) >= 0 else 1
        n = b[i + len(b)] if i + len(b) >= 0 else 1
        if m != n and m != 1 and n != 1:
            return None
        shape.append(n if m == 1 else m)
    return spread(x, a, tuple(shape)), spread(y, b, tuple(shape))


cdef object spread(x, tuple own, tuple shape):
    if own == shape:
        return x
    dims = tuple(range(len(shape) - len(own), len(shape)))
    return process(current_trace(), <PrimitiveBase>_broadcast, (x,), {"shape": shape, "broadcast_dimensions": dims})


def operator_of(PrimitiveBase prim, slow, bint inexact=False, bint reflected=False):
    """The method of tracers that binds prim to a pair of operands; slow(self, other) for what is not simply paired.

    inexact: see paired; reflected: the other operand comes first.
    """

    def operator(self, other):
        pair = paired(other, self, inexact) if reflected else paired(self, other, inexact)
        return slow(self, other) if pair is None else process(current_trace(), prim, pair, NO_PARAMS)

    return operator
