"""Stencils (sums of shifted reads of one array), strided slices and arrays side by side."""

from benchmarks.workload import Workload, normal, workload


def five_points(x):
    return x[1:-1, 1:-1] * -4 + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]


@workload("movement/five-point stencil", sizes=((300, 300), (1000, 1000), (3000, 3000)))
class Stencil(Workload):
    def inputs(self, rng):
        return (normal(rng, *self.size),)

    def bytes(self):
        return 8 * self.size[0] * self.size[1]

    def jaxlike(self, m, x):
        f = m.jit(five_points)
        return lambda: f(x)

    def torch(self, m, x):
        f = m.compile(five_points)
        return lambda: f(x)

    def numpy(self, np, x):
        return lambda: five_points(x)


@workload("movement/gradient of squared second differences", sizes=(1_000_000,))
class Differences(Workload):
    def inputs(self, rng):
        return (normal(rng, *self.size),)

    def jaxlike(self, m, x):
        f = m.jit(m.grad(lambda x: m.np.sum((x[2:] - 2 * x[1:-1] + x[:-2]) ** 2)))
        return lambda: f(x)

    def numpy(self, np, x):
        def call():
            d = 2 * (x[2:] - 2 * x[1:-1] + x[:-2])
            out = np.zeros_like(x)
            out[2:] += d
            out[1:-1] -= 2 * d
            out[:-2] += d
            return out

        return call


@workload(
    "movement/concatenated columns", sizes=((100_000, 3, 3), (100_000, 10, 3), (10_000, 64, 16)), note="rows, and columns of either array"
)
class Columns(Workload):
    def inputs(self, rng):
        rows, a, b = self.size
        return normal(rng, rows, a), normal(rng, rows, b)

    def bytes(self):
        return 8 * self.size[0] * (self.size[1] + self.size[2])

    def jaxlike(self, m, x, y):
        f = m.jit(lambda x, y: m.np.concatenate([x, y], 1))
        return lambda: f(x, y)

    def torch(self, m, x, y):
        return lambda: m.torch.cat([x, y], 1)

    def numpy(self, np, x, y):
        return lambda: np.concatenate([x, y], 1)


@workload("movement/cross product", sizes=(100_000,))
class Cross(Workload):
    def inputs(self, rng):
        return normal(rng, *self.size, 3), normal(rng, *self.size, 3)

    def bytes(self):
        return 36 * self.size[0]

    def jaxlike(self, m, x, y):
        f = m.jit(m.np.cross)
        return lambda: f(x, y)

    def torch(self, m, x, y):
        return lambda: m.torch.linalg.cross(x, y)

    def numpy(self, np, x, y):
        return lambda: np.cross(x, y)


@workload(
    "movement/upsampling by repeat: images,height,width,features", sizes=((8, 80, 40, 3), (8, 80, 40, 16)), note="twice along both axes"
)
class Upsampling(Workload):
    def inputs(self, rng):
        return (normal(rng, *self.size),)

    def jaxlike(self, m, x):
        f = m.jit(lambda x: m.np.repeat(m.np.repeat(x, 2, 1), 2, 2))
        return lambda: f(x)

    def torch(self, m, x):
        f = m.compile(lambda x: x.repeat_interleave(2, 1).repeat_interleave(2, 2))
        return lambda: f(x)

    def numpy(self, np, x):
        return lambda: np.repeat(np.repeat(x, 2, 1), 2, 2)


@workload("movement/every second or third", sizes=((1000, 1000, 2), (1000, 1000, 3)), note="x[:, ::step] as an array")
class Steps(Workload):
    def inputs(self, rng):
        return (normal(rng, *self.size[:2]),)

    def jaxlike(self, m, x):
        f = m.jit(lambda x: x[:, :: self.size[2]])
        return lambda: f(x)

    def torch(self, m, x):
        return lambda: x[:, :: self.size[2]].contiguous()

    def numpy(self, np, x):
        return lambda: np.ascontiguousarray(x[:, :: self.size[2]])


@workload("movement/largest distances along features", sizes=((200, 128), (300, 512)), note="max |x_i - x_j| of all pairs of rows")
class LargestDistances(Workload):
    def inputs(self, rng):
        return (normal(rng, *self.size),)

    def jaxlike(self, m, x):
        f = m.jit(lambda x: m.np.abs(x[:, None] - x[None]).max(-1))
        return lambda: f(x)

    def torch(self, m, x):
        f = m.compile(lambda x: (x[:, None] - x[None]).abs().amax(-1))
        return lambda: f(x)

    def numpy(self, np, x):
        return lambda: np.abs(x[:, None] - x[None]).max(-1)


@workload("movement/exp of squared distances", sizes=((500, 10), (2000, 3)), note="of all pairs of points")
class Distances(Workload):
    def inputs(self, rng):
        return (normal(rng, *self.size),)

    def jaxlike(self, m, x):
        f = m.jit(lambda x: m.np.exp(-((x[:, None] - x[None]) ** 2).sum(-1)))
        return lambda: f(x)

    def torch(self, m, x):
        f = m.compile(lambda x: (-((x[:, None] - x[None]) ** 2).sum(-1)).exp())
        return lambda: f(x)

    def numpy(self, np, x):
        return lambda: np.exp(-((x[:, None] - x[None]) ** 2).sum(-1))


@workload("movement/exp of squared distances, grad", sizes=((500, 10), (2000, 3)), note="of the sum over all pairs of points")
class DistancesGrad(Distances):
    def jaxlike(self, m, x):
        f = m.jit(m.grad(lambda x: m.np.sum(m.np.exp(-((x[:, None] - x[None]) ** 2).sum(-1)))))
        return lambda: f(x)

    def torch(self, m, x):
        x = x.requires_grad_()
        loss = m.compile(lambda x: (-((x[:, None] - x[None]) ** 2).sum(-1)).exp().sum())
        return lambda: m.torch.autograd.grad(loss(x), x)

    def numpy(self, np, x):
        def call():
            d = x[:, None] - x[None]
            return -4 * (np.exp(-(d**2).sum(-1))[..., None] * d).sum(1)

        return call


@workload("movement/gradient of padding", sizes=(("reflect", 64), ("wrap", 32)), note="of the squares of 8 x 3 images with margins of 2")
class PadGrad(Workload):
    def inputs(self, rng):
        return (normal(rng, 8, 3, self.size[1], self.size[1]),)

    def jaxlike(self, m, x):
        widths, mode = ((0, 0), (0, 0), (2, 2), (2, 2)), self.size[0]
        f = m.jit(m.grad(lambda x: m.np.sum(m.np.pad(x, widths, mode=mode) ** 2)))
        return lambda: f(x)

    def torch(self, m, x):
        x, mode = x.requires_grad_(), {"wrap": "circular"}.get(self.size[0], self.size[0])
        loss = m.compile(lambda x: (m.torch.nn.functional.pad(x, (2, 2, 2, 2), mode=mode) ** 2).sum())
        return lambda: m.torch.autograd.grad(loss(x), x)


def patches(np, x):
    n = x.shape[1] - 2
    return np.stack([x[:, i : i + n, j : j + n] for i in range(3) for j in range(3)], -2)


@workload("movement/gradient of patches", sizes=((8, 32, 32, 8), (8, 64, 64, 3)), note="of the squares of 3 x 3 windows, features last")
class PatchesGrad(Workload):
    def inputs(self, rng):
        return (normal(rng, *self.size),)

    def jaxlike(self, m, x):
        f = m.jit(m.grad(lambda x: m.np.sum(patches(m.np, x) ** 2)))
        return lambda: f(x)


@workload("movement/gradient of shuffled channels", sizes=((4, 32, 32, 32),), note="of the squares, in groups of 8")
class ShuffleGrad(Workload):
    def inputs(self, rng):
        return (normal(rng, *self.size),)

    def jaxlike(self, m, x):
        shuffle = lambda x: x.reshape(*x.shape[:-1], -1, 8).swapaxes(-1, -2).reshape(x.shape)  # noqa: E731
        f = m.jit(m.grad(lambda x: m.np.sum(shuffle(x) ** 2)))
        return lambda: f(x)
