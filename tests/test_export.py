"""Programs as bytes: values, types, structures and derivatives of what was serialized are those of the function."""

import collections
import subprocess
import sys

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import export, lax, nn, random
from fgrad.extend.core import Primitive

X = np.array([1.0, 2.0, 3.0], np.float32)


def program(x, options):
    def step(c, a):
        return c * 2 + a, jnp.where(c > 1, c, a)

    scanned = lax.scan(step, x.sum(), x)
    chosen = lax.cond(x[0] > 0, lambda: jnp.sin(x), lambda: nn.relu(x))
    counted = lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x))
    inverse = jnp.linalg.inv(jnp.outer(x, x) + jnp.eye(3))
    noise = random.normal(random.key(0), (3,)).astype(jnp.bfloat16)
    updated = x.at[jnp.array([0, 1])].add(options["by"])
    window = lax.reduce_window(x, -np.inf, lax.max, (2,), (1,), "SAME")
    return {"a": (scanned, chosen), "b": [counted, inverse, None], "c": (noise, updated, window, jnp.sort(x), jnp.arange(3), x > 1)}


def same(a, b):
    assert fgrad.tree.structure(a) == fgrad.tree.structure(b)
    for x, y in zip(fgrad.tree.leaves(a), fgrad.tree.leaves(b)):
        assert (x.dtype, x.weak_type) == (y.dtype, y.weak_type)
        np.testing.assert_array_equal(x, y)


def again(fun, *args, order=0):
    return export.deserialize(export.export(fgrad.jit(fun))(*args).serialize(vjp_order=order))


def test_a_program_comes_back_as_it_was():
    read = again(program, X, {"by": 1.0})
    same(read.call(X, {"by": 1.0}), fgrad.jit(program)(X, {"by": 1.0}))
    assert (read.fun_name, read.platforms, read.nr_devices, read.has_vjp()) == ("program", ("cpu",), 1, False)
    assert read.in_tree == fgrad.tree.structure(((0, {"by": 0}), {}))
    assert [str(a) for a in read.in_avals] == ["float32[3]", "~float32[]"]
    again(lambda x: read.call(x, {"by": 2.0}), X)  # programs within programs


def test_in_another_process(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(export.export(fgrad.jit(lambda x, k: jnp.tanh(x) + random.uniform(k, (3,))))(X, random.key(1)).serialize())
    code = (
        "import sys, numpy, fgrad; from fgrad import export; "
        "read = export.deserialize(open(sys.argv[1], 'rb').read()); "
        "print(numpy.asarray(read.call(numpy.array([1., 2., 3.], 'float32'), fgrad.random.key(1))).tobytes().hex())"
    )
    out = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True).stdout
    want = fgrad.jit(lambda x, k: jnp.tanh(x) + random.uniform(k, (3,)))(X, random.key(1))
    np.testing.assert_array_equal(np.frombuffer(bytes.fromhex(out.strip()), np.float32), want)


@fgrad.custom_vjp
def tripled_backwards(x):
    return x * 2


tripled_backwards.defvjp(lambda x: (x * 2, None), lambda _, ct: (ct * 3,))


def test_transformations():
    fun = lambda x, n: (jnp.tanh(tripled_backwards(x)) * n).sum()  # noqa: E731
    read = again(fun, X, 2, order=2)
    np.testing.assert_allclose(fgrad.grad(read.call)(X, 2), fgrad.grad(fun)(X, 2), rtol=1e-6)
    twice = lambda f: fgrad.grad(lambda x: fgrad.grad(f)(x, 2).sum())(X)  # noqa: E731
    np.testing.assert_allclose(twice(read.call), twice(fun), rtol=1e-5)
    xs = jnp.stack([X, X + 1])
    np.testing.assert_allclose(fgrad.vmap(read.call, (0, None))(xs, 2), fgrad.vmap(fun, (0, None))(xs, 2), rtol=1e-6)
    np.testing.assert_allclose(fgrad.jit(read.call)(X, 2), fun(X, 2), rtol=1e-6)
    pullback = read.vjp()
    assert pullback.has_vjp() and not pullback.vjp().has_vjp()
    with pytest.raises(ValueError, match="No VJP is available"):
        fgrad.grad(again(fun, X, 2).call)(X, 2)


def test_calls_that_do_not_fit():
    read = again(lambda x, y: x + y["b"], X, {"b": X})
    for call, match in (
        (lambda: read.call(X), "same pytree structure"),
        (
            lambda: read.call(X, {"b": np.ones(4, np.float32)}),
            r"Shape mismatch for args\[1\]\['b'\]: expected \(3,\) and called with \(4,\)",
        ),
        (lambda: read.call(X.astype(int), {"b": X}), r"Dtype mismatch for args\[0\]: expected float32 and called with int32"),
    ):
        with pytest.raises(ValueError, match=match):
            call()


Pair = collections.namedtuple("Pair", "x y")


class Scaled:
    def __init__(self, x, by):
        self.x, self.by = x, by


fgrad.tree_util.register_pytree_node(Scaled, lambda s: ((s.x,), s.by), lambda by, xs: Scaled(*xs, by))


def test_nodes_of_ones_own():
    fun = fgrad.jit(lambda p, s: (Pair(p.y * s.x, p.x), Scaled(s.x * s.by, 5)))
    exported = export.export(fun)(Pair(X, 1.0), Scaled(X, 3))
    with pytest.raises(ValueError, match="register_namedtuple_serialization"):
        exported.serialize()
    export.register_namedtuple_serialization(Pair, serialized_name="tests.Pair")
    encoding = dict(serialize_auxdata=lambda by: str(by).encode(), deserialize_auxdata=lambda data: int(data))
    export.register_pytree_node_serialization(Scaled, serialized_name="tests.Scaled", **encoding)
    pair, scaled = export.deserialize(exported.serialize()).call(Pair(X, 1.0), Scaled(X, 3))
    assert type(pair) is Pair and scaled.by == 5
    np.testing.assert_array_equal(scaled.x, X * 3)
    with pytest.raises(ValueError, match="Duplicate"):
        export.register_namedtuple_serialization(Pair, serialized_name="tests.Other")


def test_what_cannot_be_exported():
    with pytest.raises(ValueError, match="must be the result of `jit`"):
        export.export(lambda x: x)
    with pytest.raises(ValueError, match="CPU"):
        export.export(fgrad.jit(lambda x: x), platforms=["tpu"])
    exported = export.export(fgrad.jit(lambda x: fgrad.pure_callback(np.sin, x, x)))(X)
    np.testing.assert_allclose(exported.call(X), np.sin(X), rtol=1e-6)
    with pytest.raises(ValueError, match="pure_callback: a value of type function"):
        exported.serialize()
    own = Primitive("sin")  # another one of that name
    own.def_abstract_eval(lambda x: x)
    with pytest.raises(ValueError, match="not one of fgrad's"):
        export.export(fgrad.jit(own.bind))(X).serialize()
    for blob in (b"", b"abc"):
        with pytest.raises(ValueError, match="these bytes are not a program"):
            export.deserialize(blob)
    blob = bytes(export.export(fgrad.jit(jnp.sin))(X).serialize())
    with pytest.raises(ValueError, match="not known here"):
        export.deserialize(blob.replace(b'"sin"', b'"sinn"'))
    with pytest.raises(ValueError, match="types are not those"):
        export.deserialize(blob.replace(b"[3]", b"[4]", 1))
    with pytest.raises(fgrad.errors.JaxprTypeError):  # what an equation says it gives is checked too
        export.deserialize(blob.replace(b"{}, [[false, [[3]", b"{}, [[false, [[4]"))
    for old, new in ((b'"jaxpr"', b'"other"'), (b'"vjp"', b'"other"'), (b'["sin", [0]', b'["sin", [7]')):
        assert old in blob
        with pytest.raises(ValueError, match="damaged"):
            export.deserialize(blob.replace(old, new))


def test_functions_of_the_namespace_are_exported_as_jitted_ones():
    exported = export.deserialize(export.export(jnp.sin)(np.arange(4, dtype=np.float32)).serialize())
    np.testing.assert_array_equal(exported.call(jnp.arange(4.0)), jnp.sin(jnp.arange(4.0)))
