"""The transformations that a program is put through, written once for both libraries."""

import functools

import numpy as np

from tests.peers.registry import ALL, Program

# Two names with one reference result: what fgrad computes in different ways must be the same.
REFERENCE = {
    "jit": "value",
    "jit_vmap": "vmap",
    "linearize": "jvp",
    "jit_grad": "grad",
    "jit_vmap_grad": "vmap_grad",
}


class Case:
    """One program with one library: its arguments are those of `Program.diff`; all others are closed over."""

    def __init__(self, jax, program: Program, args):
        self.jax, self.program = jax, program
        args = self.jax.tree.map(lambda x: jax.numpy.asarray(x) if isinstance(x, (np.ndarray, np.generic)) else x, args)
        rest = {i: a for i, a in enumerate(args) if i not in program.diff}
        self.primals = tuple(args[i] for i in program.diff)

        def fun(*diff):
            it = iter(diff)
            return program.fun(jax, *[rest[i] if i in rest else next(it) for i in range(len(args))])

        self.fun = fun

    def loss(self, *diff):
        """A real scalar that depends on every inexact output."""
        jnp, total = self.jax.numpy, 0.0
        for n, x in enumerate(self.jax.tree.leaves(self.fun(*diff))):
            x = jnp.asarray(x)
            if not jnp.issubdtype(x.dtype, jnp.inexact):
                continue
            w = jnp.asarray(weights(x.shape, n), jnp.float32)
            total = total + jnp.sum(w * jnp.real(x)) + (jnp.sum(w * jnp.imag(x)) if jnp.issubdtype(x.dtype, jnp.complexfloating) else 0)
        return total

    def like(self, tree, n):
        """A direction with the structure and dtypes of `tree`; float0 for what is not inexact."""
        jnp = self.jax.numpy

        def leaf(x):
            x = jnp.asarray(x)
            if not jnp.issubdtype(x.dtype, jnp.inexact):
                return np.zeros(x.shape, self.jax.dtypes.float0)
            return jnp.asarray(weights(x.shape, n), x.dtype)

        return self.jax.tree.map(leaf, tree)

    def stacked(self):
        """Three different copies of the primals along a new leading axis."""

        def leaf(x):
            x = np.asarray(x)
            scale = [1.0, 0.9, 0.8] if x.dtype.kind not in "biu" else [1, 1, 1]
            return self.jax.numpy.asarray(np.stack([(x * s).astype(x.dtype) for s in scale]))

        return self.jax.tree.map(leaf, self.primals)

    @property
    def argnums(self):
        return tuple(range(len(self.primals)))

    def grad(self):
        return self.jax.grad(self.loss, self.argnums, allow_int=True)

    def value(self, *p):
        return self.fun(*p)

    def jit(self, *p):
        return self.jax.jit(self.fun)(*p)

    def vmap(self, *p):
        return self.jax.vmap(self.fun)(*self.stacked())

    def jit_vmap(self, *p):
        return self.jax.jit(self.jax.vmap(self.fun))(*self.stacked())

    def jvp(self, *p):
        return self.jax.jvp(self.fun, p, self.like(p, 1))

    def linearize(self, *p):
        out, push = self.jax.linearize(self.fun, *p)
        push(*self.like(p, 2))  # a second use must not disturb the first
        return out, push(*self.like(p, 1))

    def grad_(self, *p):
        return self.grad()(*p)

    def jit_grad(self, *p):
        return self.jax.jit(self.grad())(*p)

    def value_and_grad(self, *p):
        return self.jax.value_and_grad(self.loss, self.argnums, allow_int=True)(*p)

    def vjp(self, *p):
        out, pull = self.jax.vjp(self.fun, *p)
        return pull(self.like(out, 3))

    def vmap_grad(self, *p):
        return self.jax.vmap(self.grad())(*self.stacked())

    def jit_vmap_grad(self, *p):
        return self.jax.jit(self.jax.vmap(self.grad()))(*self.stacked())

    def jvp_grad(self, *p):
        return self.jax.jvp(self.grad(), p, self.like(p, 1))

    def grad_jvp(self, *p):
        directional = lambda *q: self.jax.jvp(self.loss, q, self.like(p, 1))[1]
        return self.jax.grad(directional, self.argnums, allow_int=True)(*p)

    def hessian(self, *p):
        return self.jax.hessian(self.loss)(*p)

    def run(self, transform):
        return getattr(self, "grad_" if transform == "grad" else transform)(*self.primals)


def weights(shape, n):
    return np.cos(np.arange(np.prod(shape, dtype=int)) * 0.7 + n).reshape(shape).astype(np.float32)


@functools.lru_cache(maxsize=2)
def reference(program_name):
    """All of JAX's results for a program, from one compilation (of code that need not be fast)."""
    import jax

    from tests.peers.programs import PROGRAMS

    program = PROGRAMS[program_name]
    case = Case(jax, program, program.arguments())
    wanted = [t for t in ALL if t in {REFERENCE.get(t, t) for t in program.transforms}]
    options = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    return jax.jit(lambda: {t: case.run(t) for t in wanted}, compiler_options=options)()
