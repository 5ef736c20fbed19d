"""Functions that JAX users take from other packages or write out, in plain array operations.

Both libraries run them in the workloads named "written out"; elsewhere JAX runs them where fgrad has a function of its own.
"""

import math
from types import SimpleNamespace


def plain_functions(m):
    """The norms, softmax_cross_entropy_with_integer_labels, rope, swiglu, attention and adamw over m's arrays."""
    np, lax, tree = m.np, m.lax, m.tree

    def rms_norm(x, weight, eps=1e-6):
        return x * lax.rsqrt(np.mean(np.square(x), -1, keepdims=True) + eps) * weight

    def layer_norm(x, scale, bias, eps=1e-5):
        mean = np.mean(x, -1, keepdims=True)
        var = np.mean(np.square(x - mean), -1, keepdims=True)
        return (x - mean) * lax.rsqrt(var + eps) * scale + bias

    def group_norm(x, groups, scale, bias, eps=1e-5, channel_axis=1):
        shape, width = x.shape, x.shape[channel_axis] // groups
        split = x.reshape(*shape[:channel_axis], groups, width, *shape[channel_axis:][1:])
        axes = tuple(a for a in range(1, split.ndim) if a != channel_axis)
        mean = np.mean(split, axes, keepdims=True)
        var = np.mean(np.square(split - mean), axes, keepdims=True)
        over = [n if a == channel_axis else 1 for a, n in enumerate(shape)]
        return ((split - mean) * lax.rsqrt(var + eps)).reshape(shape) * scale.reshape(over) + bias.reshape(over)

    def batch_norm(x, state, scale, bias, *, training, momentum=0.1, eps=1e-5, channel_axis=1):
        over = [n if a == channel_axis else 1 for a, n in enumerate(x.shape)]
        mean, var = state
        if training:
            axes = tuple(a for a in range(x.ndim) if a != channel_axis)
            mean = np.mean(x, axes)
            var = np.mean(np.square(x - mean.reshape(over)), axes)
        factor = lax.rsqrt(var + eps) * scale
        y = x * factor.reshape(over) + (bias - mean * factor).reshape(over)
        if training:
            n = x.size // mean.size
            here = mean, var * (n / (n - 1))
            state = tuple((1 - momentum) * old + momentum * new for old, new in zip(state, here))
        return y, state

    def softmax_cross_entropy_with_integer_labels(logits, labels):
        top = lax.stop_gradient(np.max(logits, -1, keepdims=True))
        shifted = logits - top
        picked = np.take_along_axis(shifted, labels[..., None], -1)[..., 0]
        return np.log(np.sum(np.exp(shifted), -1)) - picked

    def swiglu(gate, up):
        return gate / (1 + np.exp(-gate)) * up

    def rope_angles(positions, dim, base=10000.0):
        angles = positions[:, None] * base ** (-2.0 * np.arange(dim // 2) / dim)
        return np.cos(angles), np.sin(angles)

    def rope(x, tables):
        """x: (B, T, N, D); tables: cos and sin of shape (T, 1, D / 2)."""
        cos, sin = tables
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def attention(q, k, v, causal=True):
        """(B, T, N, H) each; the scores are stored."""
        scores = np.einsum("btnh,bsnh->bnts", q, k) / math.sqrt(q.shape[-1])
        if causal:
            t, s = scores.shape[-2:]
            scores = np.where(np.arange(s)[None, :] <= np.arange(t)[:, None], scores, -1e30)
        p = np.exp(scores - np.max(scores, -1, keepdims=True))
        return np.einsum("bnts,bsnh->btnh", p / np.sum(p, -1, keepdims=True), v)

    def adamw(learning_rate, b1=0.9, b2=0.999, eps=1e-8, weight_decay=1e-4):
        zeros = lambda params: tree.map(np.zeros_like, params)  # noqa: E731

        def init(params):
            return np.zeros((), np.int32), zeros(params), zeros(params)

        def update(grads, state, params):
            count, mu, nu = state[0] + 1, *state[1:]
            mu = tree.map(lambda m, g: b1 * m + (1 - b1) * g, mu, grads)
            nu = tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, nu, grads)
            c1, c2 = 1 - b1 ** count.astype(np.float32), 1 - b2 ** count.astype(np.float32)
            step = lambda m, v, p: -learning_rate * ((m / c1) / (np.sqrt(v / c2) + eps) + weight_decay * p)  # noqa: E731
            return tree.map(step, mu, nu, params), (count, mu, nu)

        return SimpleNamespace(init=init, update=update)

    def apply_updates(params, updates):
        return tree.map(lambda p, u: p + u, params, updates)

    return SimpleNamespace(**{k: v for k, v in locals().items() if callable(v) and k not in ("m", "np", "lax", "tree")})
