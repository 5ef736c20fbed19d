"""The first call of larger and larger programs: trace, differentiate, compile, run."""

from benchmarks.workload import Workload, normal, workload


@workload("startup/first grad of N layers", sizes=(10, 100, 300), kind="first call", note="tanh(x @ w + b) * sigmoid(x), width 32")
class Layers(Workload):
    def inputs(self, rng):
        (n,) = self.size
        return [(normal(rng, 32, 32, scale=0.2), normal(rng, 32)) for _ in range(n)], normal(rng, 16, 32)

    def loss(self, tanh, sigmoid):
        def loss(params, x):
            for w, b in params:
                x = tanh(x @ w + b) * sigmoid(x)
            return (x * x).sum() + sum(b.sum() for _, b in params)

        return loss

    def jaxlike(self, m, params, x):
        f = m.jit(m.grad(self.loss(m.np.tanh, m.nn.sigmoid)))
        return lambda: f(params, x)

    def torch(self, m, params, x):
        flat = [v.requires_grad_() for layer in params for v in layer]
        loss = m.compile(self.loss(m.torch.tanh, m.torch.sigmoid))
        return lambda: m.torch.autograd.grad(loss(params, x), flat)


@workload("startup/first call of N operations", sizes=(100, 1000), kind="first call", note="a chain of x = sin(x) + c, ten floats")
class Chain(Workload):
    def inputs(self, rng):
        return (normal(rng, 10),)

    def chain(self, sin):
        def chain(x):
            for i in range(self.size[0] // 2):
                x = sin(x) + float(i)
            return x

        return chain

    def jaxlike(self, m, x):
        f = m.jit(self.chain(m.np.sin))
        return lambda: f(x)

    def torch(self, m, x):
        f = m.compile(self.chain(m.torch.sin))
        return lambda: f(x)
