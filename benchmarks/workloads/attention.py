"""Causal attention over growing contexts: 8 heads of 64."""

import math

from benchmarks.workload import Workload, normal, workload

LENGTHS = (128, 512, 1024, 2048, 4096)
HEADS, WIDTH = 8, 64


@workload("attention/causal forward", sizes=LENGTHS, quick=(512,))
class Attention(Workload):
    """B is chosen so that B*T is 4096."""

    def inputs(self, rng):
        (t,) = self.size
        return tuple(normal(rng, 4096 // t, t, HEADS, WIDTH) for _ in range(4))

    def flops(self):
        (t,) = self.size
        return 2 * (4096 // t) * HEADS * t * t * WIDTH  # scores and values, 4 each, the causal half of it

    def functions(self, m):
        return lambda q, k, v: m.nn.dot_product_attention(q, k, v, is_causal=True)

    def jaxlike(self, m, q, k, v, ct):
        f = m.jit(self.functions(m))
        return lambda: f(q, k, v)

    def torch(self, m, q, k, v, ct):
        q, k, v = (x.transpose(1, 2).contiguous() for x in (q, k, v))
        return lambda: m.F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)

    def numpy(self, np, q, k, v, ct):
        q, k, v = (np.ascontiguousarray(x.swapaxes(1, 2)) for x in (q, k, v))
        masked = np.triu(np.full((q.shape[2],) * 2, -np.inf, np.float32), 1)

        def call():
            s = q @ k.swapaxes(2, 3)
            s *= np.float32(1 / math.sqrt(WIDTH))
            s += masked
            s -= s.max(-1, keepdims=True)
            np.exp(s, out=s)
            s /= s.sum(-1, keepdims=True)
            return (s @ v).swapaxes(1, 2)

        return call


@workload("attention/causal forward and backward", sizes=LENGTHS, quick=(512,))
class AttentionGrad(Attention):
    numpy = None

    def flops(self):
        return 3.5 * super().flops()  # two products forward, five backward

    def jaxlike(self, m, q, k, v, ct):
        attend = self.functions(m)
        f = m.jit(m.value_and_grad(lambda q, k, v, ct: m.np.sum(attend(q, k, v) * ct), argnums=(0, 1, 2)))
        return lambda: f(q, k, v, ct)

    def torch(self, m, q, k, v, ct):
        xs = [x.requires_grad_() for x in (q, k, v)]
        ct = ct.transpose(1, 2).contiguous()

        def call():
            q, k, v = (x.transpose(1, 2) for x in xs)
            value = (m.F.scaled_dot_product_attention(q, k, v, is_causal=True) * ct).sum()
            return value, m.torch.autograd.grad(value, xs)

        return call


@workload("attention/causal forward and backward, written out", sizes=(512,))
class PlainAttentionGrad(AttentionGrad):
    def functions(self, m):
        return m.plain.attention


@workload("attention/one query over a bfloat16 cache: keys", sizes=(512, 4096), quick=(512,), tol=1e-2)
class Decoding(Workload):
    """32 heads of 128, of which four share a key head."""

    def inputs(self, rng):
        (s,) = self.size
        return normal(rng, 1, 1, 32, 128), normal(rng, 1, s, 8, 128), normal(rng, 1, s, 8, 128)

    def flops(self):
        (s,) = self.size
        return 4 * 32 * s * 128

    def jaxlike(self, m, q, k, v):
        q, k, v = (x.astype(m.np.bfloat16) for x in (q, k, v))
        f = m.jit(m.nn.dot_product_attention)
        return lambda: f(q, k, v).astype(m.np.float32)

    def torch(self, m, q, k, v):
        q, k, v = (x.to(m.torch.bfloat16).transpose(1, 2).contiguous() for x in (q, k, v))
        return lambda: m.F.scaled_dot_product_attention(q, k, v, enable_gqa=True).transpose(1, 2).float()


@workload("attention/one query over a cache, written out: batch,keys", sizes=((1, 1024), (8, 1024)), tol=1e-3)
class PlainDecoding(Workload):
    """16 heads of 64 by einsum, keys before heads as a model's projections leave them."""

    def inputs(self, rng):
        b, s = self.size
        return normal(rng, b, 16, 64), normal(rng, b, s, 16, 64), normal(rng, b, s, 16, 64)

    def flops(self):
        b, s = self.size
        return 4 * b * 16 * s * 64

    def bytes(self):
        b, s = self.size
        return 8 * b * s * 16 * 64

    def jaxlike(self, m, q, k, v):
        def attend(q, k, v):
            weights = m.nn.softmax(m.np.einsum("bhd,bshd->bhs", q, k) / 8, axis=-1)
            return m.np.einsum("bhs,bshd->bhd", weights, v)

        f = m.jit(attend)
        return lambda: f(q, k, v)

    def torch(self, m, q, k, v):
        def attend(q, k, v):
            weights = m.torch.softmax(m.torch.einsum("bhd,bshd->bhs", q, k) / 8, -1)
            return m.torch.einsum("bhs,bshd->bhd", weights, v)

        f = m.compile(attend)
        return lambda: f(q, k, v)

    def numpy(self, np, q, k, v):
        """As stacks of products, which einsum would not make of it."""

        def call():
            s = np.matmul(k.swapaxes(1, 2), q[..., None])[..., 0] / np.float32(8)
            w = np.exp(s - s.max(-1, keepdims=True))
            w /= w.sum(-1, keepdims=True)
            return np.matmul(w[:, :, None], v.swapaxes(1, 2))[:, :, 0]

        return call


@workload("attention/rotary embedding by concatenate([-x2, x1]), its pullback", sizes=(64, 1024), note="2 sequences, 8 heads of 64")
class Rotated(Workload):
    def inputs(self, rng):
        (t,) = self.size
        return normal(rng, 2, t, HEADS, WIDTH), normal(rng, t, 1, WIDTH), normal(rng, t, 1, WIDTH), normal(rng, 2, t, HEADS, WIDTH)

    def bytes(self):
        return 4 * 4 * 2 * self.size[0] * HEADS * WIDTH

    def jaxlike(self, m, x, cos, sin, ct):
        half = WIDTH // 2
        turned = lambda x: x * cos + m.np.concatenate([-x[..., half:], x[..., :half]], -1) * sin  # noqa: E731

        def f(x, cos, sin, ct):
            value, pull = m.vjp(turned, x)
            return value, pull(ct)[0]

        f = m.jit(f)
        return lambda: f(x, cos, sin, ct)

    def torch(self, m, x, cos, sin, ct):
        x, half = x.requires_grad_(), WIDTH // 2

        def call():
            value = x * cos + m.torch.cat([-x[..., half:], x[..., :half]], -1) * sin
            return value, m.torch.autograd.grad(value, x, ct)[0]

        return call
