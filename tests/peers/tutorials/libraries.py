"""Programs that lean on the libraries around JAX's core: stax and example optimizers, iterative solvers, meshes, special functions."""

import dataclasses
import functools
import importlib

import numpy as np

from tests.peers.tutorials.registry import tutorial


def _module(jax, path):
    return importlib.import_module(f"{jax.__name__}.{path}")


@tutorial(rtol=2e-3)
def stax_variational_autoencoder(jax):
    jnp, random = jax.numpy, jax.random
    stax, optimizers = _module(jax, "example_libraries.stax"), _module(jax, "example_libraries.optimizers")
    data = np.random.default_rng(0).random((32, 12)).astype("f") > 0.5
    encode_init, encode = stax.serial(
        stax.Dense(16), stax.Relu, stax.FanOut(2), stax.parallel(stax.Dense(3), stax.serial(stax.Dense(3), stax.Softplus))
    )
    decode_init, decode = stax.serial(stax.Dense(16), stax.Tanh, stax.Dense(12))
    k1, k2, key = random.split(random.PRNGKey(0), 3)
    params = encode_init(k1, (-1, 12))[1], decode_init(k2, (-1, 3))[1]

    def elbo(key, params, x):
        mu, var = encode(params[0], x)
        z = mu + jnp.sqrt(var) * random.normal(key, mu.shape)
        logits = decode(params[1], z)
        fit = -jnp.sum(jnp.logaddexp(0.0, jnp.where(x, -1.0, 1.0) * logits))
        kl = -0.5 * jnp.sum(1 + jnp.log(var) - mu**2 - var)
        return (fit - kl) / x.shape[0]

    init, update, get_params = optimizers.momentum(optimizers.exponential_decay(0.02, 10, 0.9), 0.9)

    @jax.jit
    def epoch(state, key):
        def body(i, state):
            grads = jax.grad(lambda p: -elbo(random.fold_in(key, i), p, data.astype("f")))(get_params(state))
            return update(i, optimizers.clip_grads(grads, 5.0), state)

        return jax.lax.fori_loop(0, 5, body, state)

    state = epoch(epoch(init(params), key), random.fold_in(key, 7))
    return get_params(state), elbo(key, get_params(state), data)


@tutorial(rtol=2e-3)
def gaussian_process_by_conjugate_gradients(jax):
    """Hyperparameter gradients through the implicit derivative of cg, with a preconditioner and a stochastic log determinant."""
    jnp, linalg = jax.numpy, _module(jax, "scipy.sparse.linalg")
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(-2, 2, 40)).astype("f")
    y = (np.sin(3 * x) + 0.1 * rng.normal(size=40)).astype("f")
    probes = np.sign(rng.normal(size=(40, 3))).astype("f")

    def kernel(p, a, b):
        return jnp.exp(p["amplitude"]) * jnp.exp(-0.5 * ((a[:, None] - b[None]) / jnp.exp(p["length"])) ** 2)

    def solve(p, b):
        k = kernel(p, x, x)
        noise = jnp.exp(p["noise"])
        return linalg.cg(lambda v: k @ v + noise * v, b, tol=1e-7, maxiter=400, M=lambda v: v / (jnp.diag(k) + noise))[0]

    def objective(p):
        k = kernel(p, x, x) + jnp.exp(p["noise"]) * jnp.eye(40)
        w = jax.lax.stop_gradient(jax.vmap(functools.partial(solve, p), 1, 1)(probes))
        return 0.5 * y @ solve(p, y) + 0.5 * jnp.mean(jnp.sum(w * (k @ probes), 0))

    params = {"amplitude": 0.1, "length": -0.5, "noise": -2.0}
    step = jax.jit(lambda p: jax.tree.map(lambda v, g: v - 0.01 * g, p, jax.grad(objective)(p)))
    for _ in range(5):
        params = step(params)
    at = jnp.linspace(-2, 2, 9)
    mean = kernel(params, at, x) @ solve(params, y)
    arnoldi = linalg.gmres(lambda v: kernel(params, x, x) @ v + v, y, tol=1e-6)[0]
    stabilised = linalg.bicgstab(lambda v: {"y": kernel(params, x, x) @ v["y"] + v["y"]}, {"y": y}, tol=1e-6)[0]
    return params, mean, arnoldi, stabilised["y"]


@tutorial(rtol=1e-3)
def data_parallel_training(jax):
    """Written for several devices: a mesh, shardings of parameters and batches, and shard_map with collectives."""
    jnp, P = jax.numpy, jax.sharding.PartitionSpec
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("data", "model"))
    sharded = lambda *spec: jax.sharding.NamedSharding(mesh, P(*spec))
    k1, k2, k3 = jax.random.split(jax.random.key(3), 3)
    params = {"w1": jax.random.normal(k1, (6, 16)) * 0.3, "w2": jax.random.normal(k2, (16, 2)) * 0.3}
    params = jax.device_put(params, {"w1": sharded(None, "model"), "w2": sharded("model", None)})
    x = jax.device_put(jax.random.normal(k3, (24, 6)), sharded("data"))
    y = jnp.stack([x[:, 0] * x[:, 1], x.sum(1)], 1)

    def forward(p, x):
        h = jax.lax.with_sharding_constraint(jax.nn.gelu(x @ p["w1"]), sharded("data", "model"))
        return h @ p["w2"]

    @functools.partial(jax.jit, in_shardings=(None, sharded("data"), sharded("data")), donate_argnums=0)
    def step(p, x, y):
        loss, grads = jax.value_and_grad(lambda p: jnp.mean((forward(p, x) - y) ** 2))(p)
        return jax.tree.map(lambda v, g: v - 0.1 * g, p, grads), loss

    losses = []
    for _ in range(4):
        params, loss = step(params, x, y)
        losses.append(loss)

    def local_step(p, x, y):
        grads = jax.grad(lambda p: jnp.mean((jax.nn.gelu(x @ p["w1"]) @ p["w2"] - y) ** 2))(p)
        return jax.tree.map(lambda v, g: v - 0.1 * jax.lax.pmean(g, ("data", "model")), p, grads)

    mapped = jax.shard_map(local_step, mesh=mesh, in_specs=(P(), P("data"), P("data")), out_specs=P(), check_vma=False)
    return jax.jit(mapped)(params, x, y), jnp.stack(losses)


@tutorial(rtol=1e-3)
def modules_as_dataclasses(jax):
    """Layers as registered dataclasses with static fields, residual blocks stacked for scan, checkpointing, and filtering by path."""
    jnp = jax.numpy

    @functools.partial(jax.tree_util.register_dataclass, data_fields=["weight", "bias"], meta_fields=["activation"])
    @dataclasses.dataclass
    class Linear:
        weight: object
        bias: object
        activation: str = "none"

        @classmethod
        def create(cls, key, n_in, n_out, activation="none"):
            return cls(jax.nn.initializers.he_normal()(key, (n_in, n_out)), jnp.zeros(n_out), activation)

        def __call__(self, x):
            y = x @ self.weight + self.bias
            return getattr(jax.nn, self.activation)(y) if self.activation != "none" else y

    @jax.tree_util.register_pytree_with_keys_class
    class Block:
        def __init__(self, up, down, scale):
            self.up, self.down, self.scale = up, down, scale

        def tree_flatten_with_keys(self):
            key = jax.tree_util.GetAttrKey
            return ((key("up"), self.up), (key("down"), self.down), (key("scale"), self.scale)), None

        @classmethod
        def tree_unflatten(cls, _, children):
            return cls(*children)

        def __call__(self, x):
            mean = x.mean(-1, keepdims=True)
            normal = (x - mean) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * self.scale
            return x + self.down(self.up(normal))

    def block(key):
        k1, k2 = jax.random.split(key)
        return Block(Linear.create(k1, 8, 16, "silu"), Linear.create(k2, 16, 8), jnp.ones(8))

    keys = jax.random.split(jax.random.key(0), 4)
    model = {"blocks": jax.vmap(block)(keys[:3]), "head": Linear.create(keys[3], 8, 3)}
    x = jax.random.normal(jax.random.key(9), (10, 8))
    labels = jnp.arange(10) % 3

    def loss(model):
        layer = jax.checkpoint(lambda h, b: (b(h), jnp.linalg.norm(h)), policy=jax.checkpoint_policies.dots_saveable)
        h, norms = jax.lax.scan(layer, x, model["blocks"])
        logits = jax.nn.log_softmax(model["head"](h))
        return -jnp.mean(jnp.take_along_axis(logits, labels[:, None], 1)), norms

    @jax.jit
    def step(model):
        (value, norms), grads = jax.value_and_grad(loss, has_aux=True)(model)
        decay = jax.tree_util.tree_map_with_path(
            lambda path, v: 0.01 * v if jax.tree_util.keystr(path).endswith("weight") else 0 * v, model
        )
        return jax.tree.map(lambda v, g, d: v - 0.1 * (g + d), model, grads, decay), value, norms

    for _ in range(3):
        model, value, norms = step(model)
    paths = [jax.tree_util.keystr(p) for p, _ in jax.tree_util.tree_leaves_with_path(model)]
    return jax.tree.leaves(model), value, norms, jnp.array([len(p) for p in paths])


@tutorial(rtol=2e-3)
def quantum_circuit(jax):
    """Gates on a state of six qubits by tensordot, expectation of an Ising Hamiltonian, natural gradient by the Fubini-Study metric."""
    jnp, n = jax.numpy, 6

    def rotation(axis, angle):
        pauli = {"x": [[0, 1], [1, 0]], "y": [[0, -1j], [1j, 0]], "z": [[1, 0], [0, -1]]}[axis]
        return jnp.cos(angle / 2) * jnp.eye(2, dtype=jnp.complex64) - 1j * jnp.sin(angle / 2) * jnp.array(pauli, jnp.complex64)

    def apply(gate, state, *qubits):
        k = len(qubits)
        out = jnp.tensordot(gate.reshape((2,) * 2 * k), state, (tuple(range(k, 2 * k)), qubits))
        return jnp.moveaxis(out, tuple(range(k)), qubits)

    cnot = jnp.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]], jnp.complex64)

    def circuit(angles):
        state = jnp.zeros((2,) * n, jnp.complex64).at[(0,) * n].set(1)
        for layer in angles:
            for q in range(n):
                state = apply(rotation("z", layer[q, 1]), apply(rotation("y", layer[q, 0]), state, q), q)
            for q in range(n - 1):
                state = apply(cnot, state, q, q + 1)
        return state.ravel()

    bits = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
    diagonal = jnp.array(-(bits[:, :-1] * bits[:, 1:]).sum(1), jnp.float32)

    def energy(angles):
        state = circuit(angles)
        flipped = sum(jnp.roll(state.reshape((2,) * n), 1, q).ravel() for q in range(n))
        return jnp.sum(diagonal * jnp.abs(state) ** 2) - 0.5 * jnp.vdot(state, flipped).real

    angles = 0.3 * jax.random.normal(jax.random.key(2), (2, n, 2))
    jacobian = jax.jacfwd(lambda a: circuit(a.reshape(angles.shape)))(angles.ravel())
    state = circuit(angles)
    overlap = state.conj() @ jacobian
    metric = (jacobian.conj().T @ jacobian - jnp.outer(overlap.conj(), overlap)).real
    grad = jax.jit(jax.grad(energy))(angles)
    natural = jnp.linalg.solve(metric + 0.1 * jnp.eye(metric.shape[0]), grad.ravel())
    return energy(angles), grad, natural, energy(angles - 0.1 * natural.reshape(angles.shape))


@tutorial(rtol=5e-3)
def kuramoto_sivashinsky(jax):
    """A spectral solver (exponential time differencing, coefficients by contour integrals) and the gradient through its steps."""
    jnp, n, h = jax.numpy, 64, 0.25
    grid = 32 * np.pi * np.arange(n) / n
    k = np.fft.rfftfreq(n, 1 / n) / 16
    linear = k**2 - k**4
    roots = np.exp(1j * np.pi * (np.arange(16) + 0.5) / 16)
    lr = h * linear[:, None] + roots
    e, half = (jnp.asarray(np.exp(s * h * linear), jnp.float32) for s in (1, 0.5))
    q, f1, f2, f3 = (
        jnp.asarray(h * v.real.mean(1), jnp.float32)
        for v in (
            (np.exp(lr / 2) - 1) / lr,
            (-4 - lr + np.exp(lr) * (4 - 3 * lr + lr**2)) / lr**3,
            (2 + lr + np.exp(lr) * (-2 + lr)) / lr**3,
            (-4 - 3 * lr - lr**2 + np.exp(lr) * (4 - lr)) / lr**3,
        )
    )
    g = jnp.asarray(-0.5j * k, jnp.complex64)
    nonlinear = lambda v: g * jnp.fft.rfft(jnp.fft.irfft(v) ** 2)

    def step(v, _):
        nv = nonlinear(v)
        a = half * v + q * nv
        na = nonlinear(a)
        b = half * v + q * na
        nb = nonlinear(b)
        c = half * a + q * (2 * nb - nv)
        v = e * v + nv * f1 + 2 * (na + nb) * f2 + nonlinear(c) * f3
        return v, jnp.mean(jnp.fft.irfft(v) ** 2)

    def run(u):
        v, energies = jax.lax.scan(step, jnp.fft.rfft(u), None, length=40)
        return jnp.fft.irfft(v), energies

    u = jnp.asarray(np.cos(grid / 16) * (1 + np.sin(grid / 16)), jnp.float32)
    final, energies = jax.jit(run)(u)
    slope = jax.grad(lambda u: jnp.mean(run(u)[0] ** 2))(u)
    return final, energies, slope


@tutorial(rtol=1e-3)
def ising_and_particles(jax):
    """Checkerboard Metropolis sampling of a lattice, and a particle filter with systematic resampling, over scan and random keys."""
    jnp, random, lax = jax.numpy, jax.random, jax.lax
    board = (np.indices((16, 16)).sum(0) % 2).astype(bool)

    def sweep(spins, inputs):
        key, beta = inputs
        for colour, k in zip((board, ~board), random.split(key)):
            around = sum(jnp.roll(spins, s, axis) for s in (1, -1) for axis in (0, 1))
            flip = random.uniform(k, spins.shape) < jnp.exp(-2 * beta * spins * around)
            spins = jnp.where(flip & colour, -spins, spins)
        return spins, (spins.mean(), jnp.abs(spins.sum()))

    keys = random.split(random.key(0), 20)
    spins, magnetisation = lax.scan(sweep, jnp.ones((16, 16)), (keys, jnp.linspace(0.2, 0.6, 20)))

    def observe(carry, inputs):
        particles, key = carry
        key, k1, k2 = random.split(key, 3)
        particles = 0.9 * particles + random.normal(k1, particles.shape)
        log_weight = -0.5 * (inputs - particles) ** 2
        weight = jax.nn.softmax(log_weight)
        points = (random.uniform(k2) + jnp.arange(particles.size)) / particles.size
        chosen = jnp.clip(jnp.searchsorted(jnp.cumsum(weight), points), 0, particles.size - 1)
        return (particles[chosen], key), (weight @ particles, jax.nn.logsumexp(log_weight))

    data = np.sin(np.arange(15)).astype("f")
    _, (means, evidence) = lax.scan(observe, (jnp.zeros(100), random.key(1)), data)
    return spins, magnetisation, means, evidence


@tutorial(rtol=2e-3)
def optimal_transport_and_alignment(jax):
    """Sinkhorn with a while loop and implicit derivatives, soft dynamic time warping with a rule of its own, special functions."""
    jnp, lax, special = jax.numpy, jax.lax, jax.scipy.special
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(7, 2)).astype("f"), rng.normal(size=(5, 2)).astype("f")

    def sinkhorn(cost):
        def update(f):
            g = -jax.nn.logsumexp(f[:, None] - cost, 0) + jnp.log(1 / 5)
            return -jax.nn.logsumexp(g[None] - cost, 1) + jnp.log(1 / 7)

        def solve(update, f):
            return lax.while_loop(
                lambda s: (jnp.max(jnp.abs(s[0] - s[1])) > 1e-6) & (s[2] < 500), lambda s: (update(s[0]), s[0], s[2] + 1), (update(f), f, 0)
            )[0]

        centred = lambda f: f - f.mean()
        return lax.custom_root(lambda f: centred(update(f)) - f, jnp.zeros(7), lambda g, f: solve(lambda x: x + g(x), f),
                               lambda g, y: jnp.linalg.solve(jax.jacobian(g)(y), y))  # fmt: skip

    def plan_cost(a):
        cost = jnp.sum((a[:, None] - b[None]) ** 2, -1)
        return jnp.sum(sinkhorn(cost) * jnp.arange(7.0))

    @jax.custom_jvp
    def soft_min(x):
        return -jax.nn.logsumexp(-x)

    @soft_min.defjvp
    def _(primals, tangents):
        return soft_min(*primals), jnp.sum(jax.nn.softmax(-primals[0]) * tangents[0])

    def warped(x, y):
        distance = jnp.abs(x[:, None] - y[None])

        def row(before, costs):
            def cell(left, inputs):
                diagonal, above, c = inputs
                value = c + soft_min(jnp.stack([left, diagonal, above]))
                return value, value

            out = lax.scan(cell, 1e3, (before[:-1], before[1:], costs))[1]
            after = jnp.concatenate([jnp.array([1e3]), out])
            return after, out

        start = jnp.full(y.size + 1, 1e3).at[0].set(0.0)
        return lax.scan(row, start, distance)[0][-1]

    def negative_binomial(p):
        k = jnp.arange(6.0)
        return -jnp.sum(
            special.gammaln(k + p[0])
            - special.gammaln(p[0])
            - special.gammaln(k + 1)
            + special.xlogy(k, p[1])
            + special.xlog1py(p[0], -p[1])
        )

    p = jnp.array([2.5, 0.4])
    return (
        jax.value_and_grad(plan_cost)(a),
        jax.value_and_grad(jax.jit(warped))(a[:, 0], b[:, 1]),
        (negative_binomial(p), jax.grad(negative_binomial)(p), jax.hessian(negative_binomial)(p)),
        jax.vmap(jax.grad(lambda x: special.expi(x) + special.dawsn(x) + special.erfcx(x)))(jnp.array([0.5, 1.5, 3.0])),
    )
