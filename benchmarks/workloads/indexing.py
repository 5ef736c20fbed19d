"""Gathers and scatters."""

import numpy as np

from benchmarks.workload import Workload, integers, normal, workload


@workload("indexing/embedding lookup", sizes=((32_000, 256),), note="4096 tokens")
class Embedding(Workload):
    def inputs(self, rng):
        vocab, width = self.size
        return normal(rng, vocab, width), integers(rng, vocab, 8, 512), normal(rng, 8, 512, width)

    def bytes(self):
        return 8 * 4096 * self.size[1]

    def jaxlike(self, m, table, tokens, ct):
        f = m.jit(lambda table, tokens: table[tokens])
        return lambda: f(table, tokens)

    def torch(self, m, table, tokens, ct):
        tokens = tokens.long()
        return lambda: m.F.embedding(tokens, table)

    def numpy(self, np, table, tokens, ct):
        return lambda: table[tokens]


@workload("indexing/lookup in a table converted to bfloat16", sizes=((32_000, 256),), tol=1e-2, note="4096 tokens")
class ConvertedEmbedding(Embedding):
    def jaxlike(self, m, table, tokens, ct):
        f = m.jit(lambda table, tokens: table.astype("bfloat16")[tokens].astype("float32"))
        return lambda: f(table, tokens)

    def torch(self, m, table, tokens, ct):
        tokens = tokens.long()
        f = m.compile(lambda table, tokens: m.F.embedding(tokens, table.bfloat16()).float())
        return lambda: f(table, tokens)

    def numpy(self, np, table, tokens, ct):
        import ml_dtypes

        return lambda: table.astype(ml_dtypes.bfloat16)[tokens].astype(np.float32)


@workload("indexing/log-probabilities of labels, written out", sizes=((1024, 1000), (256, 32_000)))
class Picked(Workload):
    def inputs(self, rng):
        return normal(rng, *self.size), integers(rng, self.size[1], self.size[0])

    def jaxlike(self, m, logits, labels):
        def f(logits, labels):
            shifted = logits - logits.max(1, keepdims=True)
            return (shifted - m.np.log(m.np.exp(shifted).sum(1, keepdims=True)))[m.np.arange(len(labels)), labels]

        f = m.jit(f)
        return lambda: f(logits, labels)

    def torch(self, m, logits, labels):
        labels = labels.long()

        def f(logits, labels):
            shifted = logits - logits.max(1, keepdim=True).values
            return (shifted - shifted.exp().sum(1, keepdim=True).log())[m.torch.arange(len(labels)), labels]

        f = m.compile(f)
        return lambda: f(logits, labels)

    def numpy(self, np, logits, labels):
        def f():
            shifted = logits - logits.max(1, keepdims=True)
            return (shifted - np.log(np.exp(shifted).sum(1, keepdims=True)))[np.arange(len(labels)), labels]

        return f


@workload(
    "indexing/vmap of windows", sizes=((1000, 64, 1), (1000, 64, 16)), note="dynamic slices of so many rows of one array at 5000 positions"
)
class Windows(Workload):
    def inputs(self, rng):
        n, width, _ = self.size
        return normal(rng, n, width), integers(rng, n - 16, 5000)

    def jaxlike(self, m, x, starts):
        rows = self.size[2]
        f = m.jit(lambda x, starts: m.vmap(lambda i: m.lax.dynamic_slice_in_dim(x, i, rows))(starts))
        return lambda: f(x, starts)

    def torch(self, m, x, starts):
        at = starts.long()[:, None] + m.torch.arange(self.size[2])
        return lambda: x[at]

    def numpy(self, np, x, starts):
        at = starts[:, None] + np.arange(self.size[2])
        return lambda: x[at]


@workload("indexing/embedding value_and_grad", sizes=((32_000, 256), (27, 32)), note="4096 tokens; the gradient is dense")
class EmbeddingGrad(Embedding):
    def bytes(self):
        return 4 * self.size[1] * (4 * 4096 + self.size[0])

    def jaxlike(self, m, table, tokens, ct):
        f = m.jit(m.value_and_grad(lambda table, tokens, ct: m.np.sum(table[tokens] * ct)))
        return lambda: f(table, tokens, ct)

    def torch(self, m, table, tokens, ct):
        table, tokens = table.requires_grad_(), tokens.long()
        loss = m.compile(lambda table: (m.F.embedding(tokens, table) * ct).sum())

        def call():
            value = loss(table)
            return value, m.torch.autograd.grad(value, table)

        return call

    def numpy(self, np, table, tokens, ct):
        def call():
            grad = np.zeros_like(table)
            np.add.at(grad, tokens, ct)
            return np.sum(table[tokens] * ct), grad

        return call


@workload("indexing/x.at[i].add(v)", sizes=(1_000_000,), note="100,000 random places")
class ScatterAdd(Workload):
    def inputs(self, rng):
        (n,) = self.size
        return normal(rng, n), integers(rng, n, n // 10), normal(rng, n // 10)

    def jaxlike(self, m, x, i, v):
        f = m.jit(lambda x, i, v: x.at[i].add(v))
        return lambda: f(x, i, v)

    def torch(self, m, x, i, v):
        i = i.long()
        return lambda: x.index_add(0, i, v)

    def numpy(self, np, x, i, v):
        def call():
            y = x.copy()
            np.add.at(y, i, v)
            return y

        return call


@workload("indexing/segment_max of rows: rows,width,segments", sizes=((50_000, 37, 100),))
class SegmentMax(Workload):
    def inputs(self, rng):
        n, d, k = self.size
        return normal(rng, n, d), integers(rng, k, n)

    def jaxlike(self, m, x, i):
        f = m.jit(lambda x, i: m.np.full((self.size[2], x.shape[1]), -m.np.inf, x.dtype).at[i].max(x))
        return lambda: f(x, i)

    def torch(self, m, x, i):
        i = i.long()[:, None].expand(-1, x.shape[1])
        return lambda: m.torch.full((self.size[2], x.shape[1]), -float("inf")).scatter_reduce(0, i, x, "amax")


@workload("indexing/take_along_axis", sizes=((4096, 1024),), note="8 of each row")
class TakeAlong(Workload):
    def inputs(self, rng):
        n, d = self.size
        return normal(rng, n, d), integers(rng, d, n, 8)

    def jaxlike(self, m, x, i):
        f = m.jit(lambda x, i: m.np.take_along_axis(x, i, 1))
        return lambda: f(x, i)

    def torch(self, m, x, i):
        i = i.long()
        return lambda: m.torch.gather(x, 1, i)

    def numpy(self, np, x, i):
        return lambda: np.take_along_axis(x, i, 1)


@workload("indexing/transpose and concatenate", sizes=(2048,))
class Movement(Workload):
    """concatenate([x.T, flip(x)]): copies that cannot be avoided."""

    def inputs(self, rng):
        return (normal(rng, *self.size * 2),)

    def bytes(self):
        return 16 * self.size[0] ** 2

    def jaxlike(self, m, x):
        f = m.jit(lambda x: m.np.concatenate([x.T, m.np.flip(x, 1)]))
        return lambda: f(x)

    def torch(self, m, x):
        return lambda: m.torch.cat([x.T, x.flip(1)])

    def numpy(self, np, x):
        return lambda: np.concatenate([x.T, x[:, ::-1]])


@workload(
    "indexing/a box written into each of a batch, by vmap: batch,side,box", sizes=((16, 72, 64), (16, 256, 224)), quick=((16, 72, 64),)
)
class Boxes(Workload):
    def inputs(self, rng):
        b, side, box = self.size
        return normal(rng, b, side, side), normal(rng, b, box, box), integers(rng, side - box + 1, b, 2)

    def jaxlike(self, m, x, y, at):
        f = m.jit(m.vmap(lambda x, y, at: m.lax.dynamic_update_slice(x, y, (at[0], at[1]))))
        return lambda: f(x, y, at)

    def numpy(self, np, x, y, at):
        box = self.size[2]

        def call():
            out = x.copy()
            for k, (i, j) in enumerate(at):
                out[k, i : i + box, j : j + box] = y[k]
            return out

        return call


@workload("indexing/value and gradient of one column of gathered rows: rows,width,indices", sizes=((4000, 64, 5000), (20_000, 16, 50_000)))
class GatheredColumn(Workload):
    def inputs(self, rng):
        rows, width, n = self.size
        return normal(rng, rows, width), integers(rng, rows, n)

    def jaxlike(self, m, x, i):
        f = m.jit(m.value_and_grad(lambda x: m.np.mean(m.np.sin(x[i][:, 0]))))
        return lambda: f(x)

    def torch(self, m, x, i):
        x, i = x.requires_grad_(), i.long()

        def call():
            x.grad = None
            loss = x[i][:, 0].sin().mean()
            loss.backward()
            return loss.detach(), x.grad

        return call


@workload("indexing/mean of stacked windows", sizes=((500, 1000),), note="ten windows along the last axis")
class StackedWindows(Workload):
    def inputs(self, rng):
        return (normal(rng, *self.size),)

    def jaxlike(self, m, x):
        n = self.size[1] - 9
        f = m.jit(lambda x: m.np.mean(m.np.stack([x[:, k : k + n] for k in range(10)]), 0))
        return lambda: f(x)

    def torch(self, m, x):
        n = self.size[1] - 9
        return lambda: m.torch.stack([x[:, k : k + n] for k in range(10)]).mean(0)

    def numpy(self, np, x):
        n = self.size[1] - 9
        return lambda: np.stack([x[:, k : k + n] for k in range(10)]).mean(0)


@workload("indexing/searchsorted by vmap: rows,keys,queries", sizes=((256, 100, 1000),))
class SearchRows(Workload):
    def inputs(self, rng):
        rows, keys, queries = self.size
        return np.sort(normal(rng, rows, keys), 1), normal(rng, rows, queries)

    def jaxlike(self, m, keys, x):
        f = m.jit(m.vmap(m.np.searchsorted))
        return lambda: f(keys, x)

    def torch(self, m, keys, x):
        return lambda: m.torch.searchsorted(keys, x, out_int32=True)

    def numpy(self, np, keys, x):
        return lambda: np.stack([np.searchsorted(k, q) for k, q in zip(keys, x)])
