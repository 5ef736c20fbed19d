"""Corners of JAX's surface: methods of arrays and keys, weak types, empty axes, stages, messages of wrong calls."""

import weakref

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax, nn, random


def test_view_reads_bytes_as_numpy_does():
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    for dtype in (np.int32, np.uint8, np.int16, np.complex64, np.float32):
        np.testing.assert_array_equal(jnp.asarray(x).view(dtype), x.view(dtype))
    z = (x + 1j).astype(np.complex64)
    np.testing.assert_array_equal(jnp.asarray(z).view(jnp.float32), z.view(np.float32))
    np.testing.assert_array_equal(jnp.array([True, False]).view(jnp.int8), [1, 0])
    assert int(jnp.float32(1).view(jnp.int32)) == 0x3F800000
    np.testing.assert_array_equal(fgrad.jit(lambda x: x.view(jnp.int32))(x), x.view(np.int32))
    with pytest.raises(ValueError, match="divisor of the total size"):
        jnp.ones((2, 3), jnp.uint8).view(jnp.float32)
    with pytest.raises(ValueError, match="0d"):
        jnp.float32(1).view(jnp.uint8)


def test_attributes_of_arrays_on_one_device():
    x = jnp.ones((2, 3))
    assert x.is_fully_addressable and x.is_fully_replicated and x.is_ready() and weakref.ref(x)() is x
    assert x.addressable_shards[0].data is x and x.addressable_data(0) is x and x.on_device_size_in_bytes() == 24
    assert x.copy_to_host_async() is None and x.platform() == "cpu"
    with pytest.raises(NotImplementedError, match="ravel"):
        iter(x.flat)


def test_python_numbers_are_made_of_arrays_of_shape_0_only():
    assert round(jnp.float32(2.567)).dtype == jnp.int32 and float(round(jnp.float32(2.567), 2)) == pytest.approx(2.57)
    for make in (float, int, complex):
        with pytest.raises(TypeError, match="Only scalar arrays"):
            make(jnp.ones((1,)))


@pytest.mark.parametrize("name", ["stack", "concatenate", "vstack", "hstack", "array"])
def test_sequences_of_keys_are_joined(name):
    keys = random.split(random.key(0), 3)
    got = getattr(jnp, name)([keys, keys])
    np.testing.assert_array_equal(random.key_data(got).reshape(-1, 2), np.tile(random.key_data(keys), (2, 1)))


def test_keys_move_as_arrays_do():
    keys, i = random.split(random.key(0), 3), np.arange(3)
    data = random.key_data
    for move in (
        *(lambda x: x[::-1], lambda x: jnp.roll(x, 1), lambda x: jnp.flip(x), lambda x: jnp.tile(x, 2), lambda x: jnp.repeat(x, 2)),
        *(lambda x: jnp.take(x, jnp.array([2, 0])), lambda x: jnp.where(jnp.array([True, False, True]), x, x[::-1])),
        *(lambda x: jnp.expand_dims(x, 0), lambda x: jnp.broadcast_to(x, (2, 3)), lambda x: jnp.reshape(x, (3, 1)), jnp.ravel),
        *(lambda x: x.at[1].set(x[0]), lambda x: x.at[:2].get(), lambda x: jnp.split(x, 3)[1], lambda x: jnp.append(x, x), jnp.asarray),
    ):
        chosen = np.asarray(move(jnp.asarray(i)))
        for f in (move, fgrad.jit(move)):
            np.testing.assert_array_equal(data(f(keys)), np.asarray(data(keys))[chosen])
    assert fgrad.vmap(lambda k: jnp.stack([k, k]))(keys).shape == (3, 2)
    with pytest.raises(TypeError, match="do not mix"):
        jnp.where(True, keys[0], 1.0)


WEAK = (nn.relu6, nn.hard_sigmoid, nn.hard_silu, nn.elu, nn.celu, nn.selu, nn.leaky_relu, nn.sparse_plus, nn.sparse_sigmoid)


@pytest.mark.parametrize("fun", WEAK)
def test_activations_of_integers_are_weakly_typed(fun):
    out = fun(jnp.arange(3))
    assert (out.dtype, out.weak_type) == (np.float32, True)
    assert fun(2.0).weak_type and not fun(jnp.ones(2)).weak_type
    assert (nn.relu(True).dtype, nn.relu(True).weak_type, nn.relu(1.5).weak_type) == (np.int32, True, True)


def test_functions_of_weak_scalars_stay_weak():
    for f in (jnp.degrees, jnp.radians, jnp.i0, lambda x: jnp.logaddexp(x, 1.0), lambda x: jnp.heaviside(x, 1.0)):
        assert f(0.5).weak_type and not f(jnp.float32(0.5)).weak_type


def test_scipy_softmax_is_over_all_axes():
    from fgrad.scipy import special

    x = jnp.arange(4.0).reshape(2, 2)
    np.testing.assert_allclose(special.softmax(x).sum(), 1, rtol=1e-6)
    np.testing.assert_allclose(special.log_softmax(x), jnp.log(special.softmax(x)), rtol=1e-5)
    np.testing.assert_allclose(special.softmax(x, axis=0).sum(0), [1, 1], rtol=1e-6)
    assert (float(special.softmax(2.0)), float(special.log_softmax(2.0))) == (1.0, 0.0)


def test_logsumexp_of_nothing_is_minus_infinity():
    assert nn.logsumexp(jnp.zeros(0)) == -np.inf
    np.testing.assert_array_equal(nn.logsumexp(jnp.zeros((3, 0)), axis=1), [-np.inf] * 3)
    assert nn.logsumexp(jnp.zeros((0, 3)), axis=1, keepdims=True).shape == (0, 1)
    value, sign = nn.logsumexp(jnp.zeros((3, 0)), axis=1, return_sign=True)
    np.testing.assert_array_equal(value, [-np.inf] * 3)
    np.testing.assert_array_equal(sign, [0.0] * 3)


def test_elements_of_an_empty_axis_are_refused():
    x, i = jnp.zeros((0, 3)), jnp.array([0])
    for f in (lambda: x[i], lambda: fgrad.jit(lambda x, i: x[i])(x, 0), lambda: jnp.take(x, i, axis=0), lambda: x.at[i].get(mode="fill")):
        with pytest.raises(IndexError, match="axis 0 with size 0"):
            f()
    assert x[jnp.array([], int)].shape == x.shape and x[:, i].shape == (0, 1)


def test_stages_tell_types_and_take_no_static_arguments():
    f = fgrad.jit(lambda x, n, y: {"a": x * y * n}, static_argnums=1, donate_argnums=0)
    traced = f.trace(jnp.ones(3), 2, y=3.0)
    (info,), options = traced.args_info
    assert (info.shape, info.donated, options["y"].donated, traced.out_info["a"].shape) == ((3,), True, False, (3,))
    lowered = traced.lower()
    compiled = lowered.compile()
    assert compiled.in_tree == lowered.in_tree == traced.in_tree and "mul" in compiled.as_text()
    np.testing.assert_array_equal(compiled(jnp.ones(3), y=2.0)["a"], [4, 4, 4])
    with pytest.raises(TypeError, match="argument x compiled with"):
        compiled(jnp.ones(4), y=2.0)
    with pytest.raises(TypeError, match="input pytree"):
        compiled(jnp.ones(3))


def test_wrong_rules_are_named():
    def rule_of(rule):
        f = fgrad.custom_jvp(lambda x: x)
        f.defjvp(rule)
        return lambda: fgrad.grad(f)(1.0)

    f = fgrad.custom_jvp(lambda x, y: x)
    f.defjvps(lambda t, out, x, y: t)
    cases = [
        (rule_of(lambda p, t: p[0]), TypeError, "must produce a pair"),
        (rule_of(lambda p, t: (p[0], 1)), TypeError, "corresponding shapes and dtypes"),
        (lambda: fgrad.grad(f)(1.0, 2.0), ValueError, "1 rules for 2 arguments"),
        (lambda: fgrad.custom_gradient(lambda x: x)(1.0), TypeError, "pair"),
        (lambda: fgrad.grad(3), TypeError, "callable"),
        (lambda: fgrad.jvp(jnp.sin, (1.0,), (1,)), TypeError, "dtypes must be equal"),
        (lambda: lax.while_loop(lambda c: (c < 3,), lambda c: c + 1, 0), TypeError, "boolean scalar"),
    ]
    for call, kind, message in cases:
        with pytest.raises(kind, match=message):
            call()


def test_symbolic_zeros_reach_rules():
    seen = []

    @fgrad.custom_jvp
    def f(x, y):
        return x * y

    def rule(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        seen.append(type(dy) is fgrad.custom_derivatives.SymbolicZero)
        return x * y, dx * y if seen[-1] else dx * y + x * dy

    f.defjvp(rule, symbolic_zeros=True)
    assert float(fgrad.grad(f)(2.0, 3.0)) == 3.0 and [float(g) for g in fgrad.grad(f, (0, 1))(2.0, 3.0)] == [3.0, 2.0]
    assert seen == [True, False]

    @fgrad.custom_vjp
    def g(x, y):
        return x * y

    g.defvjp(lambda x, y: (x.value * y.value, (x.value, y.value)), lambda r, ct: (ct * r[1], 7.0 * ct), symbolic_zeros=True)
    assert [float(d) for d in fgrad.grad(g, (0, 1))(2.0, 3.0)] == [3.0, 7.0]


def test_losses_of_optim():
    from fgrad import optim

    x, t = jnp.array([[0.5, -1.0, 2.0]]), jnp.array([[1.0, 0.0, 0.0]])
    np.testing.assert_allclose(optim.log_cosh(x), np.log(np.cosh(x)), rtol=1e-5)
    np.testing.assert_allclose(optim.hinge_loss(x, jnp.array([1.0, -1, 1])), [[0.5, 0, 0]])
    np.testing.assert_allclose(optim.cosine_similarity(x, t), [0.5 / np.sqrt(5.25)], rtol=1e-6)
    assert np.isfinite(fgrad.grad(lambda x: optim.cosine_distance(x, t[0], epsilon=1e-3))(jnp.zeros(3))).all()
    np.testing.assert_allclose(optim.kl_divergence(jnp.log(nn.softmax(x)), t), optim.softmax_cross_entropy(x, t), rtol=1e-5)
    np.testing.assert_allclose(optim.generalized_kl_divergence(nn.log_softmax(x), t), optim.softmax_cross_entropy(x, t), rtol=1e-5)
    assert float(optim.safe_softmax_cross_entropy(jnp.array([0.0, -jnp.inf]), jnp.array([1.0, 0.0]))) == 0.0
    p = 1 / (1 + np.exp(-np.asarray(x)))
    np.testing.assert_allclose(
        optim.sigmoid_focal_loss(x, t, alpha=0.25),
        np.where(t == 1, -0.25 * np.log(p) * (1 - p) ** 2, -0.75 * np.log(1 - p) * p**2),
        rtol=1e-4,
    )


def test_lists_are_written_by_indexed_updates():
    x = jnp.zeros(4)
    np.testing.assert_array_equal(x.at[:2].set([1, 2]), [1, 2, 0, 0])
    np.testing.assert_array_equal(x.at[jnp.array([0, 3])].add((1.0, jnp.float32(2))), [1, 0, 0, 2])
    np.testing.assert_array_equal(fgrad.jit(lambda x: x.at[1:3].max([x[0] + 1, 5]))(x), [0, 1, 5, 0])
    np.testing.assert_array_equal(jnp.zeros((2, 2)).at[jnp.array([0, 1]), jnp.array([1, 0])].set([3, 4]), [[0, 3], [4, 0]])


@pytest.mark.parametrize(
    "idx", [True, False, np.True_, (True, 1), (0, True), (..., True), (None, True), (slice(None), False), (True, False)]
)
def test_scalar_masks_add_an_axis(idx):
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    for get in (lambda x: x[idx], fgrad.jit(lambda x: x[idx])):
        np.testing.assert_array_equal(get(jnp.asarray(x)), x[idx])
    want = x.copy()
    want[idx] += 1
    np.testing.assert_array_equal(jnp.asarray(x).at[idx].add(1), want)


def test_lax_operands_by_name():
    x = jnp.arange(3.0)
    assert_same = np.testing.assert_array_equal
    assert_same(lax.sub(y=1.0, x=x), x - 1)
    assert_same(lax.clamp(min=0.5, x=x, max=1.5), [0.5, 1, 1.5])
    assert_same(lax.nextafter(x1=x, x2=x), x)
    assert_same(lax.igamma(1.0, x=x), lax.igamma(1.0, x))
    for bad in (lambda: lax.add(x), lambda: lax.add(x, x=x), lambda: lax.add(x, z=x), lambda: lax.add(x, x, x), lambda: lax.add()):
        with pytest.raises(TypeError, match="operands x, y"):
            bad()


def test_bytes_of_arrays_and_tracers():
    for x in (jnp.arange(3), jnp.arange(3, dtype="int8"), jnp.array(1.5), jnp.array([1 + 2j])):
        assert np.asarray(x.byteswap()).tobytes() == np.asarray(x).byteswap().tobytes()
        assert x.tobytes() == np.asarray(x).tobytes()
        assert x.unsafe_buffer_pointer() == np.asarray(x).__array_interface__["data"][0]
    for name in ("tobytes", "devices", "unsafe_buffer_pointer"):
        with pytest.raises(fgrad.errors.ConcretizationTypeError, match="traced array"):
            fgrad.jit(lambda x, name=name: getattr(x, name)())(1.0)


def test_monitoring():
    heard = []

    def listen(event, *values, **kwargs):
        heard.append((event, kwargs))

    mon = fgrad.monitoring
    try:
        mon.register_event_duration_secs_listener(listen)
        double = fgrad.jit(lambda x: x * 2)
        double(jnp.ones(3)), double(jnp.zeros(3))
        assert [e.split("/")[-1] for e, _ in heard] == ["jaxpr_trace_duration", "backend_compile_duration"]
        assert heard[0][1] == {"fun_name": "<lambda>"}
        mon.unregister_event_duration_listener(listen)
        with pytest.raises(ValueError, match="not registered"):
            mon.unregister_event_duration_listener(listen)
        heard.clear()
        mon.register_event_listener(listen), mon.register_scalar_listener(listen), mon.register_event_time_span_listener(listen)
        (
            mon.record_event("a", k=1),
            mon.record_scalar("b", 2),
            mon.record_event_time_span("c", 0.0, 1.0),
            mon.record_event_duration_secs("d", 1.0),
        )
        assert heard == [("a", {"k": 1}), ("b", {}), ("c", {})]
    finally:
        mon.clear_event_listeners()
    mon.record_event("a")
    assert len(heard) == 3


def test_strings_keys_and_arrays_of_no_rows_are_refused_with_a_message():
    for call, error, match in (
        (lambda: jnp.bfloat16("1.5"), TypeError, "expected a number"),  # ended the process in ml_dtypes
        (lambda: jnp.float8_e4m3("1"), TypeError, "expected a number"),
        (lambda: lax.exp(random.key(0)), TypeError, "not a valid array type"),
        (lambda: jnp.concatenate(jnp.zeros((0, 3))), ValueError, "at least one array"),
        (lambda: jnp.hstack(jnp.zeros((0, 3))), ValueError, "at least one array"),
        (lambda: jnp.fft.ihfft(jnp.zeros(0)), ValueError, "no elements"),
        (lambda: lax.dynamic_slice(jnp.ones((3, 3)), jnp.zeros(3, int), (1, 1)), ValueError, "3 indices for shape"),
        (lambda: lax.dynamic_slice(jnp.ones((3, 3)), jnp.zeros((2, 1), int), (1, 1)), ValueError, "1D sequence"),
        (lambda: lax.dynamic_update_slice(jnp.ones((3, 3)), jnp.ones((1, 1)), jnp.zeros(0, int)), ValueError, "0 indices for shape"),
        (lambda: fgrad.scipy.linalg.expm(jnp.ones((2, 2), jnp.bfloat16)), TypeError, "bfloat16"),
        (lambda: lax.conv(jnp.ones((1, 2, 3)), jnp.ones((1, 2, 3)), (0,), "SAME"), ValueError, "strides must be positive"),
        (lambda: random.key(2**63), OverflowError, "64 bits"),
        (lambda: fgrad.scipy.signal.fftconvolve(jnp.ones((3, 2)), jnp.ones(3)), ValueError, "same dimensionality"),
    ):
        with pytest.raises(error, match=match):
            call()
    assert float(jnp.float32("1.5")) == 1.5


def test_shape_functions_of_numbers_give_arrays():
    for out, dtype in (
        (lax.reshape(2.0, ()), "float32"),
        (lax.squeeze(2, ()), "int32"),
        (lax.transpose(2.0, ()), "float32"),
        (lax.pad(2.0, 0.0, ()), "float32"),
        (lax.expand_dims(2, ()), "int32"),
        (lax.slice(2.0, (), ()), "float32"),
        (lax.reshape(np.ones(3, np.float32), (3,)), "float32"),
    ):
        assert isinstance(out, fgrad.Array) and out.dtype == dtype
    assert lax.reshape(2.0, ()).weak_type


def test_linspace_is_the_nearest_number_and_whole_numbers_stay_whole():
    for lo, hi, n in ((0, 25, 6), (0, 1, 11), (-1.0, 1.0, 101), (0.1, 0.7, 13), (3, 3, 4), (2, 5, 1), (0, 1, 0)):
        for endpoint in (True, False):
            want = np.linspace(lo, hi, n, endpoint)
            np.testing.assert_array_equal(jnp.linspace(lo, hi, n, endpoint), want.astype(np.float32))
            np.testing.assert_allclose(fgrad.jit(lambda a, b: jnp.linspace(a, b, n, endpoint))(lo, hi), want, 3e-7, 1e-7)  # noqa: B023
    for n in (42, 48, 62, 110, 195):  # whose inverse, times themselves, falls short of 1
        for lo, hi in ((0, n - 1), (0, 2 * n - 2), (0.5, n - 0.5)):
            want = np.linspace(lo, hi, n, dtype=int)
            np.testing.assert_array_equal(jnp.linspace(lo, hi, n, dtype=int), want)
            np.testing.assert_array_equal(fgrad.jit(lambda a, b: jnp.linspace(a, b, n, dtype=int))(lo, hi), want)  # noqa: B023
    np.testing.assert_array_equal(jnp.linspace(-3, 3, 4, dtype=jnp.uint8), [0, 0, 1, 3])
    assert np.isfinite(jnp.linspace(jnp.float32(-3e38), jnp.float32(3e38), 1001)).all()
    out, step = jnp.linspace(0, 10, 9, retstep=True)
    assert float(step) == 1.25 and not step.weak_type and not out.weak_type
    assert jnp.linspace(0, 1, 3, dtype=jnp.bfloat16).dtype == jnp.bfloat16


def test_polynomials_of_several_columns_add_by_rows():
    a, b = jnp.array([[2, 3], [4, 5]]), jnp.array([[1, 2]])
    np.testing.assert_array_equal(jnp.polyadd(a, b), [[2, 3], [5, 7]])
    np.testing.assert_array_equal(jnp.polysub(b, a), [[-2, -3], [-3, -3]])
    np.testing.assert_array_equal(jnp.polyadd(jnp.array([1, 2]), 5), [1, 7])
