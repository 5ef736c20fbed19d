"""What is not well formed is refused: jaxprs by the checker, programs by the executor."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fgrad
import fgrad.numpy as jnp
from fgrad._kernels import KERNELS
from fgrad._kernels.executor import KINDS, Program
from fgrad.core import Eqn, Jaxpr, Literal, ShapedArray, Var, check_jaxpr, closed_as_fun, from_numpy, stage
from fgrad.core.array import CODES
from fgrad.errors import JaxprTypeError
from fgrad.ops.elementwise import mul_p, sin_p

# --- jaxprs ---------------------------------------------------------------------------------------------------------


def good():
    """{ lambda ; a. let b = sin a; c = mul b a in (c,) }, as its parts."""
    closed = fgrad.make_jaxpr(lambda x: jnp.sin(x) * x)(jnp.ones(3))
    return closed.jaxpr


def test_good_passes():
    check_jaxpr(good())
    loop = lambda x: fgrad.lax.scan(lambda c, y: (c * y, c), x, jnp.ones(3))
    check_jaxpr(fgrad.make_jaxpr(fgrad.value_and_grad(lambda x: loop(x)[0]))(1.0))


def test_wrong_type_is_refused():
    jaxpr = good()
    first, second = jaxpr.eqns
    for aval in (ShapedArray((4,), "float32"), ShapedArray((3,), "int32")):
        wrong = Var(aval)
        bad = jaxpr.replace(eqns=[first.replace(outvars=[wrong]), second.replace(invars=[wrong, jaxpr.invars[0]])])
        with pytest.raises(JaxprTypeError, match=r"equation 0 \(sin, from .*test_check.py.*"):
            check_jaxpr(bad)


def test_unbound_is_refused():
    jaxpr = good()
    stranger = Var(ShapedArray((3,), "float32"))
    with pytest.raises(JaxprTypeError, match="read before it is bound in equation 0"):
        check_jaxpr(jaxpr.replace(eqns=[jaxpr.eqns[0].replace(invars=[stranger]), jaxpr.eqns[1]]))
    with pytest.raises(JaxprTypeError, match="read before it is bound"):
        check_jaxpr(jaxpr.replace(eqns=jaxpr.eqns[::-1]))
    with pytest.raises(JaxprTypeError):
        check_jaxpr(jaxpr.replace(outvars=[stranger]))


def test_bound_twice_is_refused():
    jaxpr = good()
    with pytest.raises(JaxprTypeError, match="bound twice"):
        check_jaxpr(jaxpr.replace(eqns=[jaxpr.eqns[0], jaxpr.eqns[0], jaxpr.eqns[1]]))
    with pytest.raises(JaxprTypeError, match="bound twice"):
        check_jaxpr(jaxpr.replace(invars=jaxpr.invars * 2))


def test_wrong_arity_is_refused():
    a, out = Var(ShapedArray((), "float32")), Var(ShapedArray((), "float32"))
    for eqn in (
        Eqn(sin_p, [a, a], [out], {}),
        Eqn(mul_p, [a], [out], {}),
        Eqn(sin_p, [a], [out, Var(out.aval)], {}),
        Eqn(sin_p, [a], [], {}),
    ):
        with pytest.raises(JaxprTypeError, match="equation 0"):
            check_jaxpr(Jaxpr([], [a], [a], [eqn]))


def test_operands_that_a_primitive_refuses():
    a = Var(ShapedArray((3,), "float32"))
    eqn = Eqn(mul_p, [a, Literal(1, ShapedArray((), "int32"))], [Var(a.aval)], {})
    with pytest.raises(JaxprTypeError, match="equation 0.*float32, int32"):
        check_jaxpr(Jaxpr([], [a], eqn.outvars, [eqn]))


def test_inner_jaxprs_are_checked():
    closed = fgrad.make_jaxpr(lambda x: fgrad.jit(lambda y: jnp.sin(y))(x))(1.0)
    (call,) = closed.jaxpr.eqns
    inner = call.params["jaxpr"]
    inner.jaxpr.eqns[0].outvars[0].aval = ShapedArray((7,), "float32")
    with pytest.raises(JaxprTypeError, match="sin"):
        check_jaxpr(closed)


def test_wrong_number_of_arguments():
    closed = stage(lambda x: [sin_p.bind(x)], [ShapedArray((), "float32")])
    with pytest.raises(TypeError, match="takes 1 arguments, got 2"):
        closed_as_fun(closed)(1.0, 2.0)


# --- programs -------------------------------------------------------------------------------------------------------

F32 = CODES[np.dtype(np.float32)]
AVAL = ShapedArray((4,), np.dtype(np.float32))


def program(slots=None, inst=None, kernel="softmax", **changes):
    """A program of one kernel from argument 0 to output 0, with parts replaced."""
    spec = dict(
        slots=slots or [(F32, (4,), (1,), 1, 0), (F32, (4,), (1,), 2, 0)],
        insts=[inst or (0, KERNELS[kernel], [0], [1], (0,), (), [], None)],
        in_avals=[AVAL],
        in_strides=[None],
        in_codes=[F32],
        consts=[],
        outs=[(AVAL, -1)],
        out_codes=[F32],
        arena_bytes=0,
    )
    return Program(**{**spec, **changes})


def test_good_program_runs():
    x = np.arange(4, dtype=np.float32)
    (out,) = program().run([from_numpy(x)])
    np.testing.assert_allclose(np.asarray(out), np.exp(x) / np.exp(x).sum(), rtol=1e-6)


@pytest.mark.parametrize(
    "slot",
    [
        (F32, (5,), (1,), 1, 0),
        (F32, (4,), (2,), 1, 0),
        (F32, (4,), (-1,), 1, 0),
        (F32, (4,), (1,), 1, 4),
        (F32, (4,), (1,), 1, -4),
        (F32, (4,), (1,), 0, 0),
        (F32, (4,), (1,), 3, 0),
        (F32, (4,), (1,), -1, 0),
        (F32, (-4,), (1,), 1, 0),
        (F32, (4,), (), 1, 0),
        (F32, (4,), (1, 1), 1, 0),
        (F32, (2**62, 4), (4, 1), 1, 0),
        (F32, (2,), (2**62,), 1, 0),
        (F32, (2**40, 2**40), (2**40, 1), 1, 0),
        (F32, (2**32 + 1,), (2**32,), 1, 0),
        (F32, (2,), (2**47,), 1, -(2**49)),
        (F32, (2, 2), (2**47, -(2**47)), 1, 0),
        (99, (4,), (1,), 1, 0),
        (-1, (4,), (1,), 1, 0),
        (F32, (1,) * 40, (1,) * 40, 1, 0),
    ],
)
def test_bad_slots_are_refused(slot):
    with pytest.raises((ValueError, OverflowError)):
        program(slots=[slot, (F32, (4,), (1,), 2, 0)])


@pytest.mark.parametrize(
    "inst",
    [
        (0, KERNELS["softmax"], [0], [2], (0,), (), [], None),
        (0, KERNELS["softmax"], [-1], [1], (0,), (), [], None),
        (0, KERNELS["softmax"], [], [1], (0,), (), [], None),
        (0, KERNELS["softmax"], [0], [], (0,), (), [], None),
        (0, KERNELS["softmax"], [0, 0, 0, 0], [1, 1, 1], (), (), [], None),
        (9, KERNELS["softmax"], [0], [1], (), (), [], None),
        (0, KERNELS["softmax"], [0], [1]),
        (KINDS["cond"], None, [0], [1], (), (), [], None),
        (KINDS["cond"], None, [0], [1], (0, 1), (), [], None),
        (KINDS["while"], None, [0], [1], (0, 0, 1), (), [], None),
        (KINDS["while"], None, [0], [1], (-1, 1, 1), (), [], None),
        (KINDS["scan"], None, [0], [1], (0, 1, 0, 0, 3, 0), (), [], None),
        (KINDS["scan"], None, [0], [1], (0, 5, 0, 0, -3, 0), (), [], None),
        (KINDS["callback"], None, [0], [1], (), (), [], None),
        (KINDS["callback"], None, [0], [1], (), (), [], (print, [], [])),
    ],
)
def test_bad_instructions_are_refused(inst):
    with pytest.raises(ValueError):
        program(inst=inst)


@pytest.mark.parametrize(
    "changes",
    [
        dict(in_strides=[]),
        dict(in_codes=[]),
        dict(in_codes=[CODES[np.dtype(np.float64)]]),
        dict(out_codes=[CODES[np.dtype(np.int8)]]),
        dict(outs=[(AVAL, 1)]),
        dict(outs=[(AVAL, -9)]),
        dict(outs=[(AVAL, -2)]),
        dict(outs=[(ShapedArray((3,), np.dtype(np.float32)), 0)]),
        dict(arena_bytes=-1),
    ],
)
def test_bad_signatures_are_refused(changes):
    with pytest.raises(ValueError):
        program(**changes)


def test_arguments_are_compared_at_run_time():
    p = program()
    for bad in ([], [from_numpy(np.ones(5, np.float32))], [from_numpy(np.ones(4, np.int32))], [from_numpy(np.ones((2, 2), np.float32))]):
        with pytest.raises(RuntimeError):
            p.run(bad)
    with pytest.raises(TypeError):
        p.run([np.ones(4, np.float32)])


small = st.integers(-2, 6)
slot_strategy = st.tuples(
    st.sampled_from([CODES[np.dtype(t)] for t in ("f4", "i4", "?", "f8")]),
    st.lists(st.integers(0, 4), max_size=3).map(tuple),
    st.lists(st.integers(-2, 4), max_size=3).map(tuple),
    st.integers(0, 2),
    st.sampled_from([0, 0, 0, 4, 8]),
)


@settings(max_examples=400, deadline=None)
@given(
    name=st.sampled_from(sorted(KERNELS)),
    slots=st.lists(slot_strategy, min_size=1, max_size=5),
    ins=st.lists(st.integers(0, 4), max_size=4),
    outs=st.lists(st.integers(0, 4), max_size=3),
    ip=st.lists(small, max_size=14),
    fp=st.lists(st.floats(-1, 1), max_size=3),
)
def test_kernels_check_their_instructions(name, slots, ins, outs, ip, fp):
    """Any words at all: a kernel refuses them with ValueError, or they are safe to run."""
    slots = [(code, shape, (*strides, 1, 1, 1)[: len(shape)], base, at) for code, shape, strides, base, at in slots]
    try:
        p = program(slots=slots, inst=(0, KERNELS[name], ins, outs, tuple(ip), tuple(fp), [], None), arena_bytes=256)
    except ValueError:
        return
    try:
        p.run([from_numpy(np.zeros(4, np.float32))])
    except RuntimeError:
        pass
