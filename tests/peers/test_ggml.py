"""fgrad.ggml beside ggml itself, through the package ggml-python (pip install ggml-python; it builds ggml).

Where ggml is limited the arguments are too: conv_1d and conv_transpose_2d_p0 mix up the examples of a batch, and some kernels are
float16 there.
"""

import ctypes

import numpy as np
import pytest

import fgrad
from fgrad import ggml
from tests.derivatives import as_tuple
from tests.ggml_rows import attention, basic, recurrent
from tests.ggml_rows import conv as convs
from tests.ggml_rows.case import numbers, softmax

pytestmark = pytest.mark.peers
C = pytest.importorskip("ggml.ggml")  # another package is named ggml too
TYPES = {np.dtype(np.float32): 0, np.dtype(np.float16): 1, np.dtype(np.int32): 26, np.dtype(np.int64): 27}
DTYPES = {v: k for k, v in TYPES.items()}


def tensor(ctx, a):
    """A ggml tensor with an array's values."""
    a = np.ascontiguousarray(a)
    t = C.ggml_new_tensor(ctx, TYPES[a.dtype], max(a.ndim, 1), (ctypes.c_int64 * 4)(*(a.shape[::-1] or (1,))))
    ctypes.memmove(t.contents.data, a.ctypes.data, a.nbytes)
    return t


def values(t):
    """A tensor, with whatever strides, as an array, row-major with its four axes."""
    shape, strides, dtype = tuple(t.contents.ne)[::-1], tuple(t.contents.nb)[::-1], DTYPES[t.contents.type]
    size = sum((n - 1) * s for n, s in zip(shape, strides)) + dtype.itemsize
    return np.ndarray(shape, dtype, ctypes.string_at(t.contents.data, size), 0, strides)


def by_ggml(build, arrays):
    """The array that build(context, *tensors) computes in ggml."""
    ctx = C.ggml_init(C.ggml_init_params(mem_size=64 << 20, mem_buffer=None))
    try:
        out = C.ggml_cont(ctx, build(ctx, *[tensor(ctx, a) for a in arrays]))
        graph = C.ggml_new_graph(ctx)
        C.ggml_build_forward_expand(graph, out)
        assert C.ggml_graph_compute_with_ctx(ctx, graph, 1) == 0
        return values(out)
    finally:
        C.ggml_free(ctx)


def flat(*outs):
    return np.concatenate([np.asarray(o).reshape(-1) for o in outs])


def same(name, *parameters):
    """The op of one name in both, with these numbers behind its arrays."""
    return getattr(C, "ggml_" + name), getattr(ggml, name), parameters


B = basic
ids, picks = B.IDS.astype(np.int32), B.PICK.astype(np.int32)
positions, four = attention.POSITIONS.astype(np.int32), attention.FOUR.astype(np.int32)
SECTIONS = (ctypes.c_int * 4)(*attention.SECTIONS)
MASK16 = np.where(np.isfinite(attention.SEEN), attention.SEEN, -np.inf).astype(np.float16)[:, :, :3]
SOFT16 = attention.MASK[:, :, :4].astype(np.float16)
IM2COL = convs.im2col2(convs.B2)
KERNEL3, DATA3 = convs.A3, convs.B3
ROWS = {n: (*same(n), [B.FAR]) for n in B.UNARY}
ROWS |= {n: (*same(n), [B.X]) for n in ("dup", "sqr", "sin", "cos", "sum_rows", "cumsum", "mean", "cont", "transpose", "sum")}
ROWS |= {n: (*same(n), [B.POSITIVE]) for n in ("sqrt", "log")}
ROWS |= {n: (*same(n), [B.X, B.B]) for n in ("add", "sub", "mul", "div")}
ROWS |= {n + s: (*same(n + s), [B.X]) for n in B.GATE for s in ("", "_swapped")}
ROWS |= {n + "_split": (*same(n + "_split"), [B.X, B.GRAD]) for n in B.GATE}
ROWS |= {
    "xielu": (*same("xielu", 0.3, 0.7, 0.5, -1e-6), [B.FAR]),
    "swiglu_oai": (*same("swiglu_oai", 1.7, 0.6), [B.X, B.GRAD]),
    "silu_back": (*same("silu_back"), [B.GRAD, B.X]),
    "leaky_relu": (*same("leaky_relu", 0.2, False), [B.X]),
    "scale_bias": (*same("scale_bias", 2.5, 1.0), [B.X]),
    "clamp": (*same("clamp", -0.5, 0.4), [B.X]),
    "add1": (*same("add1"), [B.X, numbers(6, 1)]),
    "add_id": (*same("add_id"), [numbers(7, 3, 2, 4), B.EXPERTS, ids]),
    "acc": (*same("acc", 16, 48, 96, 20), [B.X, numbers(8, 2, 2, 3)]),
    "set": (*same("set", 16, 48, 96, 20), [B.X, numbers(8, 2, 2, 3)]),
    "argmax": (*same("argmax"), [B.X[0]]),
    "count_equal": (*same("count_equal"), [ids, ids[::-1]]),
    "repeat": (*same("repeat"), [B.B, B.X]),
    "repeat_back": (*same("repeat_back"), [B.X, B.B]),
    "concat": (*same("concat", 1), [B.X, B.X[:, :2]]),
    "norm": (*same("norm", 1e-5), [B.X]),
    "rms_norm": (*same("rms_norm", 1e-5), [B.X]),
    "rms_norm_back": (*same("rms_norm_back", 1e-5), [B.GRAD, B.X]),
    "group_norm": (*same("group_norm", 2, 1e-5), [B.IMAGE]),
    "l2_norm": (*same("l2_norm", 1e-5), [B.X]),
    "mul_mat": (*same("mul_mat"), [numbers(14, 1, 2, 4, 3), numbers(15, 2, 4, 2, 3)]),
    "mul_mat plain": (*same("mul_mat"), [numbers(12, 4, 3), numbers(13, 2, 3)]),
    "mul_mat_id": (*same("mul_mat_id"), [numbers(16, 3, 2, 4), numbers(17, 3, 2, 4), ids]),
    "out_prod": (*same("out_prod"), [numbers(18, 1, 2, 3, 4), numbers(19, 2, 4, 3, 2)]),
    "solve_tri": (*same("solve_tri", True, True, False), [B.LOWER, numbers(20, 2, 4, 3)]),
    "view_3d": (*same("view_3d", 2, 2, 2, 16, 48, 4), [B.X]),
    "permute": (*same("permute", 2, 0, 1, 3), [B.X]),
    "permute 4d": (*same("permute", 3, 0, 1, 2), [B.X]),
    "get_rows matrix": (*same("get_rows"), [B.ROWS[0], picks[0]]),
    "get_rows": (*same("get_rows"), [B.ROWS, picks]),
    "get_rows_back": (*same("get_rows_back"), [numbers(22, 3, 3), picks[0], B.ROWS[0]]),
    "set_rows": (*same("set_rows"), [B.ROWS, numbers(23, 2, 2, 3), B.SET.astype(np.int64)]),
    "diag": (*same("diag"), [B.X[:, :1]]),
    "diag_mask_inf": (*same("diag_mask_inf", 1), [B.X]),
    "diag_mask_zero": (*same("diag_mask_zero", 1), [B.X]),
    **{f"tri {t}": (*same("tri", t), [numbers(34, 2, 4, 4)]) for t in range(4)},
    "fill": (*same("fill", 3.0), [B.X]),
    "pad": (*same("pad", 1, 0, 2, 0), [B.X]),
    "pad_ext": (*same("pad_ext", 1, 2, 0, 0, 0, 0, 0, 1), [B.X]),
    "pad_circular": (*same("pad_circular", 1, 0, 1, 0), [B.X]),
    "pad_reflect_1d": (*same("pad_reflect_1d", 2, 3), [B.X]),
    "roll": (*same("roll", 1, -1, 0, 0), [B.X]),
    "arange": (*same("arange", 1.0, 3.0, 0.5), []),
    "timestep_embedding": (*same("timestep_embedding", 6, 100), [numbers(24, 3, high=9)]),
    "argsort": (*same("argsort", 0), [B.X]),
    "argsort descending": (*same("argsort", 1), [B.X]),
    "win_part": (*same("win_part", 2), [numbers(25, 3, 5, 2)]),
    "win_unpart": (*same("win_unpart", 5, 3, 2), [numbers(26, 6, 2, 2, 2)]),
    "cross_entropy_loss": (*same("cross_entropy_loss"), [B.X, B.LABELS]),
    "cross_entropy_loss_back": (*same("cross_entropy_loss_back"), [numbers(29, 1), B.X, B.LABELS]),
    "soft_max": (*same("soft_max"), [attention.S]),
    "soft_max_ext plain": (*same("soft_max_ext", 0.7, 0.0), [attention.S, SOFT16]),
    "soft_max_ext": (*same("soft_max_ext", 0.7, 8.0), [attention.S, SOFT16]),
    "soft_max_ext_back": (*same("soft_max_ext_back", 0.7, 0.0), [attention.S, softmax(attention.S[::-1])]),
    "rope": (*same("rope", 8, 0), [attention.R, positions]),
    "rope neox": (*same("rope", 4, 2), [attention.R, positions]),
    "rope_ext factors": (*same("rope_ext", 8, 0, *attention.PLAIN), [attention.R, positions, attention.FACTORS]),
    "rope_ext yarn": (*same("rope_ext", 8, 2, *attention.YARN), [attention.R, positions, attention.FACTORS]),
    "rope_ext_back yarn": (*same("rope_ext_back", 8, 0, *attention.YARN), [attention.R, positions, attention.FACTORS]),
    **{
        f"rope_multi {mode}": (
            *same("rope_multi", 4 if mode == 24 else 8, SECTIONS, mode, *attention.PLAIN),
            [attention.R, four, attention.FACTORS],
        )
        for mode in (8, 24, 40)
    },
    "flash_attn_ext": (*same("flash_attn_ext", 0.5, 8.0, 1.5), [attention.Q, attention.K, attention.V[..., :4], MASK16]),
    "get_rel_pos": (*same("get_rel_pos", 3, 3), [numbers(57, 5, 2).astype(np.float16)]),
    "add_rel_pos": (*same("add_rel_pos"), [numbers(58, 2, 4, 9), numbers(59, 2, 2, 2, 3), numbers(60, 2, 2, 2, 3)]),
    "ssm_conv": (*same("ssm_conv"), [numbers(94, 2, 3, 6), numbers(95, 3, 3)]),
    "ssm_scan": (*same("ssm_scan"), [*recurrent.SSM[:3], recurrent.SSM[3][:, :1], *recurrent.SSM[4:], recurrent.IDS.astype(np.int32)]),
    "rwkv_wkv6": (
        *same("rwkv_wkv6"),
        [*[recurrent.tokens(i) for i in (96, 97, 98)], numbers(99, 2, 3), recurrent.tokens(100), recurrent.STATE],
    ),
    "gated_linear_attn": (*same("gated_linear_attn", 0.7), [*[recurrent.tokens(i) for i in range(101, 105)], recurrent.STATE]),
    "gated_delta_net": (*same("gated_delta_net", 1), recurrent.NET),
    "gated_delta_net wide": (*same("gated_delta_net", 2), recurrent.WIDE),
    "im2col": (*same("im2col", *convs.ARGS2, True), [convs.A2, convs.B2]),
    "im2col_back": (*same("im2col_back"), [IM2COL, convs.A2]),
    "im2col_3d": (*same("im2col_3d", 2, 2, 1, 1, 1, 1, 0, 1, 1, 1), [KERNEL3, DATA3]),
    "col2im_1d": (*same("col2im_1d", 2, 2, 1), [numbers(126, 4, 6)]),
    "conv_1d": (*same("conv_1d", 2, 1, 1), [convs.A1.astype(np.float16), convs.B1[:1]]),
    "conv_2d": (*same("conv_2d", *convs.ARGS2), [convs.A2, convs.B2]),
    "conv_2d_direct": (*same("conv_2d_direct", *convs.ARGS2), [convs.A2, convs.B2]),
    "conv_2d_sk_p0": (*same("conv_2d_sk_p0"), [convs.A2, convs.B2]),
    "conv_2d_s1_ph": (*same("conv_2d_s1_ph"), [convs.A2, convs.B2]),
    "conv_3d_direct": (*same("conv_3d_direct", 2, 1, 1, 1, 1, 0, 1, 1, 1, 2, 2, 3), [KERNEL3, DATA3]),
    "conv_2d_dw": (*same("conv_2d_dw", *convs.ARGS2), [numbers(127, 3, 1, 2, 3).astype(np.float16), convs.B2]),
    "conv_2d_dw_direct": (*same("conv_2d_dw_direct", *convs.ARGS2), [numbers(127, 3, 1, 2, 3), convs.B2]),
    "conv_transpose_1d": (*same("conv_transpose_1d", 2, 0, 1), [numbers(129, 3, 2, 4), convs.B1[0]]),
    "conv_transpose_2d_p0": (*same("conv_transpose_2d_p0", 2), [numbers(130, 3, 2, 2, 3).astype(np.float16), convs.B2[:1]]),
    **{f"pool_1d {op}": (*same("pool_1d", op, 3, 2, 1), [convs.POOL[0]]) for op in (0, 1)},
    **{f"pool_2d {op}": (*same("pool_2d", op, 3, 2, 2, 2, 0, 1), [convs.POOL]) for op in (0, 1)},
    **{f"upscale {m}": (*same("upscale", 2, m), [convs.PICTURE]) for m in (0, 1, 2)},
    **{f"interpolate {m}": (*same("interpolate", 7, 2, 2, 1, m), [convs.PICTURE]) for m in (0, 1, 2, 1 | 256, 2 | 256, 1 | 512)},
}
HALF = (
    "conv_1d",
    "conv_2d",
    "conv_2d_sk_p0",
    "conv_2d_s1_ph",
    "conv_2d_dw",
    "gelu",
    "gelu_quick",
    "geglu",
    "flash_attn_ext",
    "conv_transpose_2d",
)


def arguments(name, arrays, parameters, ctypes_side):
    """What stands in another place in one of the two."""
    extra = list(parameters)
    if name.startswith("im2col") and name != "im2col_back" and ctypes_side:
        extra.append(0)  # GGML_TYPE_F32
    if name == "im2col_back":
        ne = (7, 5, 3, 2)
        extra = [(ctypes.c_int64 * 4)(*ne) if ctypes_side else ne, *convs.ARGS2, True]
    return [*arrays, *extra]


@pytest.mark.parametrize("name", ROWS)
def test_beside_ggml(name):
    theirs, ours, parameters, arrays = ROWS[name]
    op = name.split()[0]
    arrays = [a.astype(np.float32) if a.dtype == np.float64 else a for a in arrays]
    want = by_ggml(lambda ctx, *ts: theirs(ctx, *arguments(op, ts, parameters, True)), arrays)
    got = as_tuple(ours(*arguments(op, arrays, parameters, False)))
    if len(got) == 1:
        shape = got[0].shape
        assert want.shape == (1,) * (4 - len(shape)) + shape
    half = any(op == h or op.startswith(h + "_") for h in HALF)
    tolerance = dict(rtol=5e-3, atol=5e-3) if half else dict(rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(flat(*got), want.reshape(-1).astype(float), **tolerance)


# --- gradients ------------------------------------------------------------------------------------------------------------


def gradients_by_ggml(build, arrays, wrt, weights):
    """ggml's gradients of sum(build(context, *tensors) * weights) for the tensors in wrt."""
    ctx = C.ggml_init(C.ggml_init_params(mem_size=64 << 20, mem_buffer=None))
    try:
        tensors = [tensor(ctx, a) for a in arrays]
        for i in wrt:
            C.ggml_set_param(tensors[i])
        out = C.ggml_cont(ctx, build(ctx, *tensors))
        loss = C.ggml_sum(ctx, C.ggml_mul(ctx, out, tensor(ctx, weights)))
        C.ggml_set_loss(loss)
        graph = C.ggml_new_graph_custom(ctx, 512, True)
        C.ggml_build_forward_expand(graph, loss)
        C.ggml_build_backward_expand(ctx, graph, None)
        C.ggml_graph_reset(graph)
        assert C.ggml_graph_compute_with_ctx(ctx, graph, 1) == 0
        return [values(C.ggml_graph_get_grad(graph, tensors[i])) for i in wrt]
    finally:
        C.ggml_free(ctx)


SAME_GRADIENTS = """
    dup add add1 acc sub mul div sqr sqrt log sin cos sum sum_rows mean repeat repeat_back rms_norm mul_mat-plain scale_bias cont permute
    transpose get_rows-matrix diag_mask_zero soft_max_ext-plain rope rope_ext-yarn im2col abs neg relu silu exp expm1 softplus
    swiglu_split cross_entropy_loss set pool_2d-1
""".split()


@pytest.mark.parametrize("name", [n.replace("-", " ") for n in SAME_GRADIENTS])
def test_gradients_beside_ggml(name):
    theirs, ours, parameters, arrays = ROWS[name]
    op = name.split()[0]
    arrays = [a.astype(np.float32) if a.dtype == np.float64 else a for a in arrays]
    wrt = GRADIENTS_OF.get(name, [i for i, a in enumerate(arrays) if a.dtype == np.float32])
    weights = np.asarray(ours(*arguments(op, arrays, parameters, False)))
    weights = numbers(7, *(weights.shape or (1,))).astype(np.float32)
    want = gradients_by_ggml(lambda ctx, *ts: theirs(ctx, *arguments(op, ts, parameters, True)), arrays, wrt, weights)

    def loss(*xs):
        args = list(arrays)
        for i, x in zip(wrt, xs):
            args[i] = x
        return ggml.sum(ours(*arguments(op, args, parameters, False)) * weights)

    got = fgrad.grad(loss, tuple(range(len(wrt))))(*[arrays[i] for i in wrt])
    for g, w in zip(got, want):
        np.testing.assert_allclose(np.asarray(g).reshape(-1), w.reshape(-1), rtol=1e-3, atol=1e-4)


# Arguments that ggml has no gradient for, or whose values do not matter, are left out.
GRADIENTS_OF = {
    "cross_entropy_loss": [0],
    "add1": [0],
    "sub": [0],
    "div": [0],
    "repeat": [0],
    "repeat_back": [0],
    "soft_max_ext plain": [0],
    "rope_ext yarn": [0],
    "im2col": [1],
}


def test_top_k():
    x = B.X.astype(np.float32)
    want = by_ggml(lambda ctx, a: C.ggml_top_k(ctx, a, 2), [x])
    np.testing.assert_array_equal(np.sort(np.asarray(ggml.top_k(x, 2)), -1), np.sort(want.reshape(2, 3, 2), -1))


@pytest.mark.parametrize("op", [0, 1])
def test_pool_2d_back(op):
    x = convs.POOL.astype(np.float32)
    g = np.asarray(ggml.pool_2d(x, op, 3, 2, 2, 2, 0, 0)) * 0.7
    want = by_ggml(lambda ctx, a, b: C.ggml_pool_2d_back(ctx, a, b, op, 3, 2, 2, 2, 0, 0), [g, x])
    np.testing.assert_allclose(ggml.pool_2d_back(g, x, op, 3, 2, 2, 2, 0, 0), want.reshape(x.shape), rtol=1e-5, atol=1e-6)


def test_rwkv_wkv7():
    """ggml's vector loops write beyond heads that are not a multiple of their step, which is up to 64."""
    xs = [numbers(i, 4, 2, 64).astype(np.float32) * 0.2 for i in range(6)]
    state = numbers(9, 2, 2 * 64 * 64).astype(np.float32)
    want = by_ggml(C.ggml_rwkv_wkv7, [*xs, state])
    np.testing.assert_allclose(flat(*ggml.rwkv_wkv7(*xs, state)), want.reshape(-1), rtol=1e-4, atol=1e-5)


def test_sinks():
    s, sinks = attention.S.astype(np.float32), attention.SINKS.astype(np.float32)

    def soft_max(ctx, a, mask, sinks):
        out = C.ggml_soft_max_ext(ctx, a, mask, 0.7, 4.0)
        C.ggml_soft_max_add_sinks(out, sinks)
        return out

    want = by_ggml(soft_max, [s, SOFT16, sinks])
    np.testing.assert_allclose(ggml.soft_max(s, SOFT16, 0.7, 4.0, sinks), want, rtol=1e-4, atol=1e-6)
    q, k, v, sinks = (x.astype(np.float32) for x in (attention.Q, attention.K, attention.V[..., :4], attention.SINK4))

    def flash(ctx, q, k, v, mask, sinks):
        out = C.ggml_flash_attn_ext(ctx, q, k, v, mask, 0.5, 0.0, 0.0)
        C.ggml_flash_attn_ext_add_sinks(out, sinks)
        return out

    want = by_ggml(flash, [q, k, v, MASK16, sinks])
    np.testing.assert_allclose(ggml.flash_attn_ext(q, k, v, MASK16, 0.5, sinks=sinks), want, rtol=5e-3, atol=5e-3)


def test_optimizer_steps():
    a, g, m, v, p = (np.asarray(x, np.float32) for x in (B.X, B.GRAD, B.X[::-1], B.MOMENTS, B.ADAM))
    new = ggml.opt_step_adamw(a, g, m, v, p)

    def step(ctx, *ts):
        C.ggml_set_param(ts[0])
        return C.ggml_opt_step_adamw(ctx, *ts)

    np.testing.assert_allclose(new[0], by_ggml(step, [a, g, m, v, p])[0], rtol=1e-5, atol=1e-6)

    def sgd(ctx, *ts):
        C.ggml_set_param(ts[0])
        return C.ggml_opt_step_sgd(ctx, *ts)

    np.testing.assert_allclose(ggml.opt_step_sgd(a, g, p[:2]), by_ggml(sgd, [a, g, p[:2]])[0], rtol=1e-5, atol=1e-6)
