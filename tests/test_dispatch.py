"""The native call path: signatures, settings, donation, scalars, strided and foreign arguments."""

import functools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import nn


def test_one_trace_per_signature():
    traced = []

    @fgrad.jit
    def f(x, y):
        traced.append(1)
        return x + y

    a = jnp.asarray(np.ones(3, np.float32))
    for _ in range(3):
        f(a, a)
        f(a, 1.0)
        f(a, np.ones(3, np.float32))
        f(a, y=a)
    assert len(traced) == 3  # (a, a) and a NumPy array are one signature, a weak scalar another, a keyword a third
    f(a, 2)
    assert len(traced) == 4
    with fgrad.enable_x64():
        f(a, 1.0)
        assert len(traced) == 5
    f(a, 1.0)
    assert len(traced) == 5


def test_results_keep_their_tree():
    x = jnp.ones(2)
    assert type(fgrad.jit(lambda x: (x,))(x)) is tuple
    assert type(fgrad.jit(lambda x: [x, x])(x)) is list
    assert set(fgrad.jit(lambda x: {"a": x, "b": None})(x)) == {"a", "b"}
    assert fgrad.jit(lambda x: ())(x) == ()
    assert fgrad.jit(lambda x: x)(x).shape == (2,)


def test_strided_arguments():
    x = jnp.arange(12.0).reshape(3, 4)
    f = fgrad.jit(lambda x: x * 2)
    np.testing.assert_array_equal(f(x.T), np.asarray(x).T * 2)
    np.testing.assert_array_equal(f(x[:, ::-1]), np.asarray(x)[:, ::-1] * 2)
    np.testing.assert_array_equal(x.T + x.T, np.asarray(x).T * 2)
    np.testing.assert_array_equal(x[::2] * x[1:2], np.asarray(x)[::2] * np.asarray(x)[1:2])


@pytest.mark.parametrize("value", [3, -3, 2.5, True, 1j, 2**40])
def test_python_scalars(value):
    x = jnp.arange(3.0) if value != 2**40 else None
    if x is None:
        with pytest.raises(OverflowError):
            jnp.arange(3) * value
        return
    got = x * value
    np.testing.assert_allclose(got, np.arange(3, dtype=np.float32) * value)
    assert got.dtype == (np.complex64 if value == 1j else np.float32) and not got.weak_type


def test_narrow_integers_check_scalars():
    x = jnp.arange(3, dtype=jnp.uint8)
    assert (x + 3).dtype == np.uint8
    np.testing.assert_array_equal(x + 100, [100, 101, 102])


@pytest.mark.parametrize(
    "make", [jnp.array, jnp.asarray, fgrad.device_put, fgrad.jit(lambda x: x), lambda x: jnp.full((), x), fgrad.grad(lambda x: x)]
)
def test_a_number_made_again_after_donation(make):
    a, b = make(1.0), make(1.0)
    fgrad.jit(lambda x: x + 1, donate_argnums=0)(a)
    assert b + make(1.0) == 2
    a.delete()
    assert b + make(1.0) == 2 and jnp.ones(()) == 1


def test_donated_array_passed_twice_is_not_overwritten():
    f = fgrad.jit(lambda x, y: (x + 1, y * 2), donate_argnums=0)
    x = jnp.asarray(np.arange(4.0, dtype=np.float32))
    a, b = f(x, x)
    np.testing.assert_array_equal(a, [1, 2, 3, 4])
    np.testing.assert_array_equal(b, [0, 2, 4, 6])


def test_many_leaves():
    xs = [jnp.full((2,), float(i)) for i in range(700)]
    f = fgrad.jit(lambda xs: sum(x.sum() for x in xs))
    assert float(f(xs)) == float(f(xs)) == 2 * sum(range(700))


def test_operators_return_not_implemented_for_strangers():
    class Other:
        def __rmul__(self, x):
            return "other"

    assert jnp.ones(2) * Other() == "other"
    with pytest.raises(TypeError):
        jnp.ones(2) * "text"
    with pytest.raises(TypeError):
        jnp.ones(2) + [1, 2]
    with pytest.raises(TypeError, match="unhashable"):
        hash(jnp.ones(2))


def test_reflected_and_inplace_operators():
    x = jnp.asarray(np.array([2.0, 4.0], np.float32))
    np.testing.assert_array_equal(8 / x, [4, 2])
    np.testing.assert_array_equal(1 - x, [-1, -3])
    np.testing.assert_array_equal(2**x, [4, 16])
    np.testing.assert_array_equal(x ** np.float32(2), [4, 16])
    np.testing.assert_array_equal(7 // x, [3, 1])
    np.testing.assert_array_equal(7 % x, [1, 3])
    q, r = divmod(x, 3)
    np.testing.assert_array_equal(q, [0, 1])
    np.testing.assert_array_equal(r, [2, 1])
    x += 1
    np.testing.assert_array_equal(x, [3, 5])
    assert isinstance(np.ones(2, np.float32) * x, fgrad.Array)


def test_settings_reach_eager_operations():
    x = jnp.asarray(np.array([0.0], np.float32))
    assert np.isnan(np.asarray(x / x)).all()
    fgrad.config.update("jax_debug_nans", True)
    try:
        with pytest.raises(FloatingPointError):
            x / x
        with pytest.raises(FloatingPointError):
            fgrad.jit(lambda x: x / x)(x)
    finally:
        fgrad.config.update("jax_debug_nans", False)


def test_views_are_copied_once():
    x = jnp.zeros((3, 4))
    f = fgrad.jit(lambda x: x + 1)
    view = np.asarray(jnp.broadcast_to(jnp.arange(4.0), (3, 4)))
    for _ in range(2):
        np.testing.assert_array_equal(f(x), np.ones((3, 4)))
        assert x.strides_or_none is None
    y = jnp.arange(12.0).reshape(3, 4).T
    held = np.asarray(y)  # somebody looks into it: it stays the view it is
    np.testing.assert_array_equal(f(y), held + 1)
    np.testing.assert_array_equal(held, np.arange(12.0).reshape(3, 4).T)
    assert y.strides_or_none is not None
    base = jnp.arange(6.0)
    tail = base[::2]
    np.testing.assert_array_equal(f(tail), [1, 3, 5])
    np.testing.assert_array_equal(tail[1:], [2, 4])
    np.testing.assert_array_equal(base, np.arange(6.0))
    assert view.shape == (3, 4)


def test_a_donated_view_leaves_its_base_alone():
    base = jnp.arange(6.0)
    f = fgrad.jit(lambda x: x * 2, donate_argnums=0)
    part = base[::2]
    np.testing.assert_array_equal(f(part), [0, 4, 8])
    assert part.is_deleted()
    np.testing.assert_array_equal(base, np.arange(6.0))


def test_operators_tell_recent_calls_apart():
    x, y = jnp.arange(1.0, 4.0), jnp.arange(1, 4)
    for _ in range(3):  # the first call learns, the others know
        assert (x * 2).dtype == np.float32 and (y * 2).dtype == np.int32 and (y * 2.0).dtype == np.float32
        np.testing.assert_array_equal(x * y, [1, 4, 9])
        np.testing.assert_array_equal(2 - x, [1, 0, -1])
        np.testing.assert_array_equal(x - 2, [-1, 0, 1])
        np.testing.assert_allclose(x**2.5, np.arange(1, 4.0) ** 2.5, rtol=1e-6)
        np.testing.assert_array_equal(x**2, [1, 4, 9])
        np.testing.assert_array_equal(x**y, [1, 4, 27])
        assert float(x[0] ** -1) == 1 and float(x[1] ** -1) == 0.5
        with fgrad.enable_x64():
            assert (jnp.arange(3) * 2).dtype == np.int64 and float(jnp.ones(()) * 0.1) == 0.1
            with pytest.raises(OverflowError):
                jnp.arange(3) * 2**70
        with pytest.raises(OverflowError):
            y * 2**31
        assert float(x[0] * 0.1) == np.float32(0.1)
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        x * 2


def test_tracing_inside_of_a_known_call_is_seen():
    x = jnp.arange(3.0)
    for _ in range(3):
        x * x
    assert "mul" in str(fgrad.make_jaxpr(lambda y: y * y)(x))
    np.testing.assert_array_equal(fgrad.vmap(lambda y: x * y)(x), np.outer(np.arange(3.0), np.arange(3.0)).astype(np.float32))


def test_operators_in_threads():
    """Each thread has its own trace and settings."""

    def work(i):
        x = jnp.full((5,), float(i))
        for _ in range(200):
            assert float((x * 2 + 1)[0]) == 2 * i + 1
            if i % 2:
                with fgrad.enable_x64():
                    assert jnp.arange(2.0).dtype == np.float64
            else:
                assert (x * 1.5).dtype == np.float32 and jnp.arange(2.0).dtype == np.float32
                assert float(fgrad.grad(lambda y: (y * y).sum())(x)[0]) == 2 * i

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(8)))


def test_numpy_arguments():
    f, same = fgrad.jit(lambda x: x * 2), fgrad.jit(lambda x: x)
    for n in (
        np.arange(4, dtype=np.float32),
        np.arange(4.0),
        np.arange(4),
        np.arange(8, dtype=np.float32)[::2],
        np.float32([1, 2])[:, None],
    ):
        np.testing.assert_array_equal(f(n), n * 2)
    n = np.arange(4, dtype=np.float32)
    out, copy, alone = same(n), f(n), f(np.float32(3))
    n[0] = 7
    assert float(out[0]) == 0 and float(copy[0]) == 0 and float(alone) == 6  # no result shares memory with an argument
    np.testing.assert_array_equal(f(np.frombuffer(b"\0" + n.tobytes(), np.float32, offset=1)), n * 2)  # not aligned
    assert f(np.ones((0, 3), np.float32)).shape == (0, 3)
    for _ in range(2):
        with pytest.raises(TypeError):
            f(np.array(["a"]))
    donated = fgrad.jit(lambda x: x + 1, donate_argnums=0)
    donated(n)
    assert n[1] == 1


@pytest.mark.parametrize(
    "dtype", [np.bool_, np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.float16, np.float32, np.complex64]
)
def test_scalars_of_every_dtype(dtype):
    x = jnp.asarray(np.array([0, 1, 3], dtype))
    want = np.array([0, 1, 3], dtype)
    for got, value in zip(x, want):
        assert got.item() == value.item() and type(got.item()) is type(value.item())
        assert bool(got) == bool(value) and complex(got) == complex(value)
        if dtype is not np.complex64:
            assert float(got) == float(value) and int(got) == int(value)
    assert [v.shape for v in jnp.ones((2, 3))] == [(3,), (3,)]
    with pytest.raises(TypeError):
        float(x)
    if np.dtype(dtype).kind in "iu":
        assert [10, 20, 30, 40][x[2]] == 40
    else:
        with pytest.raises(TypeError):
            [1][x[0]]


def test_a_compiled_program_tells_its_peak_before_it_runs():
    def f(x, y):
        return x + y @ y, jnp.sum(x)

    x, y = jnp.ones((64, 64)), jnp.ones((64, 64))
    kept = fgrad.jit(f).lower(x, y).compile().memory_analysis()
    donated = fgrad.jit(f, donate_argnums=0).lower(x, y).compile().memory_analysis()
    matrix = 64 * 64 * 4
    assert kept["argument_bytes"] == 2 * matrix and kept["output_bytes"] == matrix + 4 and kept["alias_bytes"] == 0
    assert kept["peak_bytes"] == kept["temp_bytes"] + 3 * matrix + 4
    assert donated["alias_bytes"] == matrix and donated["peak_bytes"] == donated["temp_bytes"] + 2 * matrix + 4


def test_typed_keys_and_static_values_are_told_apart():
    key = fgrad.random.key(3)
    words = fgrad.random.key_data(key)
    same = fgrad.jit(lambda k: k)
    for _ in range(2):
        assert same(key).dtype == key.dtype and same(words).dtype == np.uint32
        assert same(key).shape == () and same(words).shape == (2,)
    draw = fgrad.jit(fgrad.random.uniform, static_argnums=(1, 2))
    for _ in range(2):
        np.testing.assert_array_equal(draw(key, (3,)), fgrad.random.uniform(words, (3,)))
        assert draw(key, (3,), np.float16).dtype == np.float16 and draw(key, (2,)).shape == (2,)

    @functools.partial(fgrad.jit, static_argnums=(0, 2))
    def power(n, x, m):
        return x**n * m

    x = jnp.arange(3.0)
    for _ in range(2):
        np.testing.assert_array_equal(power(2, x, 3), [0, 3, 12])
        np.testing.assert_array_equal(power(3, x, 3), [0, 3, 24])
        np.testing.assert_array_equal(power(2, x, 1), [0, 1, 4])
        np.testing.assert_array_equal(power(2, x, m=3), [0, 3, 12])
        with pytest.raises(ValueError, match="Non-hashable"):
            power([2], x, 3)
    pair = fgrad.jit(lambda k, n: fgrad.random.split(k, 2)[n])
    np.testing.assert_array_equal(fgrad.random.key_data(pair(key, 1)), fgrad.random.split(words)[1])
    strided = fgrad.random.split(key, 4)[::2]
    np.testing.assert_array_equal(fgrad.random.key_data(same(strided)), fgrad.random.split(words, 4)[::2])


def test_operators_take_numpy_arrays():
    x = jnp.arange(3.0)
    for n in (
        np.arange(3, dtype=np.float32),
        np.arange(3.0),
        np.arange(3),
        np.arange(6, dtype=np.float32)[::2],
        np.ones((2, 1), np.float32),
    ):
        for _ in range(3):
            np.testing.assert_array_equal(x * n, np.arange(3, dtype=np.float32) * n)
            np.testing.assert_array_equal(n - x, n - np.arange(3, dtype=np.float32))
            assert (x * n).dtype == np.float32 and type(n - x) is type(x)
            np.testing.assert_array_equal(jnp.maximum(n, x), np.maximum(n, np.arange(3)))
    n = np.ones(3, np.float32)
    kept = [jnp.add(n, 0), jnp.positive(n), n * jnp.float32(1), jnp.array(n), jnp.asarray(np.arange(3)) + 0]
    n[:] = 7
    for got in kept[:4]:
        np.testing.assert_array_equal(got, [1, 1, 1])
    with pytest.raises(TypeError):
        x * np.array(["a", "b", "c"])
    with pytest.raises(TypeError, match="float0"):
        x * np.zeros(3, fgrad.dtypes.float0)


def test_numbers_become_arrays():
    assert jnp.array([1, 2]).dtype == np.int32 and jnp.array([1.5, 2.0]).dtype == np.float32 and jnp.array([1, 2.5]).dtype == np.float32
    assert jnp.array([True, False]).dtype == np.bool_ and jnp.array([]).dtype == np.float32 and jnp.array((3, 4), jnp.int8).dtype == np.int8
    with pytest.raises(OverflowError):
        jnp.array([2**31, 1])
    with fgrad.enable_x64():
        assert jnp.array([2**31, 1]).dtype == np.int64 and float(jnp.array([0.1])[0]) == 0.1
        assert jnp.zeros(2).dtype == np.float64
    for dtype in (np.bool_, np.int8, np.uint32, np.float16, jnp.bfloat16, np.float32, np.complex64):
        np.testing.assert_array_equal(np.asarray(jnp.full((2, 3), 2, dtype)), np.full((2, 3), 2, dtype))
        assert jnp.ones((0, 2), dtype).shape == (0, 2)
    assert jnp.zeros(1 << 20)[-1] == 0 and float(jnp.sum(jnp.ones((1 << 9, 1 << 7)))) == 1 << 16
    with pytest.raises((TypeError, ValueError)):
        jnp.zeros((-1, 2))


COMPOSED = {
    "take": lambda x, m, i: jnp.take(x, i),
    "take scalar": lambda x, m, i: jnp.take(m, 1, axis=1),
    "take clip": lambda x, m, i: jnp.take(m, i, axis=0, mode="clip"),
    "trace": lambda x, m, i: jnp.trace(m, 1),
    "diag": lambda x, m, i: (jnp.diag(x, -1), jnp.diag(m, 1), jnp.diagonal(m, -1)),
    "tril": lambda x, m, i: (jnp.tril(m), jnp.triu(i.reshape(2, 2), 1)),
    "roll": lambda x, m, i: (jnp.roll(m, 1), jnp.roll(m, (1, -1), (0, 1)), jnp.roll(x, 2)),
    "tile": lambda x, m, i: (jnp.tile(x, (2, 2)), jnp.repeat(m, 2, axis=1), jnp.repeat(i, 3)),
    "quantiles": lambda x, m, i: (jnp.quantile(m, 0.3, axis=0), jnp.percentile(x, 40), jnp.median(m, 1), jnp.nanmedian(i)),
    "differences": lambda x, m, i: (jnp.diff(m, 2), jnp.diff(i > 1), jnp.ediff1d(i), jnp.gradient(x), jnp.gradient(m, 2.0, axis=1)),
    "integral": lambda x, m, i: (jnp.trapezoid(x), jnp.trapezoid(m, dx=0.5, axis=0), jnp.trapezoid(x, jnp.cumsum(x))),
    "convolve": lambda x, m, i: (jnp.convolve(x, m[0], "same"), jnp.correlate(i, i), jnp.interp(x, jnp.sort(x), x)),
    "polyval": lambda x, m, i: (jnp.polyval(x, 2.0), jnp.polyval(i, x), jnp.sinc(x), jnp.unwrap(x * 5)),
    "nan": lambda x, m, i: (jnp.nansum(m, 0), jnp.nanmax(i), jnp.nanmean(m, 1), jnp.nanvar(x), jnp.nanargmin(x), jnp.nancumsum(m, 1)),
    "einsum": lambda x, m, i: (jnp.einsum("ij,kj->ik", m, m), jnp.einsum("ii->i", m[:, :3]), jnp.einsum("i,ij,j->", x[:3], m, x)),
    "floats": lambda x, m, i: (*jnp.frexp(m), *jnp.frexp(i), *jnp.modf(x * 3), jnp.imag(m), jnp.imag(i)),
    "questions": lambda x, m, i: (jnp.iscomplex(x), jnp.isreal(i), jnp.isposinf(1 / i), jnp.isneginf(-1 / i), jnp.isneginf(i)),
    "sorted": lambda x, m, i: (jnp.partition(m, 1, axis=0), jnp.argpartition(x, 2), jnp.sort_complex(x), *jnp.unravel_index(i, (2, 2))),
    "one_hot": lambda x, m, i: (nn.one_hot(i, 5), nn.one_hot(i, 3, dtype=np.int32, axis=0), nn.one_hot(2, 4)),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_functions_of_several_operations_are_one_program_and_what_jit_gives(name):
    rng = np.random.default_rng(0)
    args = [jnp.asarray(v) for v in (rng.random(4, np.float32), rng.random((3, 4), np.float32), np.arange(4, dtype=np.int32))]
    want = fgrad.tree.leaves(fgrad.jit(COMPOSED[name])(*args))
    for _ in range(2):
        got = fgrad.tree.leaves(COMPOSED[name](*args))
        assert [x.aval for x in got] == [x.aval for x in want]
        for a, b in zip(got, want):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_functions_of_several_operations_are_eager():
    names = "frexp modf imag iscomplex isreal isposinf isneginf partition argpartition sort_complex take".split()
    assert {type(getattr(jnp, name)) for name in names} == {type(jnp.take)}


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.complex64, np.uint8, np.bool_])
def test_arrays_of_numpy_become_arrays_of_their_own(dtype):
    n = np.arange(6).reshape(2, 3).astype(dtype)
    for make in (jnp.asarray, jnp.array):
        for given in (n, n.T, n[::-1], n.astype(n.dtype.newbyteorder()), n[:0]):
            x = make(given)
            np.testing.assert_array_equal(x, given)
            assert x.dtype == dtype and not np.shares_memory(np.asarray(x), given)
    assert jnp.asarray(np.arange(3)).dtype == np.int32 and jnp.asarray(np.float64(2)).dtype == np.float32
    with pytest.raises(ValueError, match="masked"):
        jnp.asarray(np.ma.masked_array(n))


def test_trees_of_arguments_are_told_apart():
    """Each structure of the same leaves compiles for itself; the order in which a dictionary was filled does not count."""
    traced = []

    @fgrad.jit
    def f(*args, **kwargs):
        traced.append(1)
        return args, kwargs

    a, b = jnp.zeros(2), jnp.ones(2)
    trees = [
        ((a, b), {}),
        (((a, b),), {}),
        (([a, b],), {}),
        (([a], b), {}),
        ((a, [b]), {}),
        ((a, b, None), {}),
        ((a, None, b), {}),
        (({"a": a, "b": b},), {}),
        (({"a": a, "c": b},), {}),
        (({1: a, 2: b},), {}),
        (({"a": [a, {}], "b": (b, ())},), {}),
        ((), {"a": a, "b": b}),
        ((a,), {"b": b}),
    ]
    for _ in range(2):
        for args, kwargs in trees:
            got = f(*args, **kwargs)
            assert fgrad.tree.structure(got) == fgrad.tree.structure((args, kwargs))
            for x, y in zip(fgrad.tree.leaves(got), fgrad.tree.leaves((args, kwargs))):
                np.testing.assert_array_equal(x, y)
    assert len(traced) == len(trees)
    np.testing.assert_array_equal(f({"b": b, "a": a})[0][0]["b"], b)
    assert len(traced) == len(trees)
    nested = a
    for _ in range(200):
        nested = [nested]
    assert fgrad.tree.structure(f(nested)[0][0]) == fgrad.tree.structure(nested)


def test_donation_out_of_a_dictionary():
    step = fgrad.jit(lambda p: {k: v + 1 for k, v in p.items()}, donate_argnums=0)
    p = {"w": jnp.zeros(3), "b": jnp.ones(2)}
    for _ in range(3):
        old, p = p, step(p)
        assert old["w"].is_deleted() and old["b"].is_deleted()
    np.testing.assert_array_equal(p["w"], [3, 3, 3])
    np.testing.assert_array_equal(p["b"], [4, 4])


def test_equal_keyword_values_of_other_types_are_other_calls():
    x = np.array([3, -2, 4], np.int32)
    assert [jnp.diff(x, prepend=v).dtype for v in (1, 1.0, np.float32(1), True)] == [np.int32, np.float32, np.float32, np.int32]
    assert [jnp.unwrap(x, period=v).dtype for v in (1, 1.0)] == [np.int32, np.float32]
    jnp.sum(x, axis=0)
    with pytest.raises(TypeError):
        jnp.sum(x, axis=0.0)


def test_equal_values_within_tuples_and_zeros_of_both_signs_are_other_calls():
    x, i = jnp.array([1.0, np.nan]), jnp.array([[1, 2, 3]])
    for v in (0.0, -0.0, np.float32(0), np.float32(-0.0)):
        outs = [jnp.nan_to_num(x, nan=v)[1], jnp.pad(x, 1, constant_values=v)[0], x.at[jnp.array([9])].get(mode="fill", fill_value=v)[0]]
        assert [bool(np.signbit(o)) for o in outs] == [bool(np.signbit(v))] * 3
    jnp.sum(i, axis=(0,)), jnp.pad(i[0], ((0, 0),)), jnp.expand_dims(i, (0,)), jnp.flip(i, (0,))
    for f in (
        lambda: jnp.sum(i, axis=(0.0,)),
        lambda: jnp.pad(i[0], ((0.0, 0.0),)),
        lambda: jnp.expand_dims(i, (0.0,)),
        lambda: jnp.flip(i, (0.0,)),
        lambda: jnp.broadcast_to(i, (1.0, 3)),
        lambda: jnp.reshape(i, (1.0, 3)),
    ):
        with pytest.raises(TypeError):
            f()


def test_eager_functions_as_methods():
    """Methods are called without being bound; what binds them, names arguments or passes many gives the same."""
    x = jnp.arange(24.0)
    bound = x.reshape
    for shape in ((24,), (4, 6), (2, 3, 4), (1, 2, 3, 4), (-1, 8), (2, 2, 2, 3, 1)):
        for _ in range(2):
            want = np.arange(24.0, dtype=np.float32).reshape(shape)
            for out in (x.reshape(*shape), x.reshape(shape), bound(shape), type(x).reshape(x, *shape)):
                np.testing.assert_array_equal(out, want)
    y = x.reshape(2, 3, 4)
    assert y.transpose(2, 0, 1).shape == y.transpose((2, 0, 1)).shape == (4, 2, 3) and y.transpose().shape == (4, 3, 2)
    assert y.sum(axis=1).shape == y.sum(1).shape == jnp.sum(a=y, axis=1).shape == (2, 4)
    assert y.sum(1, keepdims=True).shape == (2, 1, 4) and jnp.sum.__call__(y) == jnp.sum(*[y], **{}) == y.sum()
    with pytest.raises(TypeError):
        jnp.sin()
    with pytest.raises(TypeError, match="nope"):
        x.sum(nope=1)


def test_calls_by_name_and_of_three_arrays_are_told_apart():
    x = jnp.arange(24.0).reshape(2, 3, 4)
    m = np.asarray(x)
    for _ in range(3):
        for axis in (0, 1, 2, -1, None, (0, 2)):
            for keep in (False, True):
                want = m.sum(axis=axis, keepdims=keep)
                for out in (x.sum(axis=axis, keepdims=keep), x.sum(axis, keepdims=keep), jnp.sum(x, keepdims=keep, axis=axis)):
                    np.testing.assert_array_equal(out, want, strict=True)
        assert x.sum(dtype=jnp.int32).dtype == jnp.int32 and x.sum(dtype=jnp.float32).dtype == jnp.float32
        np.testing.assert_array_equal(jnp.clip(x, min=3), np.clip(m, 3, None))
        np.testing.assert_array_equal(jnp.clip(x, max=3), np.clip(m, None, 3))
        np.testing.assert_array_equal(jnp.clip(x, 3.0, m[0, 0, 0]), np.clip(m, 3, 0))
        np.testing.assert_array_equal(jnp.where(x > 3, x, 0), np.where(m > 3, m, 0))
        np.testing.assert_array_equal(jnp.where(m > 3, 1.0, x), np.where(m > 3, 1, m))
        assert jnp.where(x > 3, 1, 2).dtype == jnp.int32 and jnp.where(x > 3, 1.0, 2).dtype == jnp.float32
        for _ in range(2):  # made anew at each call: not the string that a call was known by
            np.testing.assert_array_equal(jnp.sum(x, **{"".join(["ax", "is"]): 1}), m.sum(1))
        with pytest.raises(TypeError):
            x.sum(axis=1.0)
        v, i = jnp.arange(4.0), jnp.array([0, 2, 2])
        for at, set, add in (
            (v.at[i], [9, 1, 9, 3], [9, 1, 20, 3]),
            (v.at[v > 1], [0, 1, 9, 9], [0, 1, 11, 12]),
        ):
            np.testing.assert_array_equal(at.set(9.0), set)
            np.testing.assert_array_equal(at.add(9.0), add)
            np.testing.assert_array_equal(at.set(9), set)
        np.testing.assert_array_equal(v.at[i + 3].set(9.0, mode="clip"), [0, 1, 2, 9])
        np.testing.assert_array_equal(v.at[i + 3].set(9.0, mode="".join(["dr", "op"])), [0, 1, 2, 9])
        np.testing.assert_array_equal(v.at[i + 3].add(1.0, mode="".join(["cl", "ip"])), [0, 1, 2, 6])
        np.testing.assert_array_equal(v.at[i + 3].add(1.0, mode="drop"), [0, 1, 2, 4])


def test_numpy_indices():
    x = jnp.arange(12.0).reshape(4, 3)
    m = np.asarray(x)
    for _ in range(2):
        for i in (np.array([0, 2]), np.array([[3, -1]]), np.array([1], np.uint8), np.zeros(0, int), np.array(2), np.arange(4)[::2]):
            np.testing.assert_array_equal(x[i], m[i])
        np.testing.assert_array_equal(x[np.array([7, -9])], m[[3, 0]])
        np.testing.assert_array_equal(x[np.array([True, False, True, True])], m[[0, 2, 3]])
        np.testing.assert_array_equal(fgrad.grad(lambda x: (x[np.array([1, 1])] ** 2).sum())(x)[1], 4 * m[1])
