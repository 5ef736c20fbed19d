"""Random numbers. Streams of different libraries differ; fgrad's and JAX's are compared."""

from benchmarks.workload import Workload, workload

SIZES = (1000, 1_000_000)
OTHERS = ("torch", "torch-compile", "numpy")


class Draw(Workload):
    def bytes(self):
        return 4 * self.size[0]


@workload("random/normal", sizes=SIZES, unchecked=OTHERS)
class Normal(Draw):
    def jaxlike(self, m):
        key, f = m.random.key(0), m.jit(lambda key: m.random.normal(key, self.size))
        return lambda: f(key)

    def torch(self, m):
        return lambda: m.torch.randn(self.size)

    def numpy(self, np):
        rng = np.random.default_rng(0)
        return lambda: rng.standard_normal(self.size, np.float32)


@workload("random/uniform", sizes=SIZES, unchecked=OTHERS)
class Uniform(Draw):
    def jaxlike(self, m):
        key, f = m.random.key(0), m.jit(lambda key: m.random.uniform(key, self.size))
        return lambda: f(key)

    def torch(self, m):
        return lambda: m.torch.rand(self.size)

    def numpy(self, np):
        rng = np.random.default_rng(0)
        return lambda: rng.random(self.size, np.float32)


@workload("random/bits", sizes=SIZES, unchecked=OTHERS)
class Bits(Draw):
    def jaxlike(self, m):
        key, f = m.random.key(0), m.jit(lambda key: m.random.bits(key, self.size))
        return lambda: f(key)

    def torch(self, m):
        return lambda: m.torch.randint(-(2**31), 2**31 - 1, self.size, dtype=m.torch.int32)

    def numpy(self, np):
        rng = np.random.default_rng(0)
        return lambda: rng.integers(0, 2**32, self.size, np.uint32)


@workload("random/dropout", sizes=(1_000_000,), unchecked=OTHERS)
class Dropout(Draw):
    """where(bernoulli(0.9), x / 0.9, 0) of ones."""

    def jaxlike(self, m):
        def dropout(key, x):
            return m.np.where(m.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0)

        key, x, f = m.random.key(0), m.np.ones(self.size), m.jit(dropout)
        return lambda: f(key, x)

    def torch(self, m):
        x = m.torch.ones(self.size)
        return lambda: m.F.dropout(x, 0.1)


@workload("random/float64 normal and exponential", sizes=SIZES, x64=True, tol=1e-9, unchecked=OTHERS)
class Doubles(Draw):
    def bytes(self):
        return 16 * self.size[0]

    def jaxlike(self, m):
        key, f = m.random.key(0), m.jit(lambda key: (m.random.normal(key, self.size), m.random.exponential(key, self.size)))
        return lambda: f(key)

    def torch(self, m):
        t, exponential = m.torch, m.torch.distributions.Exponential(m.torch.tensor(1.0, dtype=m.torch.float64))
        return lambda: (t.randn(self.size, dtype=t.float64), exponential.sample(self.size))

    def numpy(self, np):
        rng = np.random.default_rng(0)
        return lambda: (rng.standard_normal(self.size), rng.standard_exponential(self.size))
