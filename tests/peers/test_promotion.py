"""Dtypes and weak types of binary functions over all pairs of operand types."""

import numpy as np
import pytest

import fgrad
from tests.peers.compare import kind

pytestmark = pytest.mark.peers
jax = pytest.importorskip("jax")

DTYPES = ["bool", "uint8", "uint16", "uint32", "int8", "int16", "int32", "bfloat16", "float16", "float32", "complex64"]
OPERANDS = [*DTYPES, bool, int, float, complex, "np.float32", "np.int64", "np.float64", "weak int", "weak float"]
FUNCTIONS = [
    "add",
    "true_divide",
    "power",
    "floor_divide",
    "remainder",
    "maximum",
    "equal",
    "where",
    "bitwise_and",
    "matmul",
    "result_type",
]


def operand(j, what):
    """An operand of a kind, whose value is 1."""
    if isinstance(what, type):
        return what(1)
    if what.startswith("np."):
        return getattr(np, what[3:])(1)
    if what.startswith("weak"):
        return j.numpy.asarray(1 if what.endswith("int") else 1.0)
    return j.numpy.ones(2, what)


def outcome(j, name, *args):
    """The type of a function's result, or "error". JAX only traces: compiling for every pair would take minutes."""
    fun = getattr(j.numpy, name)
    try:
        if name == "result_type":
            return str(fun(*args))
        call = lambda: fun(np.array([True, False]), *args) if name == "where" else fun(*args)
        return kind(j.eval_shape(call) if j is jax else call()).replace("~bool", "bool")  # a weak bool is a bool
    except (TypeError, ValueError):
        return "error"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_promotion(name):
    ours, theirs = ({a: operand(j, a) for a in OPERANDS} for j in (fgrad, jax))
    wrong = []
    for a in OPERANDS:
        for b in OPERANDS:
            got, want = outcome(fgrad, name, ours[a], ours[b]), outcome(jax, name, theirs[a], theirs[b])
            if got != want:
                wrong.append(f"{name}({a}, {b}): {got}, JAX has {want}")
    assert not wrong, "\n".join(wrong)


UNARY = ["negative", "abs", "exp", "sqrt", "sum", "mean", "prod", "cumsum", "max", "floor", "sign", "square", "std", "isnan", "sort", "any"]


@pytest.mark.parametrize(
    "name", [*UNARY, "reciprocal", "ones_like", "asarray", "conj", "real", "imag", "array", "var", "logical_not", "bitwise_not"]
)
def test_unary_dtypes(name):
    wrong = []
    for a in OPERANDS:
        got, want = (outcome(j, name, operand(j, a)) for j in (fgrad, jax))
        if got != want:
            wrong.append(f"{name}({a}): {got}, JAX has {want}")
    assert not wrong, "\n".join(wrong)
