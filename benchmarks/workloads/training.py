"""Training steps of whole models; parameters go from call to call, in donated buffers."""

from benchmarks import models
from benchmarks.workload import Workload, integers, leaves, normal, tree_map, workload

MLPS = {"digits": ((64, 128, 10), 128), "mnist": ((784, 512, 512, 10), 256)}


def torch_step(m, params, loss, optimizer):
    """(a call that makes one step of `optimizer(leaves)` and returns (params, value), the optimizer, an empty list)"""
    params = tree_map(lambda p: p.requires_grad_(), params)
    optimizer, loss = optimizer(leaves(params)), m.compile(loss)

    def call():
        optimizer.zero_grad(set_to_none=True)
        value = loss(params)
        value.backward()
        optimizer.step()
        return params, value

    return call, optimizer, []


class Mlp(Workload):
    def inputs(self, rng):
        widths, batch = MLPS[self.size[0]]
        return models.mlp_params(rng, widths), normal(rng, batch, widths[0]), integers(rng, widths[-1], batch)

    def flops(self):
        widths, batch = MLPS[self.size[0]]
        return 6 * batch * sum(k * n for k, n in zip(widths, widths[1:]))

    def jaxlike(self, m, params, x, y):
        step = m.jit(models.sgd_step(m, lambda p, x, y: models.mlp_loss(m, p, x, y)), donate_argnums=0)
        return models.stepper(lambda p: step(p, x, y), params)

    def torch(self, m, params, x, y):
        y = y.long()

        def loss(params):
            h = x
            for p in params[:-1]:
                h = m.torch.relu(m.torch.addmm(p["b"], h, p["w"]))
            return m.F.cross_entropy(m.torch.addmm(params[-1]["b"], h, params[-1]["w"]), y)

        return torch_step(m, params, loss, lambda ps: m.torch.optim.SGD(ps, lr=0.05))[0]

    def numpy(self, np, params, x, y):
        rows = np.arange(len(y))

        def call():
            inputs = [x]
            for p in params[:-1]:
                inputs.append(np.maximum(inputs[-1] @ p["w"] + p["b"], 0))
            z = inputs[-1] @ params[-1]["w"] + params[-1]["b"]
            d = np.exp(z - z.max(1, keepdims=True))
            d /= d.sum(1, keepdims=True)
            value = -np.log(d[rows, y]).mean()
            d[rows, y] -= 1
            d /= len(y)
            for p, h in zip(params[::-1], inputs[::-1]):
                dw, db = h.T @ d, d.sum(0)
                if h is not x:
                    d = (d @ p["w"].T) * (h > 0)
                p["w"] -= 0.05 * dw
                p["b"] -= 0.05 * db
            return params, value

        return call


workload(
    "training/MLP step", sizes=tuple(MLPS), quick=("digits",), core=True, calls=3, note="SGD; 64-128-10 batch 128, 784-512-512-10 batch 256"
)(Mlp)


@workload("startup/first MLP step", sizes=("digits",), quick=("digits",), core=True, kind="first call", note="trace, grad, compile, run")
class FirstMlp(Mlp):
    numpy = None  # nothing to start


class Llama(Workload):
    """AdamW on 4 layers of width 128, 16 sequences of 128 tokens, as in examples/train_llama.py."""

    def inputs(self, rng):
        return models.llama_params(rng, models.LLAMA), integers(rng, 256, 16, 129)

    def flops(self):
        return models.llama_flops(models.LLAMA, 16 * 128, 128)

    def jaxlike(self, m, params, tokens):
        optimizer = m.optim.adamw(1e-3, b2=0.99, eps=1e-6, weight_decay=0.01)
        step = m.jit(models.adamw_step(m, models.llama_loss(m, models.LLAMA), optimizer), donate_argnums=(0, 1))
        self.compiled = lambda: step.lower(params, optimizer.init(params), tokens).compile()
        return models.stepper(lambda p, s: step(p, s, tokens), params, optimizer.init(params))

    def torch(self, m, params, tokens):
        tokens = tokens.long()
        inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].reshape(-1)

        def loss(params):
            return m.F.cross_entropy(models.torch_llama(m, models.LLAMA, params, inputs).view(-1, 256), targets)

        adamw = lambda ps: m.torch.optim.AdamW(ps, lr=1e-3, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.01, fused=True)  # noqa: E731
        call, optimizer, moments = torch_step(m, params, loss, adamw)

        def with_state():
            _, value = call()
            if not moments:  # they are updated in place from now on
                states = [optimizer.state[p] for p in leaves(params)]
                moments.append((states[0]["step"], [s["exp_avg"] for s in states], [s["exp_avg_sq"] for s in states]))
            return params, moments, value

        return with_state


LLAMA = dict(core=True, tol=1e-3, note="4 layers of width 128, 16x128 tokens, AdamW")
workload("training/Llama step", quick=((),), calls=3, **LLAMA)(Llama)
workload("startup/first Llama step", quick=((),), kind="first call", **LLAMA)(Llama)
