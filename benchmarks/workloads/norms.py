"""Softmax and norms, forward and backward."""

import math

from benchmarks.workload import Workload, normal, workload

SHAPES = ((4096, 128), (2048, 1024))


class Rows(Workload):
    def inputs(self, rng):
        return (normal(rng, *self.size),)

    def bytes(self):
        return 8 * self.size[0] * self.size[1]


@workload("norms/softmax", sizes=SHAPES)
class Softmax(Rows):
    def jaxlike(self, m, x):
        f = m.jit(m.nn.softmax)
        return lambda: f(x)

    def torch(self, m, x):
        return lambda: m.torch.softmax(x, -1)

    def numpy(self, np, x):
        def call():
            e = np.exp(x - x.max(-1, keepdims=True))
            e /= e.sum(-1, keepdims=True)
            return e

        return call


class PlainGrad(Rows):
    """Value and gradient of sum(norm(x) * ct), in plain array operations."""

    def inputs(self, rng):
        return normal(rng, *self.size), normal(rng, *self.size)

    def jaxlike(self, m, x, ct):
        f = m.jit(m.value_and_grad(lambda x, ct: m.np.sum(self.norm(m.np, x) * ct)))
        return lambda: f(x, ct)

    def torch(self, m, x, ct):
        """The library's own function, which what is written out is to equal."""
        norm, x = m.compile(lambda x: getattr(m.torch, self.torch_name)(x, -1)), x.requires_grad_()

        def call():
            value = (norm(x) * ct).sum()
            return value, m.torch.autograd.grad(value, x)[0]

        return call

    def numpy(self, np, x, ct):
        def call():
            y = self.norm(np, x)
            return np.sum(y * ct), self.cotangent(np, y, ct)

        return call


@workload("norms/softmax value_and_grad, written out", sizes=SHAPES)
class PlainSoftmaxGrad(PlainGrad):
    torch_name = "softmax"

    @staticmethod
    def norm(np, x):
        e = np.exp(x - np.max(x, -1, keepdims=True))
        return e / np.sum(e, -1, keepdims=True)

    @staticmethod
    def cotangent(np, y, ct):
        return y * (ct - np.sum(y * ct, -1, keepdims=True))


@workload("norms/log_softmax value_and_grad, written out", sizes=SHAPES)
class PlainLogSoftmaxGrad(PlainGrad):
    torch_name = "log_softmax"

    @staticmethod
    def norm(np, x):
        z = x - np.max(x, -1, keepdims=True)
        return z - np.log(np.sum(np.exp(z), -1, keepdims=True))

    @staticmethod
    def cotangent(np, y, ct):
        return ct - np.exp(y) * np.sum(ct, -1, keepdims=True)


@workload("norms/log_softmax", sizes=SHAPES)
class LogSoftmax(Rows):
    def jaxlike(self, m, x):
        f = m.jit(m.nn.log_softmax)
        return lambda: f(x)

    def torch(self, m, x):
        return lambda: m.torch.log_softmax(x, -1)

    def numpy(self, np, x):
        def call():
            s = x - x.max(-1, keepdims=True)
            return s - np.log(np.exp(s).sum(-1, keepdims=True))

        return call


class Weighted(Rows):
    """x, the cotangent, scale, bias."""

    def inputs(self, rng):
        n, d = self.size
        return normal(rng, n, d), normal(rng, n, d), 1 + normal(rng, d, scale=0.1), normal(rng, d)

    def functions(self, m):
        return m.nn


@workload("norms/layer_norm", sizes=SHAPES)
class LayerNorm(Weighted):
    def jaxlike(self, m, x, ct, w, b):
        f = m.jit(m.nn.layer_norm)
        return lambda: f(x, w, b)

    def torch(self, m, x, ct, w, b):
        return lambda: m.F.layer_norm(x, w.shape, w, b)

    def numpy(self, np, x, ct, w, b):
        def call():
            c = x - x.mean(-1, keepdims=True)
            return c / np.sqrt(np.mean(c * c, -1, keepdims=True) + np.float32(1e-5)) * w + b

        return call


class NormGrad(Weighted):
    """Value, and the gradients of sum(norm(x) * ct) in x and the weights."""

    def bytes(self):
        return 16 * self.size[0] * self.size[1]


@workload("norms/layer_norm value_and_grad", sizes=SHAPES)
class LayerNormGrad(NormGrad):
    def jaxlike(self, m, x, ct, w, b):
        norm = self.functions(m).layer_norm
        f = m.jit(m.value_and_grad(lambda x, w, b, ct: m.np.sum(norm(x, w, b) * ct), argnums=(0, 1, 2)))
        return lambda: f(x, w, b, ct)

    def torch(self, m, x, ct, w, b):
        xs = [v.requires_grad_() for v in (x, w, b)]
        loss = m.compile(lambda x, w, b: (m.F.layer_norm(x, w.shape, w, b) * ct).sum())

        def call():
            value = loss(*xs)
            return value, m.torch.autograd.grad(value, xs)

        return call

    def numpy(self, np, x, ct, w, b):
        def call():
            c = x - x.mean(-1, keepdims=True)
            r = 1 / np.sqrt(np.mean(c * c, -1, keepdims=True) + np.float32(1e-5))
            y, g = c * r, ct * w
            dx = r * (g - g.mean(-1, keepdims=True) - y * np.mean(g * y, -1, keepdims=True))
            return np.sum((y * w + b) * ct), (dx, np.sum(ct * y, 0), ct.sum(0))

        return call


@workload("norms/layer_norm value_and_grad, written out", sizes=SHAPES[1:])
class PlainLayerNormGrad(LayerNormGrad):
    def functions(self, m):
        return m.plain


@workload("norms/rms_norm value_and_grad", sizes=SHAPES)
class RmsNormGrad(NormGrad):
    def jaxlike(self, m, x, ct, w, b):
        norm = self.functions(m).rms_norm
        f = m.jit(m.value_and_grad(lambda x, w, ct: m.np.sum(norm(x, w) * ct), argnums=(0, 1)))
        return lambda: f(x, w, ct)

    def torch(self, m, x, ct, w, b):
        xs = [v.requires_grad_() for v in (x, w)]
        loss = m.compile(lambda x, w: (m.F.rms_norm(x, w.shape, w, 1e-6) * ct).sum())

        def call():
            value = loss(*xs)
            return value, m.torch.autograd.grad(value, xs)

        return call

    def numpy(self, np, x, ct, w, b):
        def call():
            r = 1 / np.sqrt(np.mean(x * x, -1, keepdims=True) + np.float32(1e-6))
            y, g = x * r, ct * w
            return np.sum(y * g), (r * (g - y * np.mean(g * y, -1, keepdims=True)), np.sum(ct * y, 0))

        return call


@workload("norms/rms_norm value_and_grad, written out", sizes=SHAPES[1:])
class PlainRmsNormGrad(RmsNormGrad):
    def functions(self, m):
        return m.plain


IMAGES = ((32, 64, 28, 28),)


class Images(Workload):
    """x, the cotangent, scale, bias, running mean and variance; channels along axis `channel`."""

    channel = 1

    def inputs(self, rng):
        c = self.size[self.channel]
        x, ct = normal(rng, *self.size), normal(rng, *self.size)
        return x, ct, 1 + normal(rng, c, scale=0.1), normal(rng, c), normal(rng, c, scale=0.1), 1 + normal(rng, c, scale=0.1) ** 2

    def bytes(self):
        return 8 * math.prod(self.size)


class ImageNormGrad(Images):
    """Value, and the gradients of sum(norm(x) * ct) in x, scale and bias."""

    def bytes(self):
        return 16 * math.prod(self.size)

    def jaxlike(self, m, x, ct, w, b, *state):
        f = m.jit(m.value_and_grad(lambda x, w, b, ct: m.np.sum(self.norm(m, x, w, b, state) * ct), argnums=(0, 1, 2)))
        return lambda: f(x, w, b, ct)

    def torch(self, m, x, ct, w, b, *state):
        xs = [v.requires_grad_() for v in (x, w, b)]
        loss = m.compile(lambda x, w, b: (self.torch_norm(m, x, w, b) * ct).sum())

        def call():
            value = loss(*xs)
            return value, m.torch.autograd.grad(value, xs)

        return call


@workload("norms/batch_norm value_and_grad", sizes=IMAGES, note="training, channels first")
class BatchNormGrad(ImageNormGrad):
    def norm(self, m, x, w, b, state):
        return m.nn.batch_norm(x, state, w, b, training=True, channel_axis=self.channel)[0]

    def torch_norm(self, m, x, w, b):
        return m.F.batch_norm(x, None, None, w, b, training=True)


@workload("norms/batch_norm value_and_grad, channels last", sizes=((32, 28, 28, 64),), note="training")
class BatchNormGradLast(BatchNormGrad):
    channel = 3

    def torch_norm(self, m, x, w, b):
        return super().torch_norm(m, x.permute(0, 3, 1, 2), w, b).permute(0, 2, 3, 1)


@workload("norms/group_norm value_and_grad", sizes=IMAGES, note="8 groups")
class GroupNormGrad(ImageNormGrad):
    def norm(self, m, x, w, b, state):
        return m.nn.group_norm(x, 8, w, b)

    def torch_norm(self, m, x, w, b):
        return m.F.group_norm(x, 8, w, b)


@workload("norms/batch_norm evaluation", sizes=IMAGES)
class BatchNorm(Images):
    def jaxlike(self, m, x, ct, w, b, *state):
        f = m.jit(lambda x, w, b, *state: m.nn.batch_norm(x, state, w, b, training=False)[0])
        return lambda: f(x, w, b, *state)

    def torch(self, m, x, ct, w, b, *state):
        return lambda: m.F.batch_norm(x, *state, w, b)
