"""Value and gradient of a function of arrays, outside of every transformation: it runs first, and what it did is differentiated."""
from libc.stdint cimport uintptr_t

from fgrad import array_tree as tree
from fgrad.api.backward import recorded_program
from fgrad.api.common import LEAF, arg_name, check_scalar, checked_leaf, flatten_result, fun_name, with_weak_type
from fgrad.config import config
from fgrad.core import Array, to_array
from fgrad.core.binding import is_array
from fgrad.ops.rules import Zero, instantiate
from fgrad.transforms.recorded import Recorded

from fgrad._kernels.abi cimport FG_F16, FG_F64
from fgrad._kernels.array cimport ArrayBase
from fgrad._kernels.context cimport config_key, is_eval
from fgrad._kernels.pace cimport Pace, Turn
from fgrad.core.recording cimport inexact

cdef dict _allowed = {}                  # key of settings -> whether a function may be recorded
cdef dict _paces = {}                    # address of a function's code, or of its type -> how its calls are run
cdef enum:
    PACES = 1000


cpdef bint may_record() except -1:
    """Whether a function may be run first and differentiated afterwards: outside of every transformation."""
    if not is_eval():
        return False
    key = config_key()
    allowed = _allowed.get(key)
    if allowed is None:
        allowed = _allowed[key] = not (config.debug_nans or config.debug_infs or config.disable_jit)
    return allowed


cdef class OnLeaves:
    """fun(*args, **kwargs) as a flat function of its positional arguments `nums`, which are leaves or, with a treedef, the tree of them;
    out_tree is that of its last result."""
    cdef object fun, treedef
    cdef tuple args, nums
    cdef dict kwargs
    cdef readonly object out_tree

    def __init__(self, fun, tuple args, dict kwargs, tuple nums, treedef):
        self.fun, self.args, self.kwargs, self.nums, self.treedef = fun, args, kwargs, nums, treedef

    def __call__(self, *leaves):
        cdef list args
        cdef Py_ssize_t i
        if self.treedef is not None:
            leaves = tree.unflatten(self.treedef, leaves)
        if len(leaves) < len(self.args):
            args = list(self.args)
            for i in range(len(leaves)):
                args[<Py_ssize_t>self.nums[i]] = leaves[i]
            leaves = tuple(args)
        out = self.fun(*leaves, **self.kwargs) if self.kwargs else self.fun(*leaves)
        if is_array(out):
            self.out_tree = LEAF
            return [out]
        out, self.out_tree = flatten_result(out)
        return [x if is_array(x) else checked_leaf(x, self.fun) for x in out]

    @property
    def __wrapped__(self):
        return self.fun

    @property
    def __name__(self):
        return fun_name(self.fun)

    def check(self, outs):
        """Raise unless the results are one real number."""
        cdef ArrayBase x
        if self.out_tree is LEAF and type(outs[0]) is Array:
            x = outs[0]
            if x.size == 1 and not x.aval.shape and FG_F16 <= x.code <= FG_F64:
                return
        check_scalar(outs, self.out_tree, self.fun, False)

    def arg_paths(self):
        """How messages name its arguments."""
        if self.treedef is None:
            return [arg_name(self.fun, i) for i in self.nums]
        return [arg_name(self.fun, self.nums[key]) + tree.keystr(path) for key, *path in self.treedef.paths()]


cdef Pace _pace_of(fun):
    """How calls of a function are run: those that come from one place in a program in one way, whatever they close over."""
    cdef Pace pace
    code = getattr(fun, "__code__", None)
    if code is None:
        code = getattr(getattr(fun, "__wrapped__", None), "__code__", type(fun))
    key = <uintptr_t><void *>code             # whose hash would take longer than all else
    pace = <Pace>_paces.get(key)
    if pace is None:
        if len(_paces) >= PACES:
            _paces.clear()
        pace = _paces[key] = Pace()
        pace.owner = code
    return pace


def recorded_gradient_of(fun, flat, list arrays, check, pullback):
    """(results, cotangents of the arrays, Zero where there is none) of fun as a flat function with one result, which `check` looks at.

    pullback(linear jaxpr, arguments, nonzero, results) gives the cotangents where they are no one program.
    """
    cdef Pace pace = _pace_of(fun)
    cdef Turn turn = pace.begins()
    try:
        run = Recorded(flat, arrays)
        outs = run.primals()
        check(outs)
        cts = run.cotangents(recorded_program)
        if cts is None:
            linear, _, nonzero = run.linear()
            cts = pullback(linear, arrays, nonzero, outs)
    finally:
        pace.ends(turn)
    return outs, cts


def gradient_of_arrays(fun, tuple args, dict kwargs, argnums, pullback):
    """(value, tuple of gradients) of a real function in the arguments `argnums` (an int or ascending ints), trees of arrays of floats
    and of Python's floats; None where they are anything else, and where it may not be recorded.

    pullback(linear jaxpr, arguments, nonzero, results) gives the gradients where they are no one program.
    """
    cdef tuple nums
    cdef list leaves = [], cts
    cdef Py_ssize_t i, last = -1
    cdef bint plain = True
    if not may_record():
        return None
    nums = argnums if type(argnums) is tuple else (argnums,)
    for n in nums:
        if type(n) is not int or not last < n < len(args):
            return None
        last = n
        leaves.append(args[last])
        plain = plain and (type(args[last]) is Array or type(args[last]) is float)
    treedef = None
    if not plain:
        leaves, treedef = tree.flatten(tuple(leaves))
    if not leaves:
        return None
    for i in range(len(leaves)):
        x = leaves[i]
        if type(x) is float:
            leaves[i] = to_array(x)
        elif type(x) is not Array or not inexact(<ArrayBase>x):
            return None
    flat = OnLeaves(fun, args, kwargs, nums, treedef)
    outs, cts = recorded_gradient_of(fun, flat, leaves, flat.check, pullback)
    for i in range(len(cts)):
        if type(cts[i]) is Zero:
            cts[i] = instantiate(with_weak_type(cts[i], (<ArrayBase>leaves[i]).aval.weak_type))
    value = outs[0] if type(outs[0]) is Array else to_array(outs[0])
    return value, tuple(cts) if treedef is None else tree.unflatten(treedef, cts)
