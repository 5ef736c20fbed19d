"""Language models: a makemore-like MLP, a GPT block, decoding with a cache."""

import math

from benchmarks import models
from benchmarks.workload import Workload, integers, leaves, normal, tree_map, workload
from benchmarks.workloads.training import torch_step


@workload("training/makemore MLP step", calls=3, note="27 letters, 3 of context, 10 wide, 200 hidden, batch 32, SGD")
class Makemore(Workload):
    def inputs(self, rng):
        params = {"embed": normal(rng, 27, 10), "mlp": models.mlp_params(rng, (30, 200, 27))}
        return params, integers(rng, 27, 32, 3), integers(rng, 27, 32)

    def jaxlike(self, m, params, x, y):
        def loss(p, x, y):
            one, two = p["mlp"]
            h = m.np.tanh(m.np.reshape(p["embed"][x], (32, 30)) @ one["w"] + one["b"])
            return m.np.mean(m.nn.softmax_cross_entropy_with_integer_labels(h @ two["w"] + two["b"], y))

        step = m.jit(models.sgd_step(m, loss), donate_argnums=0)
        return models.stepper(lambda p: step(p, x, y), params)

    def torch(self, m, params, x, y):
        x, y = x.long(), y.long()

        def loss(p):
            one, two = p["mlp"]
            h = m.torch.tanh(m.torch.addmm(one["b"], p["embed"][x].view(32, 30), one["w"]))
            return m.F.cross_entropy(m.torch.addmm(two["b"], h, two["w"]), y)

        return torch_step(m, params, loss, lambda ps: m.torch.optim.SGD(ps, lr=0.05))[0]


@workload("training/GPT block value_and_grad", sizes=((8, 128, 256), (2, 512, 512)), note="layer norm, 8 causal heads, MLP of gelu")
class GptBlock(Workload):
    heads = 8

    def inputs(self, rng):
        b, t, d = self.size
        dense = lambda k, n: {"w": normal(rng, k, n, scale=k**-0.5), "b": normal(rng, n, scale=0.02)}  # noqa: E731
        norm = lambda: {"w": 1 + normal(rng, d, scale=0.02), "b": normal(rng, d, scale=0.02)}  # noqa: E731
        params = {"qkv": dense(d, 3 * d), "out": dense(d, d), "up": dense(d, 4 * d), "down": dense(4 * d, d), "n1": norm(), "n2": norm()}
        return params, normal(rng, b, t, d), normal(rng, b, t, d)

    def flops(self):
        b, t, d = self.size
        return 6 * 12 * d * d * b * t + 7 * b * t * t * d

    def jaxlike(self, m, params, x, ct):
        b, t, d = self.size
        dense = lambda p, x: x @ p["w"] + p["b"]  # noqa: E731

        def loss(p, x, ct):
            q, k, v = (m.np.reshape(a, (b, t, self.heads, -1)) for a in m.np.split(dense(p["qkv"], m.nn.layer_norm(x, **n1(p))), 3, -1))
            a = m.nn.dot_product_attention(q, k, v, is_causal=True)
            x = x + dense(p["out"], m.np.reshape(a, (b, t, d)))
            x = x + dense(p["down"], m.nn.gelu(dense(p["up"], m.nn.layer_norm(x, p["n2"]["w"], p["n2"]["b"]))))
            return m.np.sum(x * ct)

        n1 = lambda p: {"scale": p["n1"]["w"], "bias": p["n1"]["b"]}  # noqa: E731
        f = m.jit(m.value_and_grad(loss, argnums=(0, 1)))
        return lambda: f(params, x, ct)

    def torch(self, m, params, x, ct):
        F, (b, t, d) = m.F, self.size
        params, x = tree_map(lambda v: v.requires_grad_(), params), x.requires_grad_()
        dense = lambda p, x: F.linear(x, p["w"].T, p["b"])  # noqa: E731
        norm = lambda p, x: F.layer_norm(x, (d,), p["w"], p["b"])  # noqa: E731

        def loss(p, x):
            h = dense(p["qkv"], norm(p["n1"], x))
            q, k, v = (a.view(b, t, self.heads, -1).transpose(1, 2) for a in h.split(d, -1))
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + dense(p["out"], a.transpose(1, 2).reshape(b, t, d))
            return ((x + dense(p["down"], F.gelu(dense(p["up"], norm(p["n2"], x)), approximate="tanh"))) * ct).sum()

        loss = m.compile(loss)

        def call():
            value = loss(params, x)
            return value, m.torch.autograd.grad(value, [*leaves(params), x])

        return call


@workload(
    "inference/decoding with a cache",
    sizes=(256,),
    quick=(256,),
    tol=1e-3,
    calls=30,
    note="seconds per token, one sequence, 4 layers of width 128",
)
class Decode(Workload):
    """The Llama of the training step, a token a call: attention over a cache of 256 places, the likeliest token comes next."""

    def inputs(self, rng):
        return models.llama_params(rng, models.LLAMA), integers(rng, 256, 1)

    def jaxlike(self, m, params, token):
        c, (places,) = models.LLAMA, self.size
        head = c.dim // c.heads
        np = m.np

        def step(params, cache, token, at):
            x = params["embed"][token]
            tables = tuple(v[:, None, :] for v in m.nn.rope_angles(at[None].astype(np.float32), head))
            seen = (np.arange(places) <= at)[None, :]
            new = []
            for p, (ks, vs) in zip(params["layers"], cache):
                q, k, v = (np.reshape(a, (1, c.heads, head)) for a in np.split(m.nn.rms_norm(x, p["norm1"]) @ p["qkv"], 3, axis=-1))
                q, k = m.nn.rope(q[None], tables)[0], m.nn.rope(k[None], tables)[0]
                ks, vs = m.lax.dynamic_update_slice(ks, k, (at, 0, 0)), m.lax.dynamic_update_slice(vs, v, (at, 0, 0))
                new.append((ks, vs))
                scores = np.where(seen, np.einsum("nh,snh->ns", q[0], ks) / math.sqrt(head), -1e30)
                a = np.einsum("ns,snh->nh", m.nn.softmax(scores), vs)
                x = x + np.reshape(a, (1, c.dim)) @ p["out"]
                h = m.nn.rms_norm(x, p["norm2"])
                x = x + m.nn.swiglu(h @ p["gate"], h @ p["up"]) @ p["down"]
            logits = m.nn.rms_norm(x, params["norm"]) @ params["head"]
            return new, np.argmax(logits, -1).astype(np.int32), (at + 1) % places, logits

        step = m.jit(step, donate_argnums=1)
        cache = [tuple(np.zeros((places, c.heads, head)) for _ in range(2)) for _ in range(c.layers)]
        state = [cache, token, np.zeros((), np.int32)]

        def call():
            *state[:], logits = step(params, *state)
            return logits

        return call

    def torch(self, m, params, token):
        t, F, c, (places,) = m.torch, m.F, models.LLAMA, self.size
        head = c.dim // c.heads
        cache = [t.zeros(2, c.heads, places, head) for _ in range(c.layers)]
        powers = 10000.0 ** (-2.0 * t.arange(head // 2) / head)
        state = [token.long(), 0]

        def call():
            token, at = state
            cos, sin = (at * powers).cos(), (at * powers).sin()

            def rope(x):
                u, v = x.chunk(2, -1)
                return t.cat([u * cos - v * sin, v * cos + u * sin], -1)

            x = F.embedding(token, params["embed"])
            for p, kv in zip(params["layers"], cache):
                q, k, v = (F.rms_norm(x, (c.dim,), p["norm1"], 1e-6) @ p["qkv"]).view(3, c.heads, 1, head)
                kv[0, :, at : at + 1], kv[1, :, at : at + 1] = rope(k), v
                a = F.scaled_dot_product_attention(rope(q), kv[0, :, : at + 1], kv[1, :, : at + 1])
                x = x + a.view(1, c.dim) @ p["out"]
                h = F.rms_norm(x, (c.dim,), p["norm2"], 1e-6)
                x = x + (F.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]
            logits = F.rms_norm(x, (c.dim,), params["norm"], 1e-6) @ params["head"]
            state[:] = logits.argmax(-1), (at + 1) % places
            return logits

        def no_grad():
            with t.inference_mode():
                return call()

        return no_grad
