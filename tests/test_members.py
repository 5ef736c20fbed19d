"""Scans that run in parts of a batch: the values of the whole loop, the same bits on any number of threads."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax, nn, random
from fgrad._kernels.gemm import uses_amx
from fgrad.control import members

T, B, H = 5, 8, 6
_count = members._count
rng = np.random.default_rng(0)


def make(*shape):
    return jnp.asarray(rng.standard_normal(shape).astype(np.float32))


A = {
    "w": make(H, H), "square": make(B, B), "h": make(B, H), "c": make(B), "s": make(), "acc": make(H, H), "m": make(B, H),
    "wide": make(H, B), "tall": make(B, H, 3),
    "xs": make(T, B, H), "ks": make(T, H), "i": jnp.asarray(rng.integers(0, H, (T, B)).astype(np.int32)),
    "keys": random.split(random.PRNGKey(0), B),
}  # fmt: skip


def state(f):
    """A scan of h alone, which f steps on; h of each step is stacked."""

    def loop(a):
        return lax.scan(lambda h, t: (lambda h: (h, h))(jnp.clip(f(a, h, *t), -3, 3)), a["h"], (a["xs"], a["ks"], a["i"]))

    return loop


def two_carries(a):
    def step(carry, x):
        h, c = carry
        c = 0.5 * c + h.sum(-1)
        return (jnp.tanh(h + c[:, None] * x), c), (c, jnp.argmax(h, 1))

    return lax.scan(step, (a["h"], a["c"]), a["xs"], reverse=True)


def counter(a):
    """Carries and results that have no batch: each part counts for itself."""

    def step(carry, x):
        h, n, k = carry
        return (h * jnp.cos(n * 0.1) + x, n + 1, k * 0.5), (h[:, 0], n, k)

    return lax.scan(step, (a["h"], jnp.int32(3), a["ks"][0]), a["xs"])


def sums(a):
    """What is added up over the batch, in carries and in results."""

    def step(carry, x):
        h, s, acc, n = carry
        h = jnp.tanh(h @ a["w"] + x)
        loss = jnp.mean((h - x) ** 2)
        return (h, s + 2 * loss - h.sum() / 7, acc - (h.T @ x).T, n + (h > 0).sum()), (loss, -h.sum(0), h.T @ x)

    return lax.scan(step, (a["h"], a["s"], a["acc"], jnp.int32(0)), a["xs"])


def square_sums(a):
    """A sum whose first axis has the batch's size too."""

    def step(carry, x):
        h, acc = carry
        h = jnp.tanh(h + x)
        return (h, acc + jnp.einsum("bi,bj,j->i", h, x, jnp.ones(H))[:, None] * jnp.ones((H, H))), None

    return lax.scan(step, (a["h"][:H], jnp.zeros((H, H))), a["xs"][:, :H])


def transposed(a):
    """Members along the last axis of what is scanned, closed over and stacked."""

    def step(h, x):
        h = jnp.tanh(h + x.T * a["wide"].T)
        return h, (h.T, (h.T * 2)[:, None], (h * h).sum(0))

    return lax.scan(step, a["h"], jnp.swapaxes(a["xs"], 1, 2))


def table(a):
    """A table of each member, updated and read at an index of its own."""

    def step(t, xs):
        x, i = xs
        t = fgrad.vmap(lambda t, x, i: t.at[i].add(x[:3]))(t, x, i)
        return t, fgrad.vmap(lambda t, i: t[i])(t, i)

    return lax.scan(step, a["tall"], (a["xs"], a["i"]))


def loops_inside(a):
    """Loops in the body, over steps and over columns, with results and constants of their own."""

    def step(carry, x):
        h, n = carry
        h, (norms, turned) = lax.scan(lambda h, k: (jnp.tanh(h @ a["w"] + k * x * a["m"]), (h.sum(-1), h.T)), h, a["ks"])
        c, each = lax.scan(lambda c, v: (0.5 * c + v, c * v), norms[0] * n, h.T, reverse=True)
        h = lax.fori_loop(0, 3, lambda i, h: 0.9 * h + i * c[:, None], h)
        return (jnp.clip(h + turned[1].T, -2, 2), n + 1), (each, norms, (h * h).sum(0))

    return lax.scan(step, (a["h"], 0), a["xs"])


def numbers_for_all(a):
    """Random numbers from a key that members share are made before the loop."""
    keys = random.split(random.PRNGKey(1), 40)
    return lax.scan(lambda h, k: (0.9 * h + random.normal(k, (B, H)), h[:, 0]), a["h"], keys)


def chains(a):
    def chain(key, x):
        def step(x, k):
            a, b = random.split(k)
            y = x + random.normal(a, (H,))
            return jnp.where(random.uniform(b) < 0.5, y, x), x[0]

        return lax.scan(step, x, random.split(key, T))

    return fgrad.vmap(chain)(a["keys"], a["h"])


STEPS = {
    "products": lambda a, h, x, k, i: jnp.tanh(h @ a["w"] + (a["w"] @ x[..., None])[..., 0]),
    "batched products": lambda a, h, x, k, i: jnp.einsum("bij,bj->bi", h[:, :, None] * x[:, None], x) - (h[:, None] @ x[..., None])[:, 0],
    "constants cut": lambda a, h, x, k, i: h * a["m"] + k,
    "constants cut and whole": lambda a, h, x, k, i: h * a["m"] + a["m"][0] + x[0] + lax.broadcasted_iota(jnp.float32, (B, H), 0),
    "norms": lambda a, h, x, k, i: nn.softmax(h) + nn.log_softmax(x) + nn.logsumexp(h, -1, keepdims=True) + nn.standardize(h),
    "columns": lambda a, h, x, k, i: jnp.cumsum(h, 1) * 0.1 + jnp.sort(x, 1) + jnp.max(h, 1)[:, None] + jnp.argmin(x, 1)[:, None],
    "pieces": lambda a, h, x, k, i: jnp.concatenate([h[:, 2:], x[:, :1], *jnp.split(h, (3, 5), 1)[1:2], h[:, ::-1][:, 3:4]], 1)[:, :H],
    "pads": lambda a, h, x, k, i: jnp.pad(h[:, :-1], ((0, 0), (1, 0)), constant_values=0.5) + lax.broadcasted_iota(jnp.float32, (B, H), 1),
    "turned": lambda a, h, x, k, i: (h.reshape(B, 2, 3).transpose(1, 2, 0) * jnp.ones((2, 3, 1))).transpose(2, 1, 0).reshape(B, H) + x,
    "taken": lambda a, h, x, k, i: jnp.take_along_axis(h, i[:, None], 1) + a["w"][i] + x[:, jnp.array([1, 0, 2, 5, 4, 3])],
    "windows": lambda a, h, x, k, i: lax.dynamic_update_slice(h, x[:, :2], (0, 3)) + lax.dynamic_slice(x, (0, 1), (B, 1)),
    "numbers": lambda a, h, x, k, i: random.normal(random.PRNGKey(1), (H,)) * jnp.nextafter(-h, x) + x.view("int32").view("float32"),
    "systems": lambda a, h, x, k, i: (
        lambda c: lax.linalg.triangular_solve(c, x[..., None], left_side=True, lower=True)[..., 0] + c[:, -1]
    )(lax.linalg.cholesky(jnp.eye(H) * 20 + h[:, :, None] * h[:, None])),
    "convolutions": lambda a, h, x, k, i: lax.conv(h[:, None], a["w"][:1, None, :3], (1,), "SAME")[:, 0] + x,
    "calls": lambda a, h, x, k, i: fgrad.jit(nn.relu)(h) + nn.silu(x),
}  # fmt: skip
LOOPS = {k: state(f) for k, f in STEPS.items()}
LOOPS |= {f.__name__: f for f in (two_carries, counter, sums, square_sums, transposed, table, loops_inside, numbers_for_all, chains)}


@pytest.fixture
def parts(monkeypatch):
    """Any scan of a batch goes in two parts; the list that is given tells of how many parts each had."""
    made = []
    whole = members._parts

    def spy(*args):
        out = whole(*args)
        made.append(out.number)
        return out

    monkeypatch.setattr(members, "_count", lambda n, *_: next((k for k in (4, 2, 3) if n % k == 0), 1))
    monkeypatch.setattr(members, "_parts", spy)
    monkeypatch.setattr(members, "LEAST", 1)
    return made


def leaves(tree):
    return [np.asarray(x) for x in fgrad.tree.leaves(tree)]


def on_threads(f, args):
    """The results, of one thread and of two."""
    threads = fgrad.get_num_threads()
    try:
        run, out = fgrad.jit(lambda a: f(a)), []
        for n in (1, 2):
            fgrad.set_num_threads(n)
            out.append(leaves(run(args)))
        return out
    finally:
        fgrad.set_num_threads(threads)


def check(f, args, parts, count):
    with fgrad.config.override("pass_members", False):
        want = leaves(fgrad.jit(lambda a: f(a))(args))
    assert not parts
    one, two = on_threads(f, args)
    assert len(parts) >= count
    for w, a, b in zip(want, one, two, strict=True):
        assert a.dtype == w.dtype and a.shape == w.shape and a.tobytes() == b.tobytes()
        np.testing.assert_allclose(a, w, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", LOOPS)
def test_parts_compute_what_the_loop_does(name, parts):
    check(LOOPS[name], A, parts, 1)


@pytest.mark.parametrize("name", ["products", "constants cut", "norms", "two_carries", "sums", "table", "loops_inside", "pieces"])
def test_derivatives_go_in_parts(name, parts):
    floats = {k: v for k, v in A.items() if v.dtype.kind == "f"}

    def loss(a):
        return sum((x * x).mean() for x in fgrad.tree.leaves(LOOPS[name]({**A, **a})) if x.dtype.kind == "f")

    check(fgrad.grad(loss), floats, parts, 2)


MIXED = {
    "the mean over the batch": lambda a, h, x, k, i: h - h.mean(0),
    "its neighbour": lambda a, h, x, k, i: jnp.roll(h, 1, 0) + x,
    "a product over the batch": lambda a, h, x, k, i: a["square"] @ h,
    "one member": lambda a, h, x, k, i: h + h[0],
    "a running sum": lambda a, h, x, k, i: jnp.cumsum(h, 0) * 0.1,
    "an index among members": lambda a, h, x, k, i: h[i],
    "a half of them": lambda a, h, x, k, i: h.at[: B // 2].add(x[: B // 2]),
    "numbers of a state": lambda a, h, x, k, i: h + random.normal(random.PRNGKey((h[0, 0] * 9).astype(int)), (B, H)),
    "a loop that mixes": lambda a, h, x, k, i: lax.fori_loop(0, 2, lambda i, h: h - h.mean(0), h),
    "a branch": lambda a, h, x, k, i: lax.cond(k[0] > 0, lambda h: h @ a["w"] @ a["w"] @ a["w"], jnp.sin, h),
}


@pytest.mark.parametrize("name", MIXED)
def test_members_that_know_of_each_other_stay_together(name, parts):
    f = state(MIXED[name])
    out = leaves(fgrad.jit(f)(A))
    assert not parts
    with fgrad.disable_jit():
        want = leaves(f(A))
    for a, w in zip(out, want, strict=True):
        np.testing.assert_allclose(a, w, rtol=1e-4, atol=1e-5)


def test_results_are_stacked_in_an_empty_and_in_a_short_loop(parts):
    for n in (0, 1, 2):
        a = {**A, "xs": A["xs"][:n], "ks": A["ks"][:n], "i": A["i"][:n]}
        last, ys = fgrad.jit(LOOPS["products"])(a)
        assert ys.shape == (n, B, H) and (n == 0 or (ys[-1] == last).all())
    assert parts == [4]


def test_a_part_works_as_long_as_it_is_worth():
    """Parts are even in number where they can be, and none where a step is little work."""
    few, much = (1e3, 100, 0, 0, 1000, None), (1e5, 300, 0, 0, 60_000, None)
    assert members._count(1000, 4, 10, few) == 1  # not long enough
    assert members._count(1000, 4, 1000, few) == 2
    assert members._count(999, 4, 1000, few) == 1
    assert members._count(64, 512, 100, much) == 16
    assert members._count(63, 512, 100, much) == 9
    assert members._count(64, 512, 100, (1e5, 300, 1e5, 0, 60_000, None)) == 1  # each part would do it all
    assert members._count(64, 512, 100, (1e5, 300, 0, 1 << 18, 60_000, None)) == 4  # 16 rows a product
    assert members._count(64, 512, 100, (1e5, 300, 0, 1 << 24, 60_000, None)) == 1  # matrices that fill the cache
    assert members._count(64, 512, 100, (1e5, 300, 0, 0, 400, None)) == 1  # flat code
    assert members._count(64, 512, 100, (1e5, 300, 0, 1 << 18, 60_000, 64)) == 1  # each part would prepare it
    assert members._count(64, 512, 100, (1e5, 300, 0, 1 << 18, 60_000, 64 * 8)) == 4


@pytest.mark.skipif(not uses_amx(), reason="no tile unit")
@pytest.mark.parametrize(
    "dtype, n, count",
    [("bfloat16", 32, 0), ("bfloat16", 8, 1), ("bfloat16", 256, 1), ("float32", 32, 1), ("float16", 32, 0), ("float16", 16, 1)],
)
def test_a_matrix_is_prepared_for_all_rows_at_once(parts, monkeypatch, dtype, n, count):
    monkeypatch.setattr(members, "_count", _count)
    x, w = jnp.ones((n, 128), dtype), jnp.zeros((128, 128), dtype)
    fgrad.jit(lambda x, w: lax.fori_loop(0, 100, lambda i, c: jnp.tanh(c @ w + x), x))(x, w)
    assert len(parts) == count


def test_a_step_costs_what_it_touches(monkeypatch):
    """A column that is read, changed and put back is no step over the whole array: such steps are too little for threads."""
    number, counts = members._count, []
    monkeypatch.setattr(members, "_count", lambda *a: counts.append(number(*a)) or counts[-1])
    a = jnp.asarray(np.random.default_rng(0).random((100, 120)), "float32")

    @fgrad.jit
    def columns(a):
        return lax.fori_loop(0, 120, lambda j, c: c.at[:, j].set(a[:, j] * 2 + c[:, j]), a)

    np.testing.assert_array_equal(columns(a), a * 2 + a)
    assert counts == [1]


def test_what_is_closed_over_and_reused(parts):
    """A loop in parts in a loop, run again with other arguments."""
    table = np.asarray(make(B, H))

    def f(a):
        def outer(h, k):
            h, _ = lax.scan(lambda h, x: (jnp.tanh(h * k + x + table), None), h, a["xs"])
            return h, h.sum()

        return lax.scan(outer, a["h"], a["ks"])

    run = fgrad.jit(f)
    for scale in (1.0, 0.5):
        a = {**A, "h": A["h"] * scale}
        with fgrad.disable_jit():
            want = leaves(f(a))
        for x, w in zip(leaves(run(a)), want, strict=True):
            np.testing.assert_allclose(x, w, rtol=2e-5, atol=2e-5)
    assert parts == [4]


@pytest.mark.parametrize("change", [{4: 0}, {6: 0}, {6: 3}, {0: 0}, {7: 1}, {8: 0}, {2: 7}])
def test_the_executor_refuses_parts_that_leave_their_operands(change, parts, monkeypatch):
    from fgrad._kernels.executor import KINDS
    from fgrad.compile import program

    def build(*, insts, **kw):
        for i, inst in enumerate(insts):
            if inst[0] == KINDS["members"]:
                ip = list(inst[4])
                for at, n in change.items():
                    ip[at] = n
                insts[i] = (*inst[:4], ip, *inst[5:])
        return Program(insts=insts, **kw)

    Program = program.Program
    monkeypatch.setattr(program, "Program", build)
    with pytest.raises(fgrad.errors.LoweringError, match="instruction"):
        fgrad.jit(lambda h, xs, c: lax.scan(lambda h, x: (h * x + c, None), h, xs)[0])(A["h"], A["xs"], A["ks"][0])


def test_interrupts_end_a_loop_in_parts(parts):
    import signal

    def ended(*_):
        raise InterruptedError

    f = fgrad.jit(lambda h: lax.fori_loop(0, 10**9, lambda i, h: jnp.sin(h) + 0.1, h))
    before = signal.signal(signal.SIGALRM, ended)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(InterruptedError):
            f(jnp.ones((B, 1000))).block_until_ready()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert parts == [4]


def solved(a):
    """Newton's method, each with as many steps as it takes."""
    a = a.reshape(-1)[0]
    return lax.while_loop(
        lambda s: jnp.abs(s * s - jnp.abs(a)) > 1e-5 * (1 + jnp.abs(a)), lambda s: (s + jnp.abs(a) / s) / 2, jnp.abs(a) + 1
    )


MAPPED = {
    "numbers": lambda w, x, i: jnp.sin(x[0, 0]) * w[0, 0] + i,
    "sums": lambda w, x, i: (jnp.exp(x).sum(0), x.max(), i.astype(jnp.int32) % 3),
    "products": lambda w, x, i: x @ w[:3] - w[i % 6, 0],
    "loops": lambda w, x, i: (solved(x), lax.fori_loop(0, 3, lambda k, y: jnp.tanh(y) * w[k, 0], x)),
    "branches": lambda w, x, i: lax.cond(i % 3 == 0, lambda: x * 2, lambda: x[::-1] + w[0, 0]),
    "scans": lambda w, x, i: lax.scan(lambda c, row: (c + row.sum(), c * row), w[0, 1], x),
    "maps": lambda w, x, i: lax.map(lambda row: row / (row @ row) + w[1, 1], x),
    "calls": lambda w, x, i: nn.relu(fgrad.jit(lambda y: jnp.cumsum(y, 1))(x)),
    "keys": lambda w, x, i: random.normal(random.fold_in(random.PRNGKey(3), i), (2,)),
}


@pytest.mark.parametrize("rows", [12, 35])
@pytest.mark.parametrize("name", MAPPED)
def test_rows_of_a_loop_that_carries_nothing_run_in_parts(name, rows, monkeypatch):
    number, counts = members.parts_of_rows, []
    monkeypatch.setattr(members, "WORTH", 0)
    monkeypatch.setattr("fgrad.control.scan_rules.parts_of_rows", lambda *a: counts.append(number(*a)) or counts[-1])
    x = make(rows, 4, 3)

    def f(w):
        return lax.scan(lambda c, row: (c, MAPPED[name](w, *row)), None, (x, jnp.arange(rows)))[1]

    with fgrad.config.override("pass_motion", False):  # which batches what it can
        with fgrad.config.override("pass_members", False):
            want = leaves(fgrad.jit(lambda w: f(w))(A["w"]))
        assert not counts
        one, two = on_threads(f, A["w"])
    assert counts[0] == {12: 12, 35: 7}[rows]
    for w, a, b in zip(want, one, two, strict=True):
        assert a.dtype == w.dtype and a.shape == w.shape and a.tobytes() == b.tobytes()
        np.testing.assert_allclose(a, w, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
def test_what_parts_of_rows_leave_alone(reverse, monkeypatch):
    """Callbacks, few rows and small work stay one loop; rows come back in their places in either direction."""
    number, counts = members.parts_of_rows, []
    monkeypatch.setattr("fgrad.control.scan_rules.parts_of_rows", lambda *a: counts.append(number(*a)) or counts[-1])
    seen = []
    called = lambda x: fgrad.pure_callback(lambda v: seen.append(1) or np.asarray(v), fgrad.ShapeDtypeStruct((), jnp.float32), x)  # noqa: E731

    def over(f, xs):
        with fgrad.config.override("pass_motion", False):
            return fgrad.jit(lambda xs: lax.scan(lambda c, x: (c, f(x)), None, xs, reverse=reverse)[1])(xs)

    assert over(jnp.sin, jnp.arange(100.0)).shape == (100,) and counts == [1]
    monkeypatch.setattr(members, "WORTH", 0)
    np.testing.assert_array_equal(over(called, jnp.arange(8.0)), np.arange(8.0))
    assert counts == [1, 1] and len(seen) == 8
    assert over(lambda x: x + 1, jnp.zeros((13, 2))).shape == (13, 2) and counts[-1] == 13
    np.testing.assert_array_equal(over(lambda x: x * 2, jnp.arange(17.0)), 2 * np.arange(17.0))
    assert counts[-1] == 1
    np.testing.assert_array_equal(over(lambda x: lax.cond(x > 3, lambda: x, lambda: -x), jnp.arange(8.0)), [0, -1, -2, -3, 4, 5, 6, 7])
    assert counts[-1] == 8


def walk(tables, places):
    """Steps that read and write single items, and rows, of a table of their own."""

    def step(carry, x):
        t, rows = carry
        i, k = x
        t = t.at[i, k].add(0.1 * t[k, i] + rows[i] @ rows[k])
        return (t, rows.at[k].multiply(0.5)), t[i, i]

    return lax.scan(step, tables, places)


def test_a_batch_of_loops_over_tables_is_flat_code(monkeypatch):
    """A table counts by what a step takes from it; indices of the batch that each read makes anew are one array."""
    from fgrad.control import scan_rules

    given = []
    once = scan_rules._given_once
    monkeypatch.setattr(scan_rules, "_given_once", lambda ins, params: given.append((len(ins), out := once(ins, params))) or out)
    tables, places = (make(16, 40, 40), make(16, 40, 4)), tuple(jnp.asarray(rng.integers(0, 40, (2, 16, 3000)).astype(np.int32)))
    batched = fgrad.jit(fgrad.vmap(walk, in_axes=(0, 0)))
    labels = [name for _, name in batched.lower(tables, places).compile().profile(tables, places)]
    assert any("scan" in name for name in labels) and not any("members" in name for name in labels)
    assert any(len(ins) < count for count, (ins, _) in given)
    got = batched(tables, places)
    for i in (0, 15):
        want = fgrad.jit(walk)(*fgrad.tree.map(lambda x, i=i: x[i], (tables, places)))
        for a, b in zip(leaves(got), leaves(want), strict=True):
            np.testing.assert_allclose(a[i], b, rtol=1e-5, atol=1e-5)
