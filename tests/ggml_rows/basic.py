"""Elementwise ops, GLU, arithmetic, reductions, norms, products, movement, rows, loss and optimizer steps."""

import math

import numpy as np

from fgrad import ggml
from tests.ggml_rows.case import Case, numbers, sigmoid, softmax

ERF = np.vectorize(math.erf)
X = numbers(0, 2, 3, 4)
FAR = numbers(1, 3, 5, low=-6, high=6)
FLAT = "its derivative is 0 where it has one"
INTEGER = "its result is integer"
MAKER = "it takes no array of which it depends"


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x):
    return 0.5 * x * (1 + ERF(x / math.sqrt(2)))


def xielu(x, n=0.3, p=0.7, beta=0.5, eps=-1e-6):
    sp = lambda v: math.log1p(math.exp(v))
    return np.where(x > 0, sp(p) * x * x + beta * x, (beta + sp(n)) * (np.expm1(np.minimum(x, eps)) - x) + beta * x)


UNARY = {
    "abs": np.abs,
    "sgn": np.sign,
    "neg": np.negative,
    "step": lambda x: (x > 0) * 1.0,
    "tanh": np.tanh,
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": sigmoid,
    "gelu": gelu,
    "gelu_quick": lambda x: x * sigmoid(1.702 * x),
    "silu": lambda x: x * sigmoid(x),
    "hardswish": lambda x: x * np.clip((x + 3) / 6, 0, 1),
    "hardsigmoid": lambda x: np.clip((x + 3) / 6, 0, 1),
    "exp": np.exp,
    "expm1": np.expm1,
    "softplus": lambda x: np.logaddexp(x, 0),
    "gelu_erf": gelu_erf,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5),
    "trunc": np.trunc,
}
ZERO = ("sgn", "step", "floor", "ceil", "round", "trunc")
CASES = [Case(n, getattr(ggml, n), [FAR], f) for n, f in UNARY.items()]
CASES += [Case(n, lambda x, n=n: ggml.unary(x, n), [X], f, label="by unary", order=1) for n, f in UNARY.items()]
CASES += [
    Case("xielu", lambda x: ggml.xielu(x, 0.3, 0.7, 0.5, -1e-6), [FAR], xielu),
    Case("round", ggml.round, [np.array([-2.5, -0.5, 0.5, 1.5, 2.5])], UNARY["round"], wrt=(), label="halves"),
]

GATE = {
    "reglu": UNARY["relu"],
    "geglu": gelu,
    "swiglu": UNARY["silu"],
    "geglu_erf": gelu_erf,
    "geglu_quick": UNARY["gelu_quick"],
}
for _n, _f in GATE.items():
    CASES += [
        Case(_n, getattr(ggml, _n), [FAR[:, :4]], lambda x, f=_f: f(x[:, :2]) * x[:, 2:]),
        Case(_n, getattr(ggml, _n + "_swapped"), [X], lambda x, f=_f: f(x[..., 2:]) * x[..., :2], label="swapped"),
        Case(_n, getattr(ggml, _n + "_split"), [X, X[::-1] + 0.1], lambda a, b, f=_f: f(a) * b, label="split"),
    ]
CASES += [
    Case(
        "swiglu_oai",
        lambda a, b: ggml.swiglu_oai(a, b, 1.7, 0.6),
        [X, X[::-1] + 0.05],
        lambda a, b: np.minimum(a, 0.6) * sigmoid(1.7 * np.minimum(a, 0.6)) * (np.clip(b, -0.6, 0.6) + 1),
    )
]

# --- arithmetic -----------------------------------------------------------------------------------------------------------

B = numbers(2, 3, 2, low=0.5, high=1.5)  # repeats to X: axis 4 holds it twice
POSITIVE = numbers(3, 2, 3, 4, low=0.1, high=1)
IDS = np.array([[1, 0], [2, 2], [0, 1]])
EXPERTS = numbers(4, 3, 4)
GRAD = numbers(5, 2, 3, 4)


def tiled(b):
    return np.tile(b, (2, 1, 2))


def acc(a, b, strides, start, put=False):
    out = a.copy().reshape(-1)
    for i in np.ndindex(b.shape):
        place = start + sum(x * s for x, s in zip(i, strides))
        out[place] = b[i] if put else out[place] + b[i]
    return out.reshape(a.shape)


def bytes_of(x, *n):
    """These numbers of elements in bytes of x's elements, whether the test runs in float32 or float64."""
    return [k * x.dtype.itemsize for k in n]


CASES += [
    Case("dup", ggml.dup, [X], lambda a: a),
    Case("add", ggml.add, [X, B], lambda a, b: a + tiled(b)),
    Case("sub", ggml.sub, [X, B], lambda a, b: a - tiled(b)),
    Case("mul", ggml.mul, [X, B], lambda a, b: a * tiled(b)),
    Case("div", ggml.div, [X, B], lambda a, b: a / tiled(b)),
    Case("add", ggml.add, [X, X[:1, :, :1]], lambda a, b: a + b, label="broadcast"),
    Case("add1", ggml.add1, [X, numbers(6, 1)], lambda a, b: a + b),
    Case("add_id", lambda a, b: ggml.add_id(a, b, IDS), [numbers(7, 3, 2, 4), EXPERTS], lambda a, b: a + b[IDS]),
    Case(
        "acc",
        lambda a, b: ggml.acc(a, b, *bytes_of(a, 4, 12, 0, 5)),
        [X, numbers(8, 2, 2, 3)],
        lambda a, b: acc(a, b, (12, 4, 1), 5),
    ),
    Case(
        "set",
        lambda a, b: ggml.set(a, b, *bytes_of(a, 4, 12, 0, 5)),
        [X, numbers(8, 2, 2, 3)],
        lambda a, b: acc(a, b, (12, 4, 1), 5, put=True),
    ),
    Case("set", lambda a, b: ggml.set_1d(a, b, *bytes_of(a, 3)), [X, numbers(9, 6)], lambda a, b: acc(a, b, (1,), 3, True), label="1d"),
    Case("set", lambda a, b: ggml.set_2d(a, b, *bytes_of(a, 4, 1)), [X, X[0, :2, :2]], lambda a, b: acc(a, b, (4, 1), 1, True), label="2d"),
    Case("sqr", ggml.sqr, [X], np.square),
    Case("sqrt", ggml.sqrt, [POSITIVE], np.sqrt),
    Case("log", ggml.log, [POSITIVE], np.log),
    Case("sin", ggml.sin, [FAR], np.sin),
    Case("cos", ggml.cos, [FAR], np.cos),
    Case("sum", ggml.sum, [X], np.sum),
    Case("sum_rows", ggml.sum_rows, [X], lambda a: a.sum(-1, keepdims=True)),
    Case("cumsum", ggml.cumsum, [X], lambda a: np.cumsum(a, -1)),
    Case("mean", ggml.mean, [X], lambda a: a.mean(-1, keepdims=True)),
    Case("argmax", ggml.argmax, [X[0]], lambda a: a.argmax(-1), why=INTEGER),
    Case("count_equal", ggml.count_equal, [IDS, IDS[::-1]], lambda a, b: np.sum(a == b), why=INTEGER),
    Case("repeat", lambda a: ggml.repeat(a, np.zeros((2, 3, 4))), [B], lambda b: tiled(b)),
    Case("repeat", lambda a: ggml.repeat_4d(a, 4, 3, 2, 1), [B], lambda b: tiled(b)[None], label="4d"),
    Case("repeat_back", lambda a: ggml.repeat_back(a, B), [X], lambda a: a.reshape(2, 3, 2, 2).sum((0, 2))),
    Case("concat", lambda a, b: ggml.concat(a, b, 1), [X, X[:, :2]], lambda a, b: np.concatenate([a, b], 1)),
    Case("silu_back", ggml.silu_back, [GRAD, X], lambda g, x: g * sigmoid(x) * (1 + x * (1 - sigmoid(x)))),
    Case("scale", lambda a: ggml.scale(a, 2.5), [X], lambda a: 2.5 * a),
    Case("scale", lambda a: ggml.scale_bias(a, 2.5, 1.0), [X], lambda a: 2.5 * a + 1, label="bias"),
    Case("clamp", lambda a: ggml.clamp(a, -0.5, 0.4), [X], lambda a: np.clip(a, -0.5, 0.4)),
    Case("leaky_relu", lambda a: ggml.leaky_relu(a, 0.2), [X], lambda a: np.where(a > 0, a, 0.2 * a)),
    Case("fill", lambda a: ggml.fill(a, 3.0), [X], lambda a: np.full(a.shape, 3.0), why="its result depends on no element"),
]


# --- norms and products ---------------------------------------------------------------------------------------------------


def rms(x, eps=1e-5):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def rms_back(g, x, eps=1e-5):
    r = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return r * g - x * r**3 * (g * x).mean(-1, keepdims=True)


def standard(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def group_norm(x, n):
    each = -(-x.shape[1] // n)
    return np.concatenate([standard(x[:, i : i + each], (1, 2, 3)) for i in range(0, x.shape[1], each)], 1)


def mul_mat(a, b):
    out = np.zeros((*b.shape[:2], b.shape[2], a.shape[2]))
    for i, j in np.ndindex(b.shape[:2]):
        out[i, j] = b[i, j] @ a[i // (b.shape[0] // a.shape[0]), j // (b.shape[1] // a.shape[1])].T
    return out


def mul_mat_id(w, b, ids=IDS):
    return np.array([[w[e] @ b[t, u % b.shape[1]] for u, e in enumerate(row)] for t, row in enumerate(ids)])


LOWER = np.tril(numbers(10, 2, 4, 4)) + 2 * np.eye(4)
IMAGE = numbers(11, 2, 5, 2, 3)

CASES += [
    Case("norm", lambda a: ggml.norm(a, 1e-5), [X], lambda a: standard(a, -1)),
    Case("rms_norm", lambda a: ggml.rms_norm(a, 1e-5), [X], rms),
    Case("rms_norm_back", lambda g, a: ggml.rms_norm_back(g, a, 1e-5), [GRAD, X], rms_back),
    Case("group_norm", lambda a: ggml.group_norm(a, 2, 1e-5), [IMAGE[:, :4]], lambda a: group_norm(a, 2)),
    Case("group_norm", lambda a: ggml.group_norm(a, 2, 1e-5), [IMAGE], lambda a: group_norm(a, 2), label="uneven", order=1),
    Case("l2_norm", lambda a: ggml.l2_norm(a, 1e-5), [X], lambda a: a / np.sqrt((a * a).sum(-1, keepdims=True))),
    Case("mul_mat", ggml.mul_mat, [numbers(12, 4, 3), numbers(13, 2, 3)], lambda a, b: b @ a.T),
    Case("mul_mat", ggml.mul_mat, [numbers(14, 1, 2, 4, 3), numbers(15, 2, 4, 2, 3)], mul_mat, label="stacks"),
    Case("mul_mat_id", lambda w, b: ggml.mul_mat_id(w, b, IDS), [numbers(16, 3, 2, 4), numbers(17, 3, 2, 4)], mul_mat_id),
    Case("mul_mat_id", lambda w, b: ggml.mul_mat_id(w, b, IDS), [numbers(16, 3, 2, 4), numbers(17, 3, 1, 4)], mul_mat_id, label="one"),
    Case("out_prod", ggml.out_prod, [numbers(18, 3, 4), numbers(19, 3, 2)], lambda a, b: b.T @ a),
    Case("solve_tri", ggml.solve_tri, [LOWER, numbers(20, 2, 4, 3)], lambda a, b: np.linalg.solve(np.tril(a), b)),
    Case(
        "solve_tri",
        lambda a, b: ggml.solve_tri(a, b, left=False),
        [LOWER, numbers(20, 2, 3, 4)],
        lambda a, b: np.linalg.solve(np.tril(a).swapaxes(1, 2), b.swapaxes(1, 2)).swapaxes(1, 2),
        label="right",
        order=1,
    ),
    Case(
        "solve_tri",
        lambda a, b: ggml.solve_tri(a, b, lower=False, uni=True),
        [LOWER.swapaxes(1, 2), numbers(20, 2, 4, 3)],
        lambda a, b: np.linalg.solve(np.triu(a, 1) + np.eye(4), b),
        label="upper",
        order=1,
    ),
]

# --- movement and rows ----------------------------------------------------------------------------------------------------

ROWS, PICK = numbers(21, 2, 5, 3), np.array([[0, 4, 0], [2, 2, 1]])
SET = np.array([[0, 4], [2, 1]])


def window(a, shape, strides, start):
    flat = a.reshape(-1)
    return np.array([flat[start + sum(x * s for x, s in zip(i, strides))] for i in np.ndindex(shape)]).reshape(shape)


def get_rows_back(g):
    out = np.zeros(ROWS.shape)
    for i, j in np.ndindex(PICK.shape):
        out[i, PICK[i, j]] += g[i, j]
    return out


def set_rows(a, b):
    out = a.copy()
    for i, j in np.ndindex(SET.shape):
        out[i, SET[i, j]] = b[i, j]
    return out


def above(a, n, fill):
    d = np.arange(a.shape[-1])[None, :] - np.arange(a.shape[-2])[:, None]
    return np.where(d > n, fill, a)


def win_part(a, w=2):
    out = []
    padded = np.pad(a, ((0, -a.shape[0] % w), (0, -a.shape[1] % w), (0, 0)))
    for i in range(0, padded.shape[0], w):
        out += [padded[i : i + w, j : j + w] for j in range(0, padded.shape[1], w)]
    return np.array(out)


def timesteps(t, dim=7, period=100):
    half = dim // 2
    out = np.zeros((len(t), dim))
    for i in range(half):
        angle = t * period ** (-i / half)
        out[:, i], out[:, half + i] = np.cos(angle), np.sin(angle)
    return out


CASES += [
    Case("cpy", lambda a, b: ggml.cpy(a, b), [X, np.zeros((4, 6))], lambda a, b: a.reshape(4, 6), wrt=(0,)),
    Case("cont", ggml.cont, [X], lambda a: a),
    Case("cont", lambda a: ggml.cont_3d(a, 6, 2, 2), [X], lambda a: a.reshape(2, 2, 6), label="3d"),
    Case("reshape", lambda a: ggml.reshape(a, np.zeros((4, 6))), [X], lambda a: a.reshape(4, 6)),
    Case("reshape", lambda a: ggml.reshape_4d(a, 4, 3, 1, 2), [X], lambda a: a.reshape(2, 1, 3, 4), label="4d"),
    Case("view", lambda a: ggml.view_1d(a, 5, *bytes_of(a, 3)), [X], lambda a: a.reshape(-1)[3:8], label="1d"),
    Case("view", lambda a: ggml.view_2d(a, 3, 2, *bytes_of(a, 4, 5)), [X], lambda a: window(a, (2, 3), (4, 1), 5), label="2d"),
    Case(
        "view", lambda a: ggml.view_3d(a, 2, 2, 2, *bytes_of(a, 1, 12, 1)), [X], lambda a: window(a, (2, 2, 2), (12, 1, 1), 1), label="3d"
    ),
    Case("view", lambda a: ggml.view_4d(a, 2, 2, 1, 2, *bytes_of(a, 4, 0, 12, 0)), [X], lambda a: a[:, None, :2, :2], label="4d"),
    Case("permute", lambda a: ggml.permute(a, 2, 0, 1, 3), [X], lambda a: a.transpose(2, 0, 1)),
    Case("permute", lambda a: ggml.permute(a, 3, 0, 1, 2), [X], lambda a: a[None].transpose(3, 0, 1, 2), label="4d"),
    Case("transpose", ggml.transpose, [X], lambda a: a.swapaxes(1, 2)),
    Case("get_rows", lambda a: ggml.get_rows(a, PICK), [ROWS], lambda a: np.array([x[i] for x, i in zip(a, PICK)])),
    Case("get_rows_back", lambda g: ggml.get_rows_back(g, PICK, ROWS), [numbers(22, 2, 3, 3)], get_rows_back),
    Case("set_rows", lambda a, b: ggml.set_rows(a, b, SET), [ROWS, numbers(23, 2, 2, 3)], set_rows),
    Case("diag", ggml.diag, [X[:, :1]], lambda a: np.array([np.diag(r[0]) for r in a])),
    Case("diag_mask_inf", lambda a: ggml.diag_mask_inf(a, 1), [X], lambda a: above(a, 1, -np.inf), wrt=()),
    Case("diag_mask_inf", lambda a: ggml.soft_max(ggml.diag_mask_inf(a, 1)), [X], lambda a: softmax(above(a, 1, -np.inf)), label="softmax"),
    Case("diag_mask_zero", lambda a: ggml.diag_mask_zero(a, 1), [X], lambda a: above(a, 1, 0)),
    Case("pad", lambda a: ggml.pad(a, 1, 0, 2, 0), [X], lambda a: np.pad(a, ((0, 2), (0, 0), (0, 1)))),
    Case(
        "pad",
        lambda a: ggml.pad_ext(a, 1, 2, 0, 0, 0, 0, 0, 1),
        [X],
        lambda a: np.pad(a[None], ((0, 1), (0, 0), (0, 0), (1, 2))),
        label="ext",
    ),
    Case(
        "pad", lambda a: ggml.pad_circular(a, 1, 0, 3, 0), [X], lambda a: np.pad(a, ((0, 3), (0, 0), (0, 1)), mode="wrap"), label="circular"
    ),
    Case("pad_reflect_1d", lambda a: ggml.pad_reflect_1d(a, 2, 3), [X], lambda a: np.pad(a, ((0, 0), (0, 0), (2, 3)), mode="reflect")),
    Case("roll", lambda a: ggml.roll(a, 1, -1, 0, 0), [X], lambda a: np.roll(a, (-1, 1), (1, 2))),
    Case("arange", lambda: ggml.arange(1.0, 3.0, 0.5), [], lambda: np.arange(1, 3, 0.5), why=MAKER),
    Case("timestep_embedding", lambda t: ggml.timestep_embedding(t, 7, 100), [numbers(24, 3, high=9)], timesteps),
    Case("argsort", lambda a: ggml.argsort(a, ggml.SORT_ORDER_ASC), [X], lambda a: np.argsort(a, -1), why=INTEGER),
    Case("argsort", lambda a: ggml.argsort(a, ggml.SORT_ORDER_DESC), [X], lambda a: np.argsort(-a, -1), why=INTEGER, label="descending"),
    Case("top_k", lambda a: ggml.top_k(a, 2), [X], lambda a: np.argsort(-a, -1)[..., :2], why=INTEGER),
    Case("win_part", lambda a: ggml.win_part(a, 2), [numbers(25, 3, 5, 2)], win_part),
    Case("win_unpart", lambda a: ggml.win_unpart(a, 5, 3, 2), [win_part(numbers(25, 3, 5, 2))], lambda a: numbers(25, 3, 5, 2), wrt=()),
    Case("win_unpart", lambda a: ggml.win_part(ggml.win_unpart(a, 4, 2, 2), 2), [numbers(26, 2, 2, 2, 3)], lambda a: a, label="inverse"),
]
for _t, _keep in enumerate((lambda d: d >= 0, lambda d: d > 0, lambda d: d <= 0, lambda d: d < 0)):
    CASES.append(
        Case(
            "tri",
            lambda a, t=_t: ggml.tri(a, t),
            [X],
            lambda a, keep=_keep: np.where(keep(np.arange(4)[None] - np.arange(3)[:, None]), a, 0),
            label=str(_t),
        )
    )

# --- losses, optimizers, custom -------------------------------------------------------------------------------------------

LABELS = softmax(numbers(27, 2, 3, 4))
ADAM = np.array([0.1, 0.9, 0.99, 1e-3, 0.01, 1.5, 1.2])
MOMENTS = numbers(28, 2, 3, 4, low=0.1, high=1)


def adamw(a, g, m, v, p):
    rate, b1, b2, eps, decay, f1, f2 = p
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    return a * (1 - rate * decay) - rate * m * f1 / (np.sqrt(v * f2) + eps), m, v


def sinh_rule(ct, x):
    return (ct * ggml.exp(x) / 2 + ct * ggml.exp(-x) / 2,)


def cross_entropy(a, b):
    return -(b * np.log(softmax(a))).sum() / 6


CASES += [
    Case("cross_entropy_loss", ggml.cross_entropy_loss, [FAR[:, :4], LABELS[0]], lambda a, b: 2 * cross_entropy(a, b)),
    Case("cross_entropy_loss", ggml.cross_entropy_loss, [X, LABELS], cross_entropy, label="3 axes"),
    Case("cross_entropy_loss_back", ggml.cross_entropy_loss_back, [numbers(29), X, LABELS], lambda g, a, b: g * (softmax(a) - b) / 6),
    Case("opt_step_adamw", ggml.opt_step_adamw, [X, GRAD, X[::-1], MOMENTS, ADAM], adamw, order=1),
    Case("opt_step_sgd", ggml.opt_step_sgd, [X, GRAD, ADAM[:2]], lambda a, g, p: a * (1 - p[0] * p[1]) - p[0] * g),
    Case("map_custom1", lambda a: ggml.map_custom1(a, np.sinh, sinh_rule), [X], np.sinh),
    Case("map_custom2", lambda a, b: ggml.map_custom2(a, b, np.multiply, lambda c, a, b: (c * b, c * a)), [X, GRAD], np.multiply),
    Case(
        "map_custom3",
        lambda a, b, c: ggml.map_custom3(a, b, c, lambda a, b, c: a * b + c, lambda t, a, b, c: (t * b, t * a, t)),
        [X, GRAD, X[::-1]],
        lambda a, b, c: a * b + c,
    ),
    Case(
        "custom",
        lambda a: ggml.custom([a], lambda x: x.sum(0), a.shape[1:], a.dtype, lambda t, x: (t + 0 * x,)),
        [X],
        lambda a: a.sum(0),
    ),
    Case(
        "custom",
        lambda a: ggml.custom_4d(a.dtype, 4, 3, 2, 1, [a], lambda x: 2 * x[None], lambda t, x: (2 * t[0],)),
        [X],
        lambda a: 2 * a[None],
        label="4d",
    ),
]
REVERSE_ONLY = ("map_custom1", "map_custom2", "map_custom3", "custom")
