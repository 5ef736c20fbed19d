"""Arrays beside NumPy, buffers, pickles, threads and processes."""

import copy
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Hashable
from pathlib import Path

import ml_dtypes
import numpy as np
import opt_einsum
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad.dtypes import SUPPORTED


@pytest.fixture
def x():
    return jnp.arange(6.0).reshape(2, 3)


def shares(a, b):
    return np.shares_memory(np.asarray(a), np.asarray(b))


# --- NumPy ----------------------------------------------------------------------------------------------------------


def test_asarray_shares_memory_and_is_read_only(x):
    view = np.asarray(x)
    assert shares(view, x) and not view.flags.writeable and not view.flags.owndata
    assert view.ctypes.data == np.asarray(x).ctypes.data
    with pytest.raises(ValueError):
        view[0, 0] = 1
    with pytest.raises(ValueError):
        view.flags.writeable = True
    assert np.array(x).flags.writeable and not shares(np.array(x), x)


def test_views_share_memory(x):
    assert shares(x.T, x) and shares(np.asarray(x.T), x)
    np.testing.assert_array_equal(np.asarray(x.T), np.asarray(x).T)


def test_view_outlives_its_array():
    view = np.asarray(jnp.arange(1000.0))
    for _ in range(20):
        jnp.zeros(1000) + 1
    np.testing.assert_array_equal(view, np.arange(1000.0))


def test_numpy_input_is_not_changed_and_not_aliased():
    source = np.arange(4, dtype=np.float32)
    a = jnp.array(source)
    source[0] = 9
    assert float(a[0]) == 0
    np.testing.assert_array_equal(np.asarray(fgrad.jit(lambda v: v + 1)(source)), source + 1)


@pytest.mark.parametrize("n", [10, 1 << 17])
def test_asarray_of_numpy_copies_unless_told_not_to(n):
    buffer = np.ones(n, np.float32)
    copied, shared = jnp.asarray(buffer), jnp.asarray(buffer, copy=False)
    trees = fgrad.tree.map(jnp.asarray, [buffer])
    assert n == 10 or shares(shared, buffer)
    buffer[:] = 2
    assert float(copied[0]) == float(trees[0][-1]) == 1
    assert jnp.asarray(copied) is copied and jnp.asarray(copied, copy=False) is copied


def test_array_protocol_arguments(x):
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert np.array(x, copy=None) is not None
    with pytest.raises(ValueError):
        np.asarray(x, dtype=np.int32, copy=False)


@pytest.mark.parametrize("dtype", SUPPORTED, ids=str)
def test_numpy_round_trip(dtype):
    with fgrad.enable_x64():
        source = np.arange(6).reshape(2, 3).astype(dtype)
        for value in (source, source.T, source[:, ::-1], source[:0], source[0, 0]):
            out = np.asarray(jnp.asarray(value))
            assert out.dtype == dtype and out.shape == value.shape
            np.testing.assert_array_equal(out, value)


def test_numpy_functions_take_arrays(x):
    assert isinstance(np.sum(np.asarray(x)), np.floating)
    assert isinstance(np.ones((2, 3), np.float32) * x, fgrad.Array)
    assert isinstance(np.float32(2) * x, fgrad.Array)


# --- buffers and DLPack ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [d for d in SUPPORTED if d != ml_dtypes.bfloat16], ids=str)
def test_buffer_protocol(dtype):
    with fgrad.enable_x64():
        a = jnp.asarray(np.arange(6).reshape(2, 3).astype(dtype))
    view = memoryview(a)
    assert view.readonly and view.shape == (2, 3) and view.itemsize == dtype.itemsize and view.nbytes == 6 * dtype.itemsize
    assert view.tobytes() == a.tobytes() == np.asarray(a).tobytes()
    assert np.dtype(np.asarray(view).dtype) == dtype and shares(np.asarray(view), a)


def test_buffer_of_a_view(x):
    view = memoryview(x.T)
    assert view.shape == (3, 2) and view.strides == (4, 12) and not view.c_contiguous
    np.testing.assert_array_equal(np.asarray(view), np.asarray(x).T)


def test_buffer_refuses(x):
    with pytest.raises(BufferError, match="bfloat16"):
        memoryview(jnp.ones(3, jnp.bfloat16))
    with pytest.raises((TypeError, BufferError, ValueError)):
        np.frombuffer(x, np.float32)[0] = 1


def test_an_exported_buffer_is_not_donated():
    a = jnp.ones(1000)
    view = np.asarray(a)
    fgrad.jit(lambda v: v * 0, donate_argnums=0)(a)
    np.testing.assert_array_equal(view, np.ones(1000))


def test_dlpack(x):
    out = np.from_dlpack(x)
    np.testing.assert_array_equal(out, np.asarray(x))
    assert shares(out, x) and not out.flags.writeable
    assert x.__dlpack_device__() == (1, 0)
    np.testing.assert_array_equal(np.from_dlpack(x.T), np.asarray(x).T)


class _Foreign:
    """Another library's array: what fgrad exports, in either kind of capsule."""

    def __init__(self, x, versioned):
        self.x, self.versioned = x, versioned

    def __dlpack__(self, *, max_version=None, **options):
        if not self.versioned:
            return self.x.__dlpack__()
        return self.x.__dlpack__(max_version=max_version, **options)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("shape", [(), (0, 3), (4, 6)])
def test_dlpack_of_bfloat16(shape, versioned):
    """NumPy knows no bfloat16, other libraries do."""
    a = jnp.arange(float(np.prod(shape))).reshape(shape).astype(jnp.bfloat16)
    for b in (a, a.T):
        out = jnp.from_dlpack(_Foreign(b, versioned))
        assert out.dtype == jnp.bfloat16 and out.shape == b.shape and shares(out, b) == (versioned and b.size > 0)
        np.testing.assert_array_equal(np.asarray(out), np.asarray(b))
    with pytest.raises((RuntimeError, BufferError), match="dtype"):  # not taken for integers; the latter since NumPy 2.5
        np.from_dlpack(a)
    for dtype in (jnp.uint16, jnp.int16, jnp.float16):
        assert jnp.from_dlpack(_Foreign(jnp.ones(3, dtype), versioned)).dtype == dtype


# --- copies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [d for d in SUPPORTED if d.itemsize <= 4], ids=str)
def test_pickle(dtype):
    for a in (jnp.asarray(np.arange(6).reshape(2, 3).astype(dtype)), jnp.zeros((0, 2), dtype), jnp.ones((), dtype)):
        for protocol in (2, pickle.HIGHEST_PROTOCOL):
            b = pickle.loads(pickle.dumps(a, protocol))
            assert type(b) is type(a) and b.aval == a.aval
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@fgrad.jit
def _doubled(v):
    return v * 2


def _times(v, n):
    return jnp.asarray([v] * n)


def test_jitted_functions_are_pickled_and_copied():
    """By name where a module has them, else as the function and the options, without programs."""
    assert float(_doubled(3.0)) == 6 and pickle.loads(pickle.dumps(_doubled)) is _doubled is copy.deepcopy(_doubled)
    times = fgrad.jit(_times, static_argnames="n")
    placed = fgrad.jit(_doubled, out_shardings=jnp.ones(1).sharding)
    for form in (times, fgrad.jit(_times, static_argnums=1), fgrad.jit(fgrad.grad(_doubled)), placed):
        args = (2.0, 3) if form.__wrapped__ is _times else (2.0,)
        want = np.asarray(form(*args))
        for out in (copy.deepcopy(form), copy.copy(form)):
            np.testing.assert_array_equal(np.asarray(out(*args)), want)
    out = pickle.loads(pickle.dumps(times))
    assert out is not times and out(2.0, n=3).shape == (3,) and out(2.0, n=2).shape == (2,)
    local = fgrad.jit(lambda v: v * 3)
    assert float(local(1.0)) == 3 == float(copy.deepcopy({"f": local})["f"](1.0))


def test_pickle_keeps_weak_types_and_trees():
    weak = jnp.asarray(1.0)
    assert weak.weak_type and pickle.loads(pickle.dumps(weak)).weak_type
    tree = {"w": jnp.ones(2), "b": [jnp.zeros(1), 3]}
    back = pickle.loads(pickle.dumps(tree))
    assert fgrad.tree.structure(back) == fgrad.tree.structure(tree)


def test_copy_and_deepcopy(x):
    assert copy.copy(x) is x
    np.testing.assert_array_equal(np.asarray(copy.deepcopy({"x": x})["x"]), np.asarray(x))


# --- Python's protocols ---------------------------------------------------------------------------------------------


def test_sequence_protocol(x):
    assert len(x) == 2 and [r.shape for r in x] == [(3,), (3,)]
    assert [float(v) for v in x[1]] == [3.0, 4.0, 5.0]
    assert 4.0 in x and 7 not in x
    assert [float(v) for v in reversed(jnp.arange(3.0))] == [2.0, 1.0, 0.0]
    a, b = x
    assert isinstance(a, fgrad.Array) and b.shape == (3,)


def test_hash_and_equality(x):
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    seen: list[object] = [x, fgrad.random.key(0)]
    fgrad.jit(lambda t: seen.append(t))(x)
    assert not any(isinstance(v, Hashable) for v in seen)
    assert (x == x).dtype == bool and (x == x).shape == (2, 3) and bool((x == x).all())
    assert (x != x).shape == (2, 3) and not bool((x != x).any())
    assert bool(jnp.float32(1) == 1) and (x == None) is not None  # noqa: E711


def test_conversions():
    assert int(jnp.int32(7)) == 7 and int(jnp.float32(2.9)) == 2 and float(jnp.array([1.5])[0]) == 1.5
    assert complex(jnp.complex64(1 + 2j)) == 1 + 2j and bool(jnp.array(0)) is False
    assert [10, 20, 30][jnp.int32(1)] == 20 and list(range(jnp.int32(3))) == [0, 1, 2]
    assert round(jnp.float32(2.6)) == 3 and jnp.float32(1.5).item() == 1.5 and jnp.arange(3).tolist() == [0, 1, 2]


def test_format():
    v = jnp.float32(3.14159)
    assert f"{v:.3f}" == "3.142" and f"{jnp.int32(5):>4}" == "   5" and f"{jnp.float32(2.0)}" == "2.0" and str(jnp.arange(3)) == "[0 1 2]"
    with pytest.raises(TypeError):
        f"{jnp.arange(3):.2f}"


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: jnp.arange(3.0), "Array([0., 1., 2.], dtype=float32)"),
        (lambda: jnp.arange(3), "Array([0, 1, 2], dtype=int32)"),
        (lambda: jnp.array([True, False]), "Array([ True, False], dtype=bool)"),
        (lambda: jnp.array(1.0), "Array(1., dtype=float32, weak_type=True)"),
        (lambda: jnp.float32(1), "Array(1., dtype=float32)"),
        (lambda: jnp.zeros((0,)), "Array([], shape=(0,), dtype=float32)"),
        (lambda: jnp.zeros((2, 0)), "Array([], shape=(2, 0), dtype=float32)"),
        (lambda: jnp.ones((2, 2), jnp.bfloat16), "Array([[1, 1],\n       [1, 1]], dtype=bfloat16)"),
        (lambda: jnp.array([1 + 2j]), "Array([1.+2.j], dtype=complex64)"),
        (lambda: jnp.array([1.5, jnp.nan, -jnp.inf]), "Array([ 1.5,  nan, -inf], dtype=float32)"),
        (lambda: jnp.arange(2, dtype="uint8"), "Array([0, 1], dtype=uint8)"),
        (lambda: jnp.arange(2000), "Array([   0,    1,    2, ..., 1997, 1998, 1999], dtype=int32)"),
    ],
)
def test_repr(make, text):
    assert repr(make()) == text


# --- threads and processes ------------------------------------------------------------------------------------------


def test_threads_share_one_jitted_function():
    f = fgrad.jit(lambda a, b: jnp.tanh(a @ b).sum(0) * 2)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((n, 32)).astype(np.float32) for n in (8, 64, 200, 8, 64, 200, 8, 64)]
    w = rng.standard_normal((32, 48)).astype(np.float32)
    failures = []

    def work(a):
        want = np.tanh(a.astype(np.float64) @ w).sum(0) * 2
        for _ in range(25):
            got = np.asarray(f(a, w))
            if not np.allclose(got, want, atol=1e-3):
                failures.append(np.abs(got - want).max())

    threads = [threading.Thread(target=work, args=(a,)) for a in inputs]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not failures and not any(t.is_alive() for t in threads)


def test_threads_trace_separately():
    """One thread's trace and settings are not another's."""
    results, ready = {}, threading.Barrier(3, timeout=60)

    def work(name, fun):
        ready.wait()
        for _ in range(30):
            results[name] = fun()

    threads = [
        threading.Thread(target=work, args=("grad", lambda: float(fgrad.grad(lambda v: jnp.sin(v) * v)(1.0)))),
        threading.Thread(target=work, args=("vmap", lambda: np.asarray(fgrad.vmap(lambda v: v * 2)(jnp.arange(3.0))).tolist())),
        threading.Thread(target=work, args=("x64", lambda: _in_x64())),
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert results == {"grad": pytest.approx(np.sin(1) + np.cos(1), rel=1e-6), "vmap": [0.0, 2.0, 4.0], "x64": np.dtype("float64")}


def _in_x64():
    with fgrad.enable_x64():
        return jnp.ones(3).dtype


def _child(queue):
    a = jnp.ones((400, 400))
    queue.put((float((a @ a).sum()), float(jnp.exp(jnp.zeros(300_000)).sum()), fgrad.get_num_threads()))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fork_after_parallel_work_does_not_hang():
    a = jnp.ones((400, 400))
    want = (float((a @ a).sum()), float(jnp.exp(jnp.zeros(300_000)).sum()))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue,))
    child.start()
    try:
        *got, threads = queue.get(timeout=60)
    finally:
        child.kill()
        child.join()
    assert tuple(got) == want and threads == 1


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this platform")
@pytest.mark.parametrize("counted", [False, True])
def test_signals_end_loops_of_slow_turns(counted):
    """A loop whose turns take milliseconds asks for signals from its first turns on."""

    class Rung(Exception):
        pass

    def ring(*_):
        raise Rung

    x = jnp.ones((1200, 1200))
    if counted:
        loop = fgrad.jit(lambda n: fgrad.lax.fori_loop(0, n, lambda i, v: jnp.sin(v), x))
    else:
        more = lambda n: lambda c: c[0] < n + c[1][0, 0] * 0
        loop = fgrad.jit(lambda n: fgrad.lax.while_loop(more(n), lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x))[1])
    start = time.perf_counter()
    loop(20)
    turn = (time.perf_counter() - start) / 20
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        start = time.perf_counter()
        with pytest.raises(Rung):
            loop(10**9)
        assert time.perf_counter() - start < 1 + 100 * turn
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert np.isfinite(np.asarray(loop(2))).all()


# --- libraries of array expressions ---------------------------------------------------------------------------------

_EINOPS = """
import sys
if {first}:
    import einops
import fgrad, fgrad.numpy as jnp, numpy as np
from einops._backends import NumpyBackend
assert not any("einops" in getattr(finder, "__module__", "") for finder in sys.meta_path)
(kind,) = NumpyBackend.__subclasses__()
own = kind()
assert kind.framework_name in sys.modules and own.is_appropriate_type(jnp.ones(2)) and not own.is_appropriate_type(np.ones(2))
assert fgrad.jit(lambda x: x * own.is_appropriate_type(x))(2.0) == 2
assert type(own.from_numpy(np.ones(2))) is type(own.np.tile(jnp.ones(2), 2)) is type(jnp.ones(2))
assert type(own.to_numpy(jnp.ones(2))) is np.ndarray
"""


@pytest.mark.parametrize("first", [True, False])
def test_einops_knows_arrays(tmp_path, first):
    (tmp_path / "einops").mkdir()
    (tmp_path / "einops" / "__init__.py").write_text("from . import _backends")
    (tmp_path / "einops" / "_backends.py").write_text(
        "class NumpyBackend:\n"
        "    def __init__(self):\n        import numpy\n        self.np = numpy\n"
        "    def is_appropriate_type(self, tensor):\n        return isinstance(tensor, self.np.ndarray)\n"
    )
    path = os.pathsep.join([str(tmp_path), str(Path(fgrad.__file__).parents[1])])
    subprocess.run([sys.executable, "-c", _EINOPS.format(first=first)], check=True, env={**os.environ, "PYTHONPATH": path})


def test_opt_einsum_contracts_arrays_and_tracers():
    a, b, c = (fgrad.random.normal(fgrad.random.key(i), (4, 4)) for i in range(3))
    f = lambda a, b, c: opt_einsum.contract("ij,kj,kl->il", a, b, c)
    want = np.asarray(a) @ np.asarray(b).T @ np.asarray(c)
    for out in (f(a, b, c), fgrad.jit(f)(a, b, c)):
        assert isinstance(out, fgrad.Array)
        np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(fgrad.grad(lambda a: f(a, b, c).sum())(a)[0], (np.asarray(b).T @ np.asarray(c)).sum(1), rtol=1e-5, atol=1e-5)


def test_settings_that_a_thread_overrides_are_its_own():
    """Settings are attributes while nobody overrides any: one that another thread overrides meanwhile is as it was here."""
    config, ready, seen = fgrad.config, threading.Barrier(2, timeout=60), []

    def work():
        with config.override("pass_cse", False):
            ready.wait()
            seen.append(config.pass_cse)
            ready.wait()
        seen.append(config.pass_cse)

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    assert config.pass_cse is config.jax_pass_cse is True
    config.update("pass_fuse", False)
    assert config.pass_fuse is False
    ready.wait()
    thread.join()
    assert seen == [False, True] and config.pass_fuse is False
    config.update("pass_fuse", True)
    assert config.pass_fuse is True
