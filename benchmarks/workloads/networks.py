"""Whole networks over images, features first: the loss of one batch and the gradient by all weights."""

from functools import partial

from benchmarks.workload import Workload, normal, workload


class JaxLayers:
    """The layers that networks are written in, once for fgrad and JAX."""

    def __init__(self, m):
        self.m, self.relu, self.tanh, self.softplus = m, m.nn.relu, m.np.tanh, m.nn.softplus
        self.conv_of = partial(m.lax.conv_general_dilated, dimension_numbers=("NCHW", "OIHW", "NCHW"))

    def conv(self, x, w, stride=1, pad=0, groups=1):
        return self.conv_of(x, w, (stride, stride), [(pad, pad)] * 2, feature_group_count=groups)

    def enlarge(self, x, w, stride, pad):
        k = w.shape[2] - 1 - pad
        return self.conv_of(x, self.m.np.flip(w, (2, 3)).swapaxes(0, 1), (1, 1), [(k, k)] * 2, lhs_dilation=(stride, stride))

    def norm(self, x, w):
        mean, var = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
        return (x - mean) * self.m.lax.rsqrt(var + 1e-5) * w[0][:, None, None] + w[1][:, None, None]

    def halve(self, x):
        return self.m.lax.reduce_window(x, -float("inf"), self.m.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def join(self, x, y):
        return self.m.np.concatenate([x, y], 1)

    def loss(self, x, y):
        return -self.m.np.mean(self.m.np.sum(self.m.nn.log_softmax(x, 1) * y, 1))


class TorchLayers:
    def __init__(self, m):
        self.F, self.cat, self.relu, self.tanh, self.softplus = m.F, m.torch.cat, m.F.relu, m.torch.tanh, m.F.softplus

    def conv(self, x, w, stride=1, pad=0, groups=1):
        return self.F.conv2d(x, w, stride=stride, padding=pad, groups=groups)

    def enlarge(self, x, w, stride, pad):
        return self.F.conv_transpose2d(x, w, stride=stride, padding=pad)

    def norm(self, x, w):
        return self.F.batch_norm(x, None, None, w[0], w[1], True)

    def halve(self, x):
        return self.F.max_pool2d(x, 2)

    def join(self, x, y):
        return self.cat([x, y], 1)

    def loss(self, x, y):
        return -(x.log_softmax(1) * y).sum(1).mean()


class Network(Workload):
    """`run` gives the loss."""

    tol = 6e-2  # a rounding that turns a relu is seen in the gradients: 4e-2 beside float64, in any library
    shapes: dict  # of convolutions' weights by name: (out, in, height, width)
    normed: tuple  # those with a batch norm behind them
    transposed: tuple = ()  # weights that are (in, out, height, width)

    def inputs(self, rng):
        batch, size = self.size
        weights = {k: normal(rng, *s, scale=(2 / (s[1] * s[2] * s[3])) ** 0.5) for k, s in self.shapes.items()}
        for k in self.normed:
            n = self.shapes[k][k in self.transposed]
            weights[k + "n"] = normal(rng, 2, n, scale=0.1) + 1
        return (weights, normal(rng, batch, 3, size, size), *self.targets(rng, batch, size))

    def targets(self, rng, batch, size):
        return (abs(normal(rng, batch, 10)),)

    def jaxlike(self, m, weights, *inputs):
        f = m.jit(m.value_and_grad(lambda w, *a: self.run(JaxLayers(m), w, *a)))
        return lambda: f(weights, *inputs)

    def torch(self, m, weights, *inputs):
        weights = {k: w.requires_grad_() for k, w in weights.items()}
        f = m.compile(lambda w, *a: self.run(TorchLayers(m), w, *a))

        def call():
            value = f(weights, *inputs)
            return value, dict(zip(weights, m.torch.autograd.grad(value, list(weights.values()))))

        return call


@workload("networks/residual: batch,size", sizes=((16, 32),), note="blocks of 64, 128 and 256 features, batch norms")
class Residual(Network):
    features = (64, 128, 256)
    shapes = {"stem": (64, 3, 3, 3), "out": (10, 256, 1, 1)}
    for i, (n, before) in enumerate(zip(features, (64, *features))):
        shapes |= {f"a{i}": (n, before, 3, 3), f"b{i}": (n, n, 3, 3)} | ({f"s{i}": (n, before, 1, 1)} if i else {})
    normed = ("stem", *[f"{k}{i}" for i in range(3) for k in "ab"])

    def run(self, layers, w, x, y):
        x = layers.relu(layers.norm(layers.conv(x, w["stem"], 1, 1), w["stemn"]))
        for i in range(3):
            h = layers.relu(layers.norm(layers.conv(x, w[f"a{i}"], 1 + (i > 0), 1), w[f"a{i}n"]))
            h = layers.norm(layers.conv(h, w[f"b{i}"], 1, 1), w[f"b{i}n"])
            x = layers.relu(h + (layers.conv(x, w[f"s{i}"], 2) if i else x))
        return layers.loss(layers.conv(x, w["out"]).mean((2, 3)), y)


@workload("networks/U-Net: batch,size", sizes=((4, 64),), note="32, 64 and 128 features, batch norms, a class for each pixel")
class UNet(Network):
    shapes = {
        "a0": (32, 3, 3, 3),
        "a1": (64, 32, 3, 3),
        "a2": (128, 64, 3, 3),
        "b0": (32, 32, 3, 3),
        "b1": (64, 64, 3, 3),
        "b2": (128, 128, 3, 3),
    }
    shapes |= {"u1": (128, 64, 2, 2), "c1": (64, 128, 3, 3), "u0": (64, 32, 2, 2), "c0": (32, 64, 3, 3), "out": (2, 32, 1, 1)}
    normed = ("a0", "a1", "a2", "b0", "b1", "b2", "c1", "c0")

    def targets(self, rng, batch, size):
        return (abs(normal(rng, batch, 2, size, size)),)

    def run(self, layers, w, x, y):
        def block(x, k):
            return layers.relu(layers.norm(layers.conv(x, w[k], 1, 1), w[k + "n"]))

        skips = []
        for i in range(3):
            x = block(block(layers.halve(x) if i else x, f"a{i}"), f"b{i}")
            skips.append(x)
        for i in (1, 0):
            x = block(layers.join(layers.enlarge(x, w[f"u{i}"], 2, 0), skips[i]), f"c{i}")
        return layers.loss(layers.conv(x, w["out"]), y)


@workload("networks/inverted residual: batch,size", sizes=((8, 32),), note="as in MobileNet, with batch norms")
class InvertedResidual(Network):
    blocks = ((16, 24, 2), (24, 24, 1), (24, 40, 2), (40, 40, 1), (40, 80, 2))  # features in, out, stride; six times as many inside
    shapes = {"stem": (16, 3, 3, 3), "out": (10, 80, 1, 1)}
    for i, (n, out, _) in enumerate(blocks):
        shapes |= {f"a{i}": (6 * n, n, 1, 1), f"b{i}": (6 * n, 1, 3, 3), f"c{i}": (out, 6 * n, 1, 1)}
    normed = tuple(k for k in shapes if k != "out")

    def run(self, layers, w, x, y):
        x = layers.relu(layers.norm(layers.conv(x, w["stem"], 1, 1), w["stemn"]))
        for i, (n, out, stride) in enumerate(self.blocks):
            h = layers.relu(layers.norm(layers.conv(x, w[f"a{i}"]), w[f"a{i}n"]))
            h = layers.relu(layers.norm(layers.conv(h, w[f"b{i}"], stride, 1, 6 * n), w[f"b{i}n"]))
            h = layers.norm(layers.conv(h, w[f"c{i}"]), w[f"c{i}n"])
            x = x + h if n == out else h
        return layers.loss(layers.conv(x, w["out"]).mean((2, 3)), y)


@workload(
    "networks/generator and critic: batch,size",
    sizes=((8, 64),),
    note="as in DCGAN, 64 to 512 features, batch norms",
)
class Adversarial(Network):
    shapes = {"d0": (64, 3, 4, 4), "d1": (128, 64, 4, 4), "d2": (256, 128, 4, 4), "d3": (512, 256, 4, 4), "d4": (1, 512, 4, 4)}
    shapes |= {"g0": (100, 512, 4, 4), "g1": (512, 256, 4, 4), "g2": (256, 128, 4, 4), "g3": (128, 64, 4, 4), "g4": (64, 3, 4, 4)}
    normed = ("d1", "d2", "d3", "g0", "g1", "g2", "g3")
    transposed = ("g0", "g1", "g2", "g3", "g4")

    def targets(self, rng, batch, size):
        return (normal(rng, batch, 100, 1, 1),)

    def run(self, layers, w, x, z):
        def critic(x):
            for i in range(4):
                x = layers.conv(x, w[f"d{i}"], 2, 1)
                x = layers.norm(x, w[f"d{i}n"]) if i else x
                x = layers.relu(x) - 0.2 * layers.relu(-x)
            return layers.conv(x, w["d4"])

        z = layers.relu(layers.norm(layers.enlarge(z, w["g0"], 1, 0), w["g0n"]))
        for i in range(1, 5):
            z = layers.enlarge(z, w[f"g{i}"], 2, 1)
            z = layers.relu(layers.norm(z, w[f"g{i}n"])) if i < 4 else layers.tanh(z)
        return layers.softplus(-critic(x)).mean() + layers.softplus(critic(z)).mean()
