"""The functions that the survey times: each written once against the jax-like namespace, with its inputs. NumPy runs those that it has."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

CASES = {}
MILLION = 1_000_000
SHAPES = (((1000, 1000), 1), ((1000, 1000), 0), ((MILLION,), 0), ((100, 100, 100), 1), ((100_000, 10), 1), ((10, 100_000), 0))  # and axis


@dataclass(frozen=True)
class Case:
    function: Callable  # of the namespace and the inputs
    inputs: tuple  # functions of a numpy Generator
    checked: bool = True  # results are compared with fgrad's


def case(name, function, *inputs, **options):
    if name in CASES:
        raise ValueError(f"survey case {name!r} is registered twice")
    CASES[name] = Case(function, inputs, **options)


def uniform(low, high):
    return lambda *shape: lambda rng: rng.uniform(low, high, shape).astype(np.float32)


real, positive, unit = uniform(-3, 3), uniform(0.05, 4), uniform(0.01, 0.99)


def integer(high, *shape):
    return lambda rng: rng.integers(0, high, shape).astype(np.int32)


def complex64(*shape):
    return lambda rng: (rng.uniform(-2, 2, shape) + 1j * rng.uniform(-2, 2, shape)).astype(np.complex64)


def ascending(*shape):
    return lambda rng: np.sort(rng.uniform(-3, 3, shape)).astype(np.float32)


def definite(*shape):
    """Symmetric positive definite matrices."""

    def make(rng):
        a = rng.standard_normal(shape)
        return (a @ np.swapaxes(a, -1, -2) / shape[-1] + np.eye(shape[-1])).astype(np.float32)

    return make


def _sum(m, tree):
    return sum(m.np.sum(x) for x in (tree if isinstance(tree, (tuple, list)) else (tree,)))


def both(name, function, *inputs):
    """The function, and the gradient by its first input of the sum of its results."""
    case(name, function, *inputs)
    case(f"grad of {name}", lambda m, *args: m.grad(lambda *a: _sum(m, function(m, *a)))(*args), *inputs)


def _parts(x, along):
    """x without its ends along each axis, moved by -1, 0 or 1 places along one of them."""
    inner = tuple([slice(1, -1)] * x.ndim)
    moved = [(*inner[:d], slice(1 + k, x.shape[d] - 1 + k), *inner[d + 1 :]) for d in range(x.ndim) for k in along]
    return x[inner], [x[at] for at in moved]


def _stencil_grad(m, x):
    def energy(x):
        centre, around = _parts(x, (-1, 1))
        return ((sum(around) - 2 * x.ndim * centre) ** 2).sum()

    return m.grad(energy)(x)


def _variation_grad(m, x):
    def variation(x):
        centre, ahead = _parts(x, (1,))
        return m.np.sqrt(sum((a - centre) ** 2 for a in ahead) + 1e-3).sum()

    return m.grad(variation)(x)


def _elementwise():
    unary = "sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh exp exp2 expm1 log log2 log10 log1p sqrt square cbrt abs sign floor"
    inside = ("arcsin", "arccos", "log", "log2", "log10", "sqrt")
    for n in unary.split() + "ceil rint trunc reciprocal sinc deg2rad isnan isfinite i0 nan_to_num".split():
        case(f"np.{n}", lambda m, x, n=n: getattr(m.np, n)(x), (unit if n in inside else real)(MILLION))
    for n in ("sin", "tan"):
        case(f"np.{n} of huge numbers", lambda m, x, n=n: getattr(m.np, n)(x), uniform(-1e20, 1e20)(MILLION))
    binary = "add multiply subtract divide power maximum minimum arctan2 hypot logaddexp fmod remainder floor_divide greater equal copysign"
    for n in binary.split() + "heaviside float_power nextafter".split():
        case(f"np.{n}", lambda m, x, y, n=n: getattr(m.np, n)(x, y), positive(MILLION), positive(MILLION))
    case("np.ldexp", lambda m, x, i: m.np.ldexp(x, i), real(MILLION), integer(5, MILLION))
    for p in (3, 2.5, -0.5):
        case(f"x ** {p}", lambda m, x, p=p: x**p, positive(MILLION))
    case("np.where", lambda m, x, y: m.np.where(x > 0, x, y), real(1000, 1000), real(1000, 1000))
    case("np.clip", lambda m, x: m.np.clip(x, -1, 1), real(1000, 1000))
    case("np.polyval", lambda m, p, x: m.np.polyval(p, x), real(8), real(MILLION))
    case("integer arithmetic", lambda m, a, b: (a * 3 + b) // 7 % 5, integer(1000, MILLION), integer(1000, MILLION))
    case("bytes by a number", lambda m, a: a.astype("uint8") // 3, integer(200, MILLION))
    case("np.packbits", lambda m, x: m.np.packbits(x > 0), real(MILLION))
    case("np.unpackbits", lambda m, a: m.np.unpackbits(a.astype("uint8")), integer(200, MILLION // 10))
    case("bitwise", lambda m, a, b: (a ^ b) & (a << 2) | (b >> 1), integer(1000, MILLION), integer(1000, MILLION))
    case("complex product and modulus", lambda m, a: m.np.abs(a * a.conj() + 1j), complex64(MILLION // 2))
    case("float32 to bfloat16", lambda m, x: x.astype(m.np.bfloat16), real(1000, 1000))
    case("float32 to int32", lambda m, x: x.astype(m.np.int32), real(1000, 1000))
    case("five-point stencil", lambda m, x: x[1:-1, 1:-1] * -4 + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:], real(1000, 1000))
    case("gradient of a stencil", _stencil_grad, real(1000, 1000))
    case("gradient of a stencil in space", _stencil_grad, real(64, 64, 64))
    case("gradient of a total variation in space", _variation_grad, real(64, 64, 64))
    case("stencil by roll", lambda m, x: sum(m.np.roll(x, s, a) for s in (1, -1) for a in (0, 1)) - 4 * x, real(1000, 1000))
    case("magnitude of gradients", lambda m, x: m.np.sqrt(sum(g * g for g in m.np.gradient(x))), real(1000, 1000))
    case("game of life", _life, integer(2, 500, 500))
    case("outer products of rows", lambda m, x, y: m.np.einsum("bi,bj->bij", x, y), real(64, 100), real(64, 100))
    case("a step of Viterbi's algorithm", lambda m, a, t, e: (a[:, :, None] + t).max(1) + e, real(16, 10), real(10, 10), real(16, 10))
    case("rows scaled and shifted", lambda m, x, w, b: x * w + b, real(4096, 256), real(256), real(256))
    case("cross product", lambda m, x, y: m.np.cross(x, y), real(100_000, 3), real(100_000, 3))
    case("gelu in bfloat16", lambda m, x: m.nn.gelu(x.astype(m.np.bfloat16)), real(MILLION))


def _life(m, x):
    n = sum(m.np.roll(x, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
    return (n == 3) | ((n == 2) & (x == 1))


def _networks():
    activations = (
        "relu relu6 sigmoid softplus sparse_plus silu log_sigmoid leaky_relu hard_tanh elu celu selu gelu mish hard_swish hard_sigmoid"
    )
    for n in activations.split() + "squareplus soft_sign glu".split():
        both(f"nn.{n}", lambda m, x, n=n: getattr(m.nn, n)(x), real(MILLION))
    both("nn.gelu, exact", lambda m, x: m.nn.gelu(x, approximate=False), real(MILLION))
    for n in ("softmax", "log_softmax", "standardize", "logsumexp"):
        for shape, axis in SHAPES[:2] + SHAPES[3:5]:
            both(f"cubes of nn.{n} {shape} axis {axis}", lambda m, x, n=n, a=axis: getattr(m.nn, n)(x, axis=a) ** 3, real(*shape))
        both(f"cubes of nn.{n} down 8 columns", lambda m, x, n=n: getattr(m.nn, n)(x, axis=0) ** 3, real(100_000, 8))
    case("nn.one_hot", lambda m, i: m.nn.one_hot(i, 100), integer(100, 10_000))
    both("mean pooling by reshape", lambda m, x: x.reshape(8, 28, 2, 28, 2, 64).mean((2, 4)), real(8, 56, 56, 64))
    both("mean pooling by reshape, features first", lambda m, x: x.reshape(8, 64, 28, 2, 28, 2).mean((3, 5)), real(8, 64, 56, 56))
    both("max pooling 2x2", lambda m, x: _max_pool(m, x, 2, 2, 0), real(8, 64, 56, 56))
    both("max pooling 3x3 by 2", lambda m, x: _max_pool(m, x, 3, 2, 1), real(8, 64, 56, 56))
    both("image.resize twice as large", lambda m, x: m.image.resize(x, (4, 128, 128, 16), "linear"), real(4, 64, 64, 16))
    both("image.resize twice as large by Lanczos's", lambda m, x: m.image.resize(x, (4, 64, 64, 16), "lanczos3"), real(4, 32, 32, 16))
    both("attention written out", _attention, real(4, 256, 8, 64), real(4, 256, 8, 64), real(4, 256, 8, 64))
    both("layer norm written out", _layer_norm, real(512, 256), real(256), real(256))
    case("softmax in bfloat16", lambda m, x: m.nn.softmax(x.astype(m.np.bfloat16)), real(1000, 1000))


@dataclass(frozen=True)
class Convolution:
    """Of images (batch, features, *spatial) and kernels (features out, features in / groups, *spatial), (in, out, ...) if transposed."""

    image: tuple
    kernel: tuple
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    transposed: bool = False

    def __call__(self, m, x, w):
        spatial = len(self.image) - 2
        reach = [self.dilation * (k - 1) for k in self.kernel[2:]]
        options = {"rhs_dilation": (self.dilation,) * spatial, "feature_group_count": self.groups}
        if self.transposed:
            w = m.np.flip(m.np.swapaxes(w, 0, 1), range(2, w.ndim))
            padding = [(r - self.padding, r - self.padding) for r in reach]
            return m.lax.conv_general_dilated(x, w, (1,) * spatial, padding, lhs_dilation=(self.stride,) * spatial, **options)
        return m.lax.conv_general_dilated(x, w, (self.stride,) * spatial, [(self.padding,) * 2] * spatial, **options)

    def shape(self):
        """Of the result."""
        sizes = zip(self.image[2:], self.kernel[2:])
        if self.transposed:
            return (self.image[0], self.kernel[1], *((n - 1) * self.stride - 2 * self.padding + k for n, k in sizes))
        return (
            self.image[0],
            self.kernel[0],
            *((n + 2 * self.padding - self.dilation * (k - 1) - 1) // self.stride + 1 for n, k in sizes),
        )


CONVOLUTIONS = {
    "3x3 of 1x512x7x7": Convolution((1, 512, 7, 7), (512, 512, 3, 3), padding=1),
    "3x3 of 1x256x14x14": Convolution((1, 256, 14, 14), (256, 256, 3, 3), padding=1),
    "3x3 of 1x64x56x56": Convolution((1, 64, 56, 56), (64, 64, 3, 3), padding=1),
    "3x3 of 8x64x32x32": Convolution((8, 64, 32, 32), (64, 64, 3, 3), padding=1),
    "3x3 of 32x128x8x8": Convolution((32, 128, 8, 8), (128, 128, 3, 3), padding=1),
    "3x3 by 2 of 4x64x56x56": Convolution((4, 64, 56, 56), (128, 64, 3, 3), 2, 1),
    "3x3 of 8x3x32x32": Convolution((8, 3, 32, 32), (16, 3, 3, 3), padding=1),
    "dilated 3x3 of 4x32x32x32": Convolution((4, 32, 32, 32), (32, 32, 3, 3), 1, 2, 2),
    "1x1 of 4x256x28x28": Convolution((4, 256, 28, 28), (64, 256, 1, 1)),
    "5x5 of 64x1x28x28": Convolution((64, 1, 28, 28), (16, 1, 5, 5)),
    "7x7 by 2 of 1x3x224x224": Convolution((1, 3, 224, 224), (64, 3, 7, 7), 2, 3),
    "4x4 by 4 of 8x3x64x64": Convolution((8, 3, 64, 64), (128, 3, 4, 4), 4),
    "depthwise 3x3 of 4x64x56x56": Convolution((4, 64, 56, 56), (64, 1, 3, 3), padding=1, groups=64),
    "grouped 3x3 of 4x128x28x28": Convolution((4, 128, 28, 28), (128, 4, 3, 3), padding=1, groups=32),
    "3 of 8x80x1000": Convolution((8, 80, 1000), (256, 80, 3), padding=1),
    "9 of 16x32x500": Convolution((16, 32, 500), (32, 32, 9), padding=4),
    "depthwise 4 of 8x256x512": Convolution((8, 256, 512), (256, 1, 4), padding=3, groups=256),
    "3x3x3 of 2x16x16x16x16": Convolution((2, 16, 16, 16, 16), (32, 16, 3, 3, 3), padding=1),
    "transposed 4x4 by 2 of 8x128x16x16": Convolution((8, 128, 16, 16), (128, 64, 4, 4), 2, 1, transposed=True),
    "transposed 4x4 by 2 of 1x512x4x4": Convolution((1, 512, 4, 4), (512, 256, 4, 4), 2, 1, transposed=True),
    "transposed 3x3 of 8x32x28x28": Convolution((8, 32, 28, 28), (32, 16, 3, 3), 1, 1, transposed=True),
}
CONVOLUTIONS = {f"convolution {name}": c for name, c in CONVOLUTIONS.items()}


def _convolutions():
    for name, c in CONVOLUTIONS.items():
        image, kernel, cotangent = real(*c.image), real(*c.kernel), real(*c.shape())
        case(name, c, image, kernel)
        case(f"image gradient of {name}", lambda m, x, w, g, c=c: m.vjp(lambda x: c(m, x, w), x)[1](g)[0], image, kernel, cotangent)
        case(f"kernel gradient of {name}", lambda m, x, w, g, c=c: m.vjp(lambda w: c(m, x, w), w)[1](g)[0], image, kernel, cotangent)


def _max_pool(m, x, size, stride, padding):
    pad = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    return m.lax.reduce_window(x, -math.inf, m.lax.max, (1, 1, size, size), (1, 1, stride, stride), pad)


def _attention(m, q, k, v):
    """Of (batch, positions, heads, width)."""
    return m.np.einsum("bhts,bshd->bthd", m.nn.softmax(m.np.einsum("bthd,bshd->bhts", q, k) / 8), v)


def _layer_norm(m, x, scale, bias):
    x = x - x.mean(-1, keepdims=True)
    return x / m.np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale + bias


def _special():
    count = MILLION // 10
    for n in "erf erfc gammaln digamma gamma ndtr log_ndtr i0 i0e i1 i1e expit entr factorial".split():
        case(f"special.{n}", lambda m, x, n=n: getattr(m.special, n)(x), positive(count))
    for n in ("erfinv", "ndtri", "logit"):
        case(f"special.{n}", lambda m, x, n=n: getattr(m.special, n)(x), unit(count))
    for n in "xlogy xlog1py betaln gammainc gammaincc kl_div rel_entr".split():
        case(f"special.{n}", lambda m, x, y, n=n: getattr(m.special, n)(x, y), positive(count), positive(count))
    case("special.betainc", lambda m, a, b, x: m.special.betainc(a, b, x), positive(count), positive(count), unit(count))
    case("special.zeta", lambda m, x, q: m.special.zeta(x + 1.5, q), positive(count), positive(count))
    case("special.polygamma", lambda m, n, x: m.special.polygamma(n + 1, x), integer(3, count), positive(count))
    case("special.multigammaln", lambda m, x: m.special.multigammaln(x + 1, 2), positive(count))


def _reductions():
    plain = "sum mean prod max min any all var std argmax argmin cumsum cumprod sort argsort median ptp"
    for n in plain.split() + "nanmax nansum nanmean flip count_nonzero".split():
        for shape, axis in SHAPES:
            case(f"np.{n} {shape} axis {axis}", lambda m, x, n=n, a=axis: getattr(m.np, n)(x, axis=a), real(*shape))
    for n in "sum mean prod max min var std cumsum cumprod sort".split():
        for shape, axis in SHAPES[:2] + SHAPES[3:4]:
            grad = lambda m, x, n=n, a=axis: m.grad(lambda x: (getattr(m.np, n)(x, axis=a) ** 2).sum())(x)  # noqa: E731
            case(f"grad of squares of np.{n} {shape} axis {axis}", grad, positive(*shape))
    for shape, axis in SHAPES[:2] + SHAPES[3:4]:
        both(f"np.linalg.norm {shape} axis {axis}", lambda m, x, a=axis: m.np.linalg.norm(x, axis=a), positive(*shape))
    case("np.percentile", lambda m, x: m.np.percentile(x, 30.0), real(100_000))
    case("lax.top_k", lambda m, x: m.lax.top_k(x, 5), real(1000, 1000))
    for n in (65_536, 131_072):
        case(f"np.sort of {n}", lambda m, x: m.np.sort(x), real(n))
    case("np.cumsum in bfloat16", lambda m, x: m.np.cumsum(x.astype(m.np.bfloat16), axis=1), real(1000, 1000))
    case("np.sum in bfloat16", lambda m, x: x.astype(m.np.bfloat16).sum(0), real(1000, 1000))
    case("lax.associative_scan", lambda m, x: m.lax.associative_scan(m.np.add, x), real(100_000))


def _movement():
    square = real(1000, 1000)
    for name, shape, axes in (("2-d", (1000, 1000), (1, 0)), ("021", (100,) * 3, (0, 2, 1)), ("210", (100,) * 3, (2, 1, 0))):
        case(f"np.transpose {name}", lambda m, x, a=axes: m.np.transpose(x, a) + 0, real(*shape))
    case("np.transpose 0213", lambda m, x: m.np.transpose(x, (0, 2, 1, 3)) + 0, real(16, 128, 8, 64))
    shuffled = real(1, 64, 64, 64, 2, 2)
    case("pixel shuffle", lambda m, x: m.np.transpose(x, (0, 1, 4, 2, 5, 3)).reshape(1, 128, 128, 64), shuffled)
    case("np.roll rows", lambda m, x: m.np.roll(x, 3, 0), square)
    case("np.roll columns", lambda m, x: m.np.roll(x, 3, 1), square)
    case("np.pad", lambda m, x: m.np.pad(x, ((1, 2), (3, 4))), square)
    case("np.pad reflect", lambda m, x: m.np.pad(x, 2, mode="reflect"), square)
    for axis in (0, 1):
        case(f"np.concatenate axis {axis}", lambda m, x, y, a=axis: m.np.concatenate([x, y], a), square, real(1000, 1000))
    case("np.stack axis -1", lambda m, x, y: m.np.stack([x, y], -1), square, real(1000, 1000))
    case("np.tile", lambda m, x: m.np.tile(x, (2, 2)), square)
    case("np.repeat", lambda m, x: m.np.repeat(x, 3, 1), square)
    case("np.tril", lambda m, x: m.np.tril(x), square)
    case("np.diff", lambda m, x: m.np.diff(x), square)
    case("np.delete", lambda m, x: m.np.delete(x, 7), real(100_000))
    case("np.insert", lambda m, x: m.np.insert(x, 7, 1.0), real(100_000))
    case("np.outer", lambda m, x, y: m.np.outer(x, y), real(1000), real(1000))
    case("np.kron", lambda m, x, y: m.np.kron(x, y), real(30, 30), real(30, 30))
    case("np.vander", lambda m, x: m.np.vander(x, 10), real(10_000))
    case("np.diag", lambda m, x: m.np.diag(x) + 0, square)
    case("np.meshgrid", lambda m, x: sum(m.np.meshgrid(x, x)), real(1000))
    case("np.eye", lambda m, x: m.np.eye(1000, dtype=m.np.float32) * x, real())
    case("x[::2, ::3]", lambda m, x: x[::2, ::3] * 1, square)
    case("x[::-1, ::-1]", lambda m, x: x[::-1, ::-1] * 1, square)
    case("dynamic_slice", lambda m, x: m.lax.dynamic_slice(x, (7, 7), (500, 500)), square)
    case("dynamic_update_slice", lambda m, x, u: m.lax.dynamic_update_slice(x, u, (7, 7)), square, real(500, 500))


def _bilinear(m, image, y, x):
    """The image between its pixels, at y and x."""
    top, left = (m.np.floor(c).astype(m.np.int32) for c in (y, x))
    bottom, right = (m.np.clip(c + 1, 0, n - 1) for c, n in zip((top, left), image.shape))
    v, u = y - top, x - left
    across = lambda i: image[i, left] * (1 - u) + image[i, right] * u  # noqa: E731
    return across(top) * (1 - v) + across(bottom) * v


def _indexing():
    square, many = real(1000, 1000), MILLION // 10
    case("x[i] rows", lambda m, x, i: x[i], square, integer(1000, 5000))
    case("np.take columns", lambda m, x, i: m.np.take(x, i, 1), square, integer(1000, 500))
    case("x[i, j]", lambda m, x, i, j: x[i, j], square, integer(1000, many), integer(1000, many))
    case("x[i, j] of a million", lambda m, x, i, j: x[i, j], square, integer(1000, 1000, 1000), integer(1000, 1000, 1000))
    case("x[i] of a small table", lambda m, x, i: x[i], real(1000), integer(1000, MILLION))
    case("bilinear sampling", _bilinear, real(512, 512), *[uniform(0, 511)(512, 512)] * 2)
    case("bilinear sampling of 10,000 points", _bilinear, real(512, 512), *[uniform(0, 511)(100, 100)] * 2)
    case("np.take_along_axis 1", lambda m, x, i: m.np.take_along_axis(x, i, 1), square, integer(1000, 1000, 50))
    case("np.take_along_axis 0", lambda m, x, i: m.np.take_along_axis(x, i, 0), square, integer(1000, 50, 1000))
    case("np.take_along_axis of short rows", lambda m, x, i: m.np.take_along_axis(x, i, -1), real(16, 100, 32), integer(32, 16, 100, 4))
    case("x.at[i].set rows", lambda m, x, i, u: x.at[i].set(u), square, integer(1000, 100), real(100, 1000), checked=False)
    case("x.at[i].add rows", lambda m, x, i, u: x.at[i].add(u), square, integer(1000, 5000), real(5000, 1000))
    case("x.at[i].add", lambda m, x, i, u: x.at[i].add(u), real(10_000), integer(10_000, many), real(many))
    case("x.at[i].max", lambda m, x, i, u: x.at[i].max(u), real(10_000), integer(10_000, many), real(many))
    case("x.at[:, i].add", lambda m, x, i, u: x.at[:, i].add(u), real(100_000, 16), integer(16, 16), real(100_000, 16))
    case("segment sum", lambda m, u, i: m.np.zeros((100, 8), u.dtype).at[i].add(u), real(many, 8), integer(100, many))
    case("np.searchsorted", lambda m, x, y: m.np.searchsorted(x, y), ascending(10_000), real(many))
    case("np.interp", lambda m, x, xp, fp: m.np.interp(x, xp, fp), real(many), ascending(1000), real(1000))
    case("np.histogram", lambda m, x: m.np.histogram(x, 50)[0], real(many), checked=False)
    case("np.bincount", lambda m, i: m.np.bincount(i, length=100), integer(100, many))
    case("np.digitize", lambda m, x, b: m.np.digitize(x, b), real(many), ascending(50))
    case("np.lexsort", lambda m, a, b: m.np.lexsort((a, b)), integer(100, many), integer(100, many))
    case("np.unique", lambda m, x: m.np.unique(x, size=100), integer(100, many))
    case("np.nonzero", lambda m, x: m.np.nonzero(x > 0, size=many // 2)[0], real(many))


def _products():
    for dtype in ("float32", "bfloat16", "float16"):
        case(
            f"matmul {dtype} 1000",
            lambda m, x, y, d=dtype: x.astype(d) @ y.astype(d),
            real(1000, 1000),
            real(1000, 1000),
            checked=dtype == "float32",
        )
    case(
        "matmul bfloat16 20000 of 4",
        lambda m, x, y: x.astype("bfloat16") @ y.astype("bfloat16"),
        real(20_000, 4, 4),
        real(20_000, 4, 4),
        checked=False,
    )
    case(
        "matmul bfloat16 98304x8 by 8x8",
        lambda m, x, y: x.astype("bfloat16") @ y.astype("bfloat16"),
        real(98_304, 8),
        real(8, 8),
        checked=False,
    )
    case("matmul int32 300", lambda m, x, y: x @ y, integer(9, 300, 300), integer(9, 300, 300))
    case("matmul complex64 300", lambda m, x, y: x @ y, complex64(300, 300), complex64(300, 300))
    case("matmul 10", lambda m, x, y: x @ y, real(10, 10), real(10, 10))
    case("matmul 1000 of 4", lambda m, x, y: x @ y, real(1000, 4, 4), real(1000, 4, 4))
    case("matrix by vector", lambda m, x, y: x @ y, real(1000, 1000), real(1000))
    case("vector by matrix", lambda m, x, y: y @ x, real(1000, 1000), real(1000))
    case("np.vdot", lambda m, x, y: m.np.vdot(x, y), real(MILLION), real(MILLION))
    case("np.tensordot", lambda m, x, y: m.np.tensordot(x, y, 2), real(50, 40, 30), real(40, 30, 60))
    for spec, a, b in (
        ("bij,bjk->bik", (64, 64, 64), (64, 64, 64)),
        ("bqhd,bkhd->bhqk", (4, 128, 8, 32), (4, 128, 8, 32)),
        ("ijk,ijk->ij", (100, 100, 100), (100, 100, 100)),
        ("i,ij->j", (1000,), (1000, 1000)),
        ("bi,ijk->bjk", (64, 64), (64, 64, 64)),
        ("bmk,bk->bm", (3000, 64, 64), (3000, 64)),
        ("bkm,bk->bm", (300, 200, 200), (300, 200)),
    ):
        both(f"einsum {spec}", lambda m, x, y, s=spec: m.np.einsum(s, x, y), real(*a), real(*b))
    case("einsum bkm,bk->bm complex64", lambda m, x, y: m.np.einsum("bkm,bk->bm", x, y), complex64(800, 17, 115), complex64(800, 17))
    case(
        "einsum bmk,bk->bm bfloat16, rows of 5",
        lambda m, x, y: m.np.einsum("bmk,bk->bm", x.astype("bfloat16"), y.astype("bfloat16")),
        real(1000, 80, 5),
        real(1000, 5),
        checked=False,
    )
    case("matmul int32 2000 of 21x8 by 8x2", lambda m, x, y: x @ y, integer(9, 2000, 21, 8), integer(9, 2000, 8, 2))
    case("matmul int32 18000 rows by 3", lambda m, x, y: x @ y, integer(9, 18_000, 96), integer(9, 96, 3))
    case("np.convolve", lambda m, x, y: m.np.convolve(x, y), real(10_000), real(100))
    case("np.cov", lambda m, x: m.np.cov(x), real(100, 10_000))
    case("np.cov of columns", lambda m, x: m.np.cov(x, rowvar=False), real(10_000, 20))
    case("np.cov of x.T", lambda m, x: m.np.cov(x.T), real(10_000, 20))
    case("np.max of x.T by rows", lambda m, x: m.np.max(x.T, 1), real(1000, 300))
    case("np.var of x.T by rows", lambda m, x: m.np.var(x.T, 1), real(1000, 300))
    case("np.corrcoef", lambda m, x: m.np.corrcoef(x), real(100, 1000))
    case("einsum ii->", lambda m, x: m.np.einsum("ii->", x), real(1000, 1000))
    case("np.trace", lambda m, x: m.np.trace(x), real(1000, 1000))


def _linear_algebra():
    for n in ("cholesky", "inv", "det", "slogdet", "eigvalsh", "pinv"):
        case(f"linalg.{n} 200", lambda m, x, n=n: getattr(m.np.linalg, n)(x), definite(200, 200))
    for n in ("eigh", "svd", "qr"):  # the vectors' signs are free
        case(f"linalg.{n} 200", lambda m, x, n=n: getattr(m.np.linalg, n)(x), definite(200, 200), checked=False)
    for n in ("cholesky", "inv", "det", "slogdet"):
        case(f"linalg.{n} 1000 of 8", lambda m, x, n=n: getattr(m.np.linalg, n)(x), definite(1000, 8, 8))
        halved = lambda m, x, n=n: _sum(m, getattr(m.np.linalg, n)(x * 0.5))  # noqa: E731 (half of it has a determinant that float32 holds)
        case(f"grad of linalg.{n} 200", lambda m, x, f=halved: m.grad(lambda x: f(m, x))(x), definite(200, 200))
    case("linalg.eigh 1000 of 3", lambda m, x: m.np.linalg.eigh(x), definite(1000, 3, 3), checked=False)
    case("linalg.eigvalsh 1000 of 8", lambda m, x: m.np.linalg.eigvalsh(x), definite(1000, 8, 8))
    case("singular values 1000 of 8", lambda m, x: m.np.linalg.svd(x, compute_uv=False), real(1000, 8, 8))
    both("linalg.solve 200", lambda m, a, b: m.np.linalg.solve(a, b), definite(200, 200), real(200, 10))
    case("linalg.solve 1000 of 8", lambda m, a, b: m.np.linalg.solve(a, b), definite(1000, 8, 8), real(1000, 8, 1))
    case("linalg.lstsq", lambda m, a, b: m.np.linalg.lstsq(a, b)[0], real(200, 50), real(200))
    case("linalg.matrix_power", lambda m, x: m.np.linalg.matrix_power(x, 5), definite(200, 200))
    case("linalg.solve_triangular", lambda m, a, b: m.scipy_linalg.solve_triangular(a, b, lower=True), definite(200, 200), real(200, 50))
    case("linalg.expm", lambda m, x: m.scipy_linalg.expm(x), unit(50, 50))
    for n, shape in (("fft", (1000, 1024)), ("rfft", (1000, 1024)), ("fft2", (10, 256, 256)), ("rfft2", (10, 256, 256)), ("fft", (64,))):
        case(f"fft.{n} {shape}", lambda m, x, n=n: getattr(m.np.fft, n)(x), real(*shape))
    case("fft.rfft of 2 ** 20", lambda m, x: m.np.fft.rfft(x), real(1 << 20))
    case("grad of power of fft.rfft", lambda m, x: m.grad(lambda x: m.np.sum(m.np.abs(m.np.fft.rfft(x)) ** 2))(x), real(1000, 1024))


def _random():
    draws = {
        "uniform": lambda r, k: r.uniform(k, (MILLION,)),
        "normal": lambda r, k: r.normal(k, (MILLION,)),
        "randint": lambda r, k: r.randint(k, (MILLION,), 0, 10),
        "bernoulli": lambda r, k: r.bernoulli(k, 0.3, (MILLION,)),
        "gumbel": lambda r, k: r.gumbel(k, (MILLION,)),
        "exponential": lambda r, k: r.exponential(k, (MILLION,)),
        "laplace": lambda r, k: r.laplace(k, (MILLION,)),
        "cauchy": lambda r, k: r.cauchy(k, (MILLION,)),
        "truncated_normal": lambda r, k: r.truncated_normal(k, -1.0, 1.0, (MILLION,)),
        "gamma": lambda r, k: r.gamma(k, 2.0, (10_000,)),
        "beta": lambda r, k: r.beta(k, 2.0, 3.0, (10_000,)),
        "poisson": lambda r, k: r.poisson(k, 3.0, (10_000,)),
        "binomial": lambda r, k: r.binomial(k, 10, 0.3, (10_000,)),
        "t": lambda r, k: r.t(k, 3.0, (10_000,)),
        "categorical": lambda r, k: r.categorical(k, np.zeros((1000, 100), np.float32)),
        "permutation": lambda r, k: r.permutation(k, 100_000),
        "choice": lambda r, k: r.choice(k, 1000, (10_000,)),
        "split": lambda r, k: r.split(k, 1000),
    }
    for n, draw in draws.items():
        case(f"random.{n}", lambda m, key, d=draw: d(m.random, key), lambda rng: np.array([0, 7], np.uint32), checked=False)


def _programs():
    distances = lambda m, x: ((x[:, None] - x[None]) ** 2).sum(-1)  # noqa: E731
    both("pairwise distances", lambda m, x: m.np.sqrt(distances(m, x) + 1e-6), real(500, 3))
    both("squared-exponential kernel", lambda m, x: m.np.exp(-distances(m, x)), real(500, 10))
    case("grad of n-body energy", lambda m, x: m.grad(lambda x: (1 / m.np.sqrt(distances(m, x) + 0.1)).sum())(x), real(300, 3))
    case("steps of n-body", _n_body, real(32, 3), real(32, 3))
    case("grad of logistic regression", _logistic, real(100), real(10_000, 100), real(10_000))
    case("step of k-means", _k_means, real(10_000, 4), real(20, 4), checked=False)
    case("Gaussian process likelihood", _gaussian_process, positive(), real(200), real(200))
    case("iterative soft thresholding", _thresholding, real(200, 100), real(200))
    case("Sinkhorn's iteration", _sinkhorn, positive(200, 200))
    case("Mandelbrot's set", _mandelbrot, complex64(300, 300), checked=False)
    case("heat equation, 100 steps", _heat, real(200, 200))
    case("scan of small steps", lambda m, x: m.lax.scan(lambda c, y: (c * 0.9 + y, c.sum()), x[0] * 0, x), real(1000, 10))
    case("fori_loop that sets elements", lambda m, x: m.lax.fori_loop(1, 100, lambda i, y: y.at[i].set(y[i - 1] * 0.5 + 1), x), real(100))
    case(
        "fori_loop that sets two rows",
        lambda m, x: m.lax.fori_loop(0, 100, lambda i, y: y.at[0].set(i * 1.0).at[-1].set(1.0), x),
        real(512, 512),
    )
    case("fori_loops that fill a table", _table, real(64, 64))
    case("while_loops that strike out", _sieve, real(2000))
    case("scan that selects", lambda m, x: m.lax.scan(lambda c, y: (m.np.where(y > 0, c + 1, c * 0.5), c), x[0], x), real(1000, 4))
    case("selective scan", _selective, real(64, 2, 32), positive(64, 2, 32), real(64, 2, 8), real(64, 2, 8), real(32, 8))
    case("grad of a recurrence", _recurrence, uniform(-0.3, 0.3)(32, 32), real(200, 32))
    case("grad of a wave by rolls in a scan", _wave, unit(128, 128))
    case("grad of lookups in a loop", _lookups, unit(10_000))
    case("while_loop", _count, real(10))
    case("fori_loop of products", lambda m, x: m.lax.fori_loop(0, 100, lambda i, y: y @ x * 0.01, x), real(32, 32))
    case("fori_loop of products of 3 by 3", lambda m, x: m.lax.fori_loop(0, 1000, lambda i, y: y @ x, x), unit(3, 3))
    case("elements set where a mask allows, in a loop", _masked, real(100_000))
    case("lax.map", lambda m, x: m.lax.map(lambda y: m.np.sin(y).sum(), x), real(1000, 100))
    case("vmap of grad", lambda m, x: m.vmap(m.grad(lambda x: m.np.tanh(x).prod()))(x), real(1000, 20))
    case("vmap of switch", _switch, integer(3, 10_000), real(10_000))
    case("hessian", lambda m, x: m.hessian(lambda x: m.np.sum(m.np.exp(-(x**2))) * m.np.sum(x**3))(x), real(200))
    case("jacfwd", lambda m, x: m.jacfwd(lambda x: m.np.sin(x) * m.np.roll(x, 1))(x), real(300))


def _masked(m, x):
    return m.lax.fori_loop(0, 100, lambda i, x: m.np.where(x[i] > 0, x.at[i + 1].set(x[i] * 0.5), x), x)


def _table(m, x):
    def cell(i, j, d):
        return d.at[i, j].set(m.np.minimum(m.np.minimum(d[i - 1, j], d[i, j - 1]) + 1, d[i - 1, j - 1] + d[i, j]))

    return m.lax.fori_loop(1, 64, lambda i, d: m.lax.fori_loop(1, 64, lambda j, d: cell(i, j, d), d), x)


def _sieve(m, x):
    def strike(i, s):
        return m.lax.while_loop(lambda c: c[0] < 2000, lambda c: (c[0] + i, c[1].at[c[0]].set(False)), (i * i, s))[1]

    return m.lax.fori_loop(2, 45, strike, x == x)


def _logistic(m, w, x, y):
    return m.grad(lambda w: m.np.mean(m.np.logaddexp(0, -y * (x @ w))))(w)


def _k_means(m, x, c):
    nearest = m.np.argmin(((x[:, None] - c[None]) ** 2).sum(-1), 1)
    return m.np.zeros_like(c).at[nearest].add(x), m.np.bincount(nearest, length=20)


def _n_body(m, x, v):
    def step(_, c):
        x, v = c
        d = x[None] - x[:, None]
        r = m.np.sqrt((d * d).sum(-1) + 0.1)
        v = v + 0.01 * (d / r[..., None] ** 3).sum(1)
        return x + 0.01 * v, v

    return m.lax.fori_loop(0, 50, step, (x, v))


def _gaussian_process(m, scale, x, y):
    def loss(scale):
        k = m.np.exp(-0.5 * ((x[:, None] - x[None]) / scale) ** 2) + 0.1 * m.np.eye(200)
        return 0.5 * y @ m.np.linalg.solve(k, y) + 0.5 * m.np.linalg.slogdet(k)[1]

    return m.value_and_grad(loss)(scale)


def _thresholding(m, a, b):
    def step(i, x):
        z = x - 0.001 * a.T @ (a @ x - b)
        return m.np.sign(z) * m.np.maximum(m.np.abs(z) - 0.01, 0)

    return m.lax.fori_loop(0, 50, step, m.np.zeros(100))


def _sinkhorn(m, cost):
    lse = lambda x, axis: m.np.log(m.np.sum(m.np.exp(x), axis=axis))  # noqa: E731
    step = lambda i, f: -lse(-cost - lse(-cost - f[:, None], 0)[None], 1)  # noqa: E731
    return m.lax.fori_loop(0, 50, step, m.np.zeros(200))


def _mandelbrot(m, c):
    return m.lax.fori_loop(0, 50, lambda i, z: m.np.where(m.np.abs(z) < 2, z * z + c, z), c)


def _heat(m, u):
    laplacian = lambda u: u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]  # noqa: E731
    return m.lax.fori_loop(0, 100, lambda i, u: u.at[1:-1, 1:-1].add(0.1 * laplacian(u)), u)


def _wave(m, u):
    def step(state, _):
        u, v = state
        v = v + 0.1 * (sum(m.np.roll(u, s, a) for a in (0, 1) for s in (1, -1)) - 4 * u)
        return (u + 0.1 * v, v), None

    return m.grad(lambda u: (m.lax.scan(step, (u, 0 * u), None, length=30)[0][0] ** 2).sum())(u)


def _selective(m, x, dt, b, c, rates):
    def step(h, row):
        x, dt, b, c = row
        h = m.np.exp(-dt[..., None] * m.np.exp(rates)) * h + (dt * x)[..., None] * b[:, None]
        return h, (h * c[:, None]).sum(-1)

    return m.lax.scan(step, m.np.zeros((2, 32, 8)), (x, dt, b, c))[1]


def _recurrence(m, w, x):
    return m.grad(lambda w: m.lax.scan(lambda c, y: (m.np.tanh(c @ w + y), None), x[0], x)[0].sum())(w)


def _lookups(m, x):
    step = lambda i, s: ((s[0] * 5 + 3) % len(x), m.np.sin(s[1]) + x[s[0]])  # noqa: E731
    return m.grad(lambda x: m.lax.fori_loop(0, 200, step, (1, x[0]))[1])(x)


def _count(m, x):
    return m.lax.while_loop(lambda s: s[0] < 1000, lambda s: (s[0] + 1, s[1] * 0.99 + 0.1), (0, x))


def _switch(m, i, x):
    return m.vmap(lambda i, x: m.lax.switch(i, [m.np.sin, m.np.cos, m.np.tan], x))(i, x)


for _family in (
    _elementwise,
    _networks,
    _convolutions,
    _special,
    _reductions,
    _movement,
    _indexing,
    _products,
    _linear_algebra,
    _random,
    _programs,
):
    _family()
