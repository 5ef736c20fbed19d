"""What is an error in JAX is the same kind of error in fgrad, and says the same thing in its own words."""

import re

import numpy as np
import pytest

import fgrad

pytestmark = pytest.mark.peers
jax = pytest.importorskip("jax")

# name -> (program of the namespace, what both messages must say)
ERRORS = {
    "grad_of_a_vector": (lambda j: j.grad(lambda x: x * 2)(j.numpy.ones(3)), "scalar-output"),
    "grad_of_an_integer": (lambda j: j.grad(lambda x: x * 2.0)(3), "int32"),
    "grad_of_an_integer_output": (lambda j: j.grad(lambda x: 3)(1.0), "real-valued|int32|int"),
    "grad_of_a_complex_output": (lambda j: j.grad(lambda x: x * 1j)(1.0), "holomorphic"),
    "grad_of_a_tuple": (lambda j: j.grad(lambda x: (x, x))(1.0), "scalar-output"),
    "holomorphic_of_a_real_input": (lambda j: j.grad(lambda x: x, holomorphic=True)(1.0), "complex"),
    "grad_with_argnums_out_of_range": (lambda j: j.grad(lambda x: x, argnums=2)(1.0), "argnums"),
    "grad_of_a_string": (lambda j: j.grad(lambda x: x)("a"), "str"),
    "adding_shapes": (lambda j: j.numpy.ones(3) + j.numpy.ones(4), r"\(3,\).*\(4,\)"),
    "adding_shapes_in_lax": (lambda j: j.lax.add(j.numpy.ones(3), j.numpy.ones(4)), r"\(3,\).*\(4,\)"),
    "adding_dtypes_in_lax": (lambda j: j.lax.add(j.numpy.ones(3), j.numpy.arange(3)), "float32.*int32"),
    "matmul_of_shapes": (lambda j: j.numpy.ones((2, 3)) @ j.numpy.ones((2, 3)), r"3.*2"),
    "reshape_of_a_size": (lambda j: j.numpy.ones(6).reshape(4, 2), r"6|\(6,\)"),
    "concatenate_of_ranks": (lambda j: j.numpy.concatenate([j.numpy.ones(2), j.numpy.ones((2, 2))]), "dimensions|rank|shape"),
    "axis_out_of_bounds": (lambda j: j.numpy.sum(j.numpy.ones(3), axis=2), "out of bounds"),
    "vmap_of_sizes": (lambda j: j.vmap(lambda x, y: x)(j.numpy.ones(3), j.numpy.ones(4)), "inconsistent sizes"),
    "vmap_of_a_scalar": (lambda j: j.vmap(lambda x: x)(1.0), "rank"),
    "vmap_without_a_mapped_argument": (lambda j: j.vmap(lambda x: x, in_axes=None)(j.numpy.ones(3)), "non-None"),
    "vmap_with_too_few_axes": (lambda j: j.vmap(lambda x, y: x, in_axes=(0,))(j.numpy.ones(3), j.numpy.ones(3)), "in_axes"),
    "vmap_axis_out_of_bounds": (lambda j: j.vmap(lambda x: x, in_axes=2)(j.numpy.ones((3, 3))), "axis 2|rank|out of bounds"),
    "vmap_axes_of_another_tree": (lambda j: j.vmap(lambda x: x["a"], in_axes=({"b": 0},))({"a": j.numpy.ones(3)}), "in_axes"),
    "vmap_out_axes_none": (lambda j: j.vmap(lambda x: x, out_axes=None)(j.numpy.ones(3)), "out_axes"),
    "unbound_axis_name": (lambda j: j.lax.psum(1.0, "batch"), "batch"),
    "if_under_jit": (lambda j: j.jit(lambda x: x if x > 0 else -x)(1.0), "boolean"),
    "float_under_jit": (lambda j: j.jit(lambda x: float(x))(1.0), "float|concrete"),
    "int_under_jit": (lambda j: j.jit(lambda x: int(x))(1), "int|concrete"),
    "range_under_jit": (lambda j: j.jit(lambda n: [0 for _ in range(n)])(3), "integer|__index__"),
    "numpy_under_jit": (lambda j: j.jit(lambda x: np.sin(x))(1.0), "numpy"),
    "boolean_mask_under_jit": (lambda j: j.jit(lambda x: x[x > 0])(j.numpy.ones(3)), "boolean"),
    "shape_from_a_tracer": (lambda j: j.jit(lambda n: j.numpy.zeros(n))(3), "shape|concrete|integer"),
    "nonzero_under_jit": (lambda j: j.jit(lambda x: j.numpy.nonzero(x))(j.numpy.ones(3)), "size"),
    "item_under_jit": (lambda j: j.jit(lambda x: x.item())(1.0), "concrete|item|traced"),
    "hash_of_a_tracer": (lambda j: j.jit(lambda x: {x: 1})(1.0), "unhashable|hash"),
    "string_to_jit": (lambda j: j.jit(lambda x: x)("a"), "str"),
    "string_from_jit": (lambda j: j.jit(lambda x: "a")(1.0), "str"),
    "list_as_a_static_argument": (lambda j: j.jit(lambda x: 1, static_argnums=0)([1]), "hash"),
    "scan_carry_dtype": (lambda j: j.lax.scan(lambda c, x: (c.astype(int), x), j.numpy.float32(1), j.numpy.ones(3)), "float32.*int32"),
    "scan_carry_structure": (lambda j: j.lax.scan(lambda c, x: ((c, c), x), 0.0, j.numpy.ones(3)), "structure"),
    "scan_body_without_a_pair": (lambda j: j.lax.scan(lambda c, x: c, 0.0, j.numpy.ones(3)), "pair|two|2"),
    "scan_lengths": (lambda j: j.lax.scan(lambda c, x: (c, None), 0.0, (j.numpy.ones(3), j.numpy.ones(4))), "3.*4"),
    "scan_without_a_length": (lambda j: j.lax.scan(lambda c, x: (c, None), 0.0, None), "length"),
    "while_predicate": (lambda j: j.lax.while_loop(lambda c: c, lambda c: c, 1.0), "bool"),
    "while_carry_shape": (lambda j: j.lax.while_loop(lambda c: True, lambda c: c[1:], j.numpy.ones(3)), r"\[3\].*\[2\]"),
    "reverse_mode_of_while": (lambda j: j.grad(lambda x: j.lax.while_loop(lambda c: c < 9, lambda c: c * 2, x))(1.0), "[Rr]everse-mode"),
    "cond_types": (
        lambda j: j.lax.cond(True, lambda: {"a": j.numpy.ones(2)}, lambda: {"a": j.numpy.ones(3)}),
        r"\['a'\].*\[[23]\].*\[[23]\]",
    ),
    "cond_structures": (lambda j: j.lax.cond(True, lambda: {"a": 1}, lambda: {"b": 1}), "structure"),
    "cond_predicate_shape": (lambda j: j.lax.cond(j.numpy.ones(3) > 0, lambda: 1, lambda: 2), "scalar"),
    "switch_index_dtype": (lambda j: j.lax.switch(1.5, [lambda: 1, lambda: 2]), "integer|int"),
    "switch_without_branches": (lambda j: j.lax.switch(0, []), "branch|empty"),
    "index_by_a_float": (lambda j: j.numpy.ones(3)[1.5], "[Ii]ndex|integer"),
    "index_by_a_float_array": (lambda j: j.numpy.ones(3)[j.numpy.ones(2)], "integer"),
    "index_by_a_list": (lambda j: j.numpy.ones(3)[[0, 1]], "list|sequence"),
    "too_many_indices": (lambda j: j.numpy.ones(3)[0, 0], "[Tt]oo many"),
    "item_assignment": (lambda j: j.numpy.ones(3).__setitem__(0, 1.0), r"immutable.*\.at\["),
    "update_of_a_shape": (lambda j: j.numpy.ones(3).at[:2].set(j.numpy.ones(3)), "[Ii]ncompatible|broadcast"),
    "list_to_a_ufunc": (lambda j: j.numpy.sin([1.0, 2.0]), "list|ndarray or scalar"),
    "jvp_tangent_dtype": (lambda j: j.jvp(lambda x: x, (1.0,), (j.numpy.int32(1),)), "tangent"),
    "jvp_tangent_shape": (lambda j: j.jvp(lambda x: x, (j.numpy.ones(3),), (j.numpy.ones(2),)), "shape"),
    "jvp_without_tuples": (lambda j: j.jvp(lambda x: x, 1.0, 1.0), "tuples or lists"),
    "vjp_cotangent_structure": (lambda j: j.vjp(lambda x: (x, x), 1.0)[1](1.0), "structure|tree"),
    "vjp_cotangent_shape": (lambda j: j.vjp(lambda x: x, j.numpy.ones(3))[1](j.numpy.ones(2)), "shape"),
    "forward_mode_of_custom_vjp": (lambda j: j.jvp(_custom_vjp(j), (1.0,), (1.0,)), "custom_vjp"),
    "custom_jvp_without_a_rule": (lambda j: j.custom_jvp(lambda x: x)(1.0), "defjvp"),
    "custom_vjp_without_a_rule": (lambda j: j.custom_vjp(lambda x: x)(1.0), "defvjp"),
    "hessian_of_a_string": (lambda j: j.hessian(lambda x: x)("a"), "str"),
    "tree_map_of_structures": (lambda j: j.tree.map(lambda a, b: a, {"a": 1}, {"b": 1}), "key|structure|mismatch"),
    "unflatten_too_few": (lambda j: j.tree.unflatten(j.tree.structure([1, 2]), [1]), "leaves"),
    "einsum_of_sizes": (lambda j: j.numpy.einsum("ij,jk", j.numpy.ones((2, 3)), j.numpy.ones((2, 3))), "j|dimension|size"),
    "dot_general_of_sizes": (lambda j: j.lax.dot_general(j.numpy.ones((2, 3)), j.numpy.ones((2, 3)), (((1,), (0,)), ((), ()))), "3.*2"),
    "remainder_of_complex": (lambda j: j.numpy.array([1j]) % 2, "complex"),
    "float_shift": (lambda j: j.numpy.ones(2) << 1, "float32|integer"),
    "truth_of_an_array": (lambda j: bool(j.numpy.ones(2)), "ambiguous"),
    "deleted_array": (lambda j: _donated(j) + 1, "deleted"),
    "unknown_attribute": (lambda j: j.numpy.ones(2).nothing, "nothing"),
    "leaked_tracer": (lambda j: _leak(j) + 1, "[Uu]nexpected tracer|side effect|leak"),
    "leaked_tracer_of_grad": (lambda j: j.numpy.sin(_leak_from_grad(j)), "[Uu]nexpected tracer|side effect|leak"),
}


def _custom_vjp(j):
    f = j.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, g: (g,))
    return f


def _leak(j):
    kept = []
    j.jit(lambda x: kept.append(x * 2))(1.0)
    return kept[0]


def _leak_from_grad(j):
    kept = []

    def f(x):
        kept.append(x * 2)
        return x

    j.jit(j.grad(f))(1.0)
    return kept[0]


def _donated(j):
    x = j.numpy.ones(4)
    j.jit(lambda x: x + 1, donate_argnums=0)(x)
    return x


def failure(j, program):
    """The exception that a program raises, or None."""
    try:
        program(j)
    except Exception as e:
        return e
    return None


def bases(error):
    """Names of the error's type and of what an except clause could catch it by."""
    return {t.__name__ for t in type(error).__mro__} - {"object", "BaseException", "Exception"}


@pytest.mark.parametrize("name", ERRORS)
def test_error(name):
    program, gist = ERRORS[name]
    got, want = failure(fgrad, program), failure(jax, program)
    assert want is not None, f"{name}: JAX raises nothing"
    assert got is not None, f"{name}: fgrad raises nothing, JAX {type(want).__name__}: {want}"
    assert bases(got) & bases(want), f"{name}: {type(got).__name__}, JAX raises {type(want).__name__}: {want}"
    for e in (got, want):
        assert re.search(gist, str(e), re.S), f"{name}: {type(e).__module__}.{type(e).__name__} does not say {gist!r}: {e}"


NAMED = ["TracerBoolConversionError", "TracerIntegerConversionError", "TracerArrayConversionError", "ConcretizationTypeError"]


@pytest.mark.parametrize("name", [*NAMED, "NonConcreteBooleanIndexError", "UnexpectedTracerError"])
def test_named_errors_can_be_caught_by_jax_s_names(name):
    ours, theirs = getattr(fgrad.errors, name), getattr(jax.errors, name)
    assert {t.__name__ for t in theirs.__mro__} & {"TypeError", "IndexError"} <= {t.__name__ for t in ours.__mro__}
