"""Convolutions and pooling, channels last; PyTorch's in its own layout, which it prefers."""

import math

import numpy as np

from benchmarks.workload import Workload, normal, workload

LAYOUT = ("NHWC", "HWIO", "NHWC")

# batch, size, features in and out, window, stride, dilation, groups
SIZES = (
    (8, 56, 64, 256, 1, 1, 1, 1),
    (8, 56, 64, 64, 3, 1, 1, 1),
    (8, 14, 256, 256, 3, 1, 1, 1),
    (8, 28, 32, 64, 5, 1, 1, 1),
    (8, 56, 64, 128, 3, 2, 1, 1),
    (8, 28, 64, 64, 3, 1, 2, 1),
    (8, 56, 128, 128, 3, 1, 1, 128),
    (8, 28, 128, 128, 3, 1, 1, 32),
)
# a discriminator's, whose gradient of the kernel is that of a dilation
STEPS = (16, 32, 64, 128, 4, 2, 1, 1)
# of a colour image, between stages, odd numbers of features, one image, wide depthwise windows, those as large as the image,
# a large kernel over small images, one output feature
MORE = (
    (8, 112, 3, 64, 7, 2, 1, 1),
    (8, 56, 256, 128, 1, 2, 1, 1),
    (8, 28, 17, 100, 3, 1, 1, 1),
    (1, 56, 64, 64, 3, 1, 1, 1),
    (8, 28, 96, 96, 7, 1, 1, 96),
    (8, 7, 256, 64, 5, 2, 1, 1),
    (16, 7, 512, 512, 3, 1, 1, 1),
    (8, 56, 64, 1, 3, 1, 1, 1),
)


@workload("conv/batch,size,in,out,window,stride,dilation,groups", sizes=SIZES + MORE, quick=SIZES[1:2])
class Forward(Workload):
    axes = 2
    layout = LAYOUT
    padded = True

    def inputs(self, rng):
        n, size, i, o, k, _, _, groups = self.size
        window, space = (k,) * self.axes, (size,) * self.axes
        return normal(rng, n, *space, i), normal(rng, *window, i // groups, o, scale=(k**self.axes * i / groups) ** -0.5)

    def flops(self):
        n, size, i, o, k, stride, _, groups = self.size
        size -= 0 if self.padded else k - 1
        return 2 * n * math.ceil(size / stride) ** self.axes * k**self.axes * i // groups * o

    def convolution(self, m):
        *_, k, stride, dilation, groups = self.size
        low = dilation * (k - 1) // 2 if self.padded else 0
        strides, dilations, pads = (stride,) * self.axes, (dilation,) * self.axes, ((low, low),) * self.axes
        return lambda x, w: m.lax.conv_general_dilated(
            x, w, strides, pads, rhs_dilation=dilations, dimension_numbers=self.layout, feature_group_count=groups
        )

    def torch_convolution(self, m):
        *_, k, stride, dilation, groups = self.size
        conv = {1: m.F.conv1d, 2: m.F.conv2d, 3: m.F.conv3d}[self.axes]
        low = dilation * (k - 1) // 2 if self.padded else 0
        return lambda x, w: conv(x, w, stride=stride, padding=low, dilation=dilation, groups=groups)

    def torch_inputs(self, m, x, w):
        """The same values as (batch, features, size, size) and (out, in, window, window), laid out with the features last."""
        last = m.torch.channels_last
        return x.permute(0, 3, 1, 2).contiguous(memory_format=last), w.permute(3, 2, 0, 1).contiguous(memory_format=last)

    def jaxlike(self, m, x, w):
        f = m.jit(self.convolution(m))
        return lambda: f(x, w)

    def torch(self, m, x, w):
        x, w = self.torch_inputs(m, x, w)
        f = m.compile(self.torch_convolution(m))
        return lambda: f(x, w).permute(0, 2, 3, 1)


@workload(
    "conv/grad of sum(conv ** 2): batch,size,in,out,window,stride,dilation,groups",
    sizes=(*SIZES, STEPS, (32, 28, 192, 192, 3, 1, 1, 192)),
    quick=SIZES[1:2],
    tol=1e-3,
)
class Gradient(Forward):
    def flops(self):
        return 3 * super().flops()

    def jaxlike(self, m, x, w):
        conv = self.convolution(m)
        f = m.jit(m.grad(lambda x, w: m.np.sum(conv(x, w) ** 2), argnums=(0, 1)))
        return lambda: f(x, w)

    def torch(self, m, x, w):
        xs = [v.requires_grad_() for v in self.torch_inputs(m, x, w)]
        conv = self.torch_convolution(m)
        f = m.compile(lambda x, w: (conv(x, w) ** 2).sum())

        def call():
            gx, gw = m.torch.autograd.grad(f(*xs), xs)
            return gx.permute(0, 2, 3, 1), gw.permute(2, 3, 1, 0)

        return call


class FirstForward(Forward):
    """Features first, as PyTorch has them: the same memory for both."""

    def inputs(self, rng):
        x, w = super().inputs(rng)
        spatial = tuple(range(1, self.axes + 1))
        last = self.axes + 1
        return np.ascontiguousarray(x.transpose(0, last, *spatial)), np.ascontiguousarray(w.transpose(last, last - 1, *range(self.axes)))

    def torch(self, m, x, w):
        f = m.compile(self.torch_convolution(m))
        return lambda: f(x, w)


@workload(
    "conv/one axis, features first: batch,size,in,out,window,stride,dilation,groups",
    sizes=((8, 4000, 64, 64, 3, 1, 1, 1), (4, 4000, 64, 64, 3, 1, 8, 1), (8, 16000, 1, 32, 15, 1, 1, 1), (4, 2048, 512, 512, 5, 1, 1, 512)),
    quick=(),
)
class OneAxis(FirstForward):
    axes = 1
    layout = ("NCH", "OIH", "NCH")


@workload(
    "conv/features first: batch,size,in,out,window,stride,dilation,groups",
    sizes=((8, 14, 512, 512, 3, 1, 1, 512), (8, 28, 96, 96, 7, 1, 1, 96), (8, 7, 256, 64, 5, 2, 1, 1)),
    quick=(),
)
class TwoAxes(FirstForward):
    axes = 2
    layout = ("NCHW", "OIHW", "NCHW")


@workload(
    "conv/features first, no padding: batch,size,in,out,window,stride,dilation,groups",
    sizes=((1, 8, 64, 64, 3, 1, 1, 1), (32, 10, 32, 64, 3, 1, 1, 1), (1, 224, 3, 384, 16, 16, 1, 1)),
    quick=(),
)
class NoPadding(TwoAxes):
    padded = False


@workload(
    "conv/features first, bfloat16: batch,size,in,out,window,stride,dilation,groups",
    sizes=((8, 28, 64, 64, 3, 1, 1, 1), (8, 56, 3, 64, 7, 2, 1, 1), (8, 56, 128, 128, 3, 1, 1, 128)),
    quick=(),
    tol=2e-2,
)
class Bfloat16(TwoAxes):
    def jaxlike(self, m, x, w):
        call = super().jaxlike(m, *(v.astype(m.np.bfloat16) for v in (x, w)))
        return lambda: call().astype(m.np.float32)

    def torch(self, m, x, w):
        call = super().torch(m, *(v.to(m.torch.bfloat16) for v in (x, w)))
        return lambda: call().float()


@workload(
    "conv/three axes, features first: batch,size,in,out,window,stride,dilation,groups", sizes=((2, 24, 32, 32, 3, 1, 1, 1),), quick=()
)
class ThreeAxes(FirstForward):
    axes = 3
    layout = ("NCDHW", "OIDHW", "NCDHW")


@workload(
    "conv/features first, grad of sum(conv ** 2): batch,size,in,out,window,stride,dilation,groups",
    sizes=(SIZES[1], SIZES[4], SIZES[6], (8, 28, 256, 64, 3, 1, 6, 1), STEPS, (8, 28, 192, 192, 3, 2, 1, 192)),
    quick=(),
    tol=1e-3,
)
class FeaturesFirst(Gradient):
    layout = ("NCHW", "OIHW", "NCHW")

    def inputs(self, rng):
        x, w = super().inputs(rng)
        return np.ascontiguousarray(x.transpose(0, 3, 1, 2)), np.ascontiguousarray(w.transpose(3, 2, 0, 1))

    def torch(self, m, x, w):
        xs, conv = [x.requires_grad_(), w.requires_grad_()], self.torch_convolution(m)
        f = m.compile(lambda x, w: (conv(x, w) ** 2).sum())
        return lambda: m.torch.autograd.grad(f(*xs), xs)


@workload(
    "conv/features first, bfloat16, grad of sum(conv ** 2): batch,size,in,out,window,stride,dilation,groups",
    sizes=((8, 28, 64, 64, 3, 1, 1, 1), (8, 28, 64, 128, 3, 2, 1, 1)),
    quick=(),
    tol=5e-2,
)
class Bfloat16Gradient(FeaturesFirst):
    def jaxlike(self, m, x, w):
        call = super().jaxlike(m, *(v.astype(m.np.bfloat16) for v in (x, w)))
        return lambda: [v.astype(m.np.float32) for v in call()]

    def torch(self, m, x, w):
        call = super().torch(m, *(v.to(m.torch.bfloat16) for v in (x, w)))
        return lambda: [v.float() for v in call()]


@workload("conv/transposed: batch,size,in,out,window,stride", sizes=((8, 14, 128, 64, 4, 2), (8, 28, 64, 32, 3, 3)))
class Transposed(Workload):
    def inputs(self, rng):
        n, size, i, o, k, _ = self.size
        return normal(rng, n, size, size, i), normal(rng, k, k, i, o, scale=(k * k * i) ** -0.5)

    def flops(self):
        n, size, i, o, k, _ = self.size
        return 2 * n * size * size * k * k * i * o

    def jaxlike(self, m, x, w):
        stride = self.size[-1]
        f = m.jit(lambda x, w: m.lax.conv_transpose(x, w, (stride, stride), "VALID"))
        return lambda: f(x, w)

    def torch(self, m, x, w):
        stride = self.size[-1]
        x, w = x.permute(0, 3, 1, 2).contiguous(), w.permute(2, 3, 0, 1).flip(2, 3).contiguous()
        f = m.compile(lambda x, w: m.F.conv_transpose2d(x, w, stride=stride))
        return lambda: f(x, w).permute(0, 2, 3, 1)


@workload("conv/max and mean pooling with their gradient: batch,size,features", sizes=((8, 56, 64),), quick=((8, 56, 64),))
class Pooling(Workload):
    def inputs(self, rng):
        n, size, c = self.size
        return (normal(rng, n, size, size, c),)

    def jaxlike(self, m, x):
        window, strides = (1, 2, 2, 1), (1, 2, 2, 1)

        def loss(x):
            largest = m.lax.reduce_window(x, -float("inf"), m.lax.max, window, strides, "VALID")
            return m.np.sum(largest**2) + m.np.sum((m.lax.reduce_window(x, 0.0, m.lax.add, window, strides, "VALID") / 4) ** 2)

        f = m.jit(m.grad(loss))
        return lambda: f(x)

    def torch(self, m, x):
        x = x.permute(0, 3, 1, 2).requires_grad_()
        f = m.compile(lambda x: (m.F.max_pool2d(x, 2) ** 2).sum() + (m.F.avg_pool2d(x, 2) ** 2).sum())
        return lambda: m.torch.autograd.grad(f(x), x)[0].permute(0, 2, 3, 1)


@workload("conv/a small network's step: batch,size", sizes=((32, 32),), quick=((32, 32),), tol=1e-3)
class Step(Workload):
    """Gradient of the cross-entropy of conv, relu, max-pool twice, then a dense layer."""

    def inputs(self, rng):
        n, size = self.size
        features = 64 * (size // 4) ** 2
        return (
            normal(rng, n, size, size, 3),
            normal(rng, n, 10),
            normal(rng, 3, 3, 3, 32, scale=0.2),
            normal(rng, 3, 3, 32, 64, scale=0.06),
            normal(rng, features, 10, scale=features**-0.5),
        )

    def jaxlike(self, m, x, y, *weights):
        def block(x, w):
            x = m.nn.relu(m.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=LAYOUT))
            return m.lax.reduce_window(x, -float("inf"), m.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

        def loss(weights, x, y):
            a, b, c = weights
            logits = block(block(x, a), b).reshape(x.shape[0], -1) @ c
            return -m.np.mean(m.np.sum(m.nn.softmax(y) * m.nn.log_softmax(logits), -1))

        f = m.jit(m.value_and_grad(loss))
        return lambda: f(list(weights), x, y)

    def torch(self, m, x, y, a, b, c):
        last = m.torch.channels_last
        x = x.permute(0, 3, 1, 2).contiguous(memory_format=last)
        weights = [w.permute(3, 2, 0, 1).contiguous(memory_format=last).requires_grad_() for w in (a, b)] + [c.requires_grad_()]

        def loss(x, y, a, b, c):
            h = m.F.max_pool2d(m.F.relu(m.F.conv2d(x, a, padding=1)), 2)
            h = m.F.max_pool2d(m.F.relu(m.F.conv2d(h, b, padding=1)), 2)
            logits = h.permute(0, 2, 3, 1).reshape(h.shape[0], -1) @ c
            return -(y.softmax(-1) * logits.log_softmax(-1)).sum(-1).mean()

        f = m.compile(loss)

        def call():
            value = f(x, y, *weights)
            ga, gb, gc = m.torch.autograd.grad(value, weights)
            return value, [ga.permute(2, 3, 1, 0), gb.permute(2, 3, 1, 0), gc]

        return call


@workload(
    "conv/patches and their gradient: batch,size,in,window,stride", sizes=((8, 224, 3, 16, 16), (4, 64, 3, 3, 1)), note="features first"
)
class Patches(Workload):
    """Of sum(patches * ct); PyTorch's unfold, whose order of features is the same."""

    def inputs(self, rng):
        n, size, features, window, stride = self.size
        places = ((size - window) // stride + 1,) * 2
        return normal(rng, n, features, size, size), normal(rng, n, features * window**2, *places)

    def jaxlike(self, m, x, ct):
        *_, window, stride = self.size

        def patches(x, ct):
            y = m.lax.conv_general_dilated_patches(x, (window,) * 2, (stride,) * 2, "VALID")
            return m.np.sum(y * ct), y

        f = m.jit(m.value_and_grad(patches, has_aux=True))
        return lambda: f(x, ct)

    def torch(self, m, x, ct):
        *_, window, stride = self.size
        x = x.requires_grad_()

        def call():
            y = m.F.unfold(x, window, stride=stride).view(ct.shape)
            value = (y * ct).sum()
            return (value, y.detach()), m.torch.autograd.grad(value, x)[0]

        return call
