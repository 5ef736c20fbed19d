"""Physics, differential equations, rendering, finance."""

import importlib

from tests.peers.tutorials.registry import tutorial


@tutorial
def runge_kutta_and_sensitivities(jax):
    jnp, lax = jax.numpy, jax.lax

    def lotka_volterra(y, p):
        return jnp.array([p[0] * y[0] - p[1] * y[0] * y[1], -p[2] * y[1] + p[3] * y[0] * y[1]])

    def solve(p, y0):
        def rk4(y, _):
            h = 0.1
            k1 = lotka_volterra(y, p)
            k2 = lotka_volterra(y + h / 2 * k1, p)
            k3 = lotka_volterra(y + h / 2 * k2, p)
            k4 = lotka_volterra(y + h * k3, p)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            return y, y

        return lax.scan(rk4, y0, length=50)[1]

    p, y0 = jnp.array([1.1, 0.4, 0.4, 0.1]), jnp.array([10.0, 5.0])
    return solve(p, y0), jax.jit(jax.jacfwd(solve))(p, y0)[-1], jax.jacrev(lambda y0: solve(p, y0)[-1])(y0)


@tutorial(rtol=1e-3)
def neural_ode(jax):
    """odeint's adjoint derivatives beside those through a scan of Euler steps."""
    jnp, random = jax.numpy, jax.random
    odeint = importlib.import_module(f"{jax.__name__}.experimental.ode").odeint
    params = {"w": 0.5 * random.normal(random.key(0), (2, 8)), "v": 0.5 * random.normal(random.key(1), (8, 2))}
    field = lambda y, t, p: jnp.tanh(y @ p["w"]) @ p["v"] * jnp.cos(t)
    ts, y0 = jnp.linspace(0.0, 1.0, 5), jnp.array([1.0, -0.5])
    loss = lambda p: jnp.mean(odeint(field, y0, ts, p, rtol=1e-6, atol=1e-6) ** 2)

    def euler(p):
        step = lambda y, t: (y + 0.05 * field(y, t, p), y)
        return jnp.mean(jax.lax.scan(step, y0, jnp.linspace(0.0, 1.0, 20))[1] ** 2)

    return jax.jit(jax.value_and_grad(loss))(params), jax.jit(jax.value_and_grad(euler))(params)


@tutorial
def differentiable_physics(jax):
    """Springs and a floor: the initial velocity that reaches a target, by descent through the simulation."""
    jnp, lax = jax.numpy, jax.lax
    rest = jnp.array([[0.0, 1.0], [1.0, 1.0], [0.5, 1.8]])
    links = jnp.array([[0, 1], [1, 2], [2, 0]])
    length = jnp.linalg.norm(rest[links[:, 0]] - rest[links[:, 1]], axis=1)

    def energy(x):
        d = x[links[:, 0]] - x[links[:, 1]]
        return 20 * jnp.sum((jnp.sqrt(jnp.sum(d**2, 1)) - length) ** 2) + 9.8 * x[:, 1].sum() + 50 * jnp.sum(jax.nn.relu(-x[:, 1]) ** 2)

    def simulate(v0):
        def step(state, _):
            x, v = state
            v = 0.999 * (v - 0.01 * jax.grad(energy)(x))
            return (x + 0.01 * v, v), x.mean(0)

        (x, _), path = lax.scan(step, (rest, jnp.tile(v0, (3, 1))), length=60)
        return x.mean(0), path

    loss = lambda v0: jnp.sum((simulate(v0)[0] - jnp.array([2.0, 1.0])) ** 2)
    descend = lambda v, _: (v - 0.5 * jax.grad(loss)(v), loss(v))
    return jax.jit(lambda v: lax.scan(descend, v, length=8))(jnp.array([1.0, 1.0])), simulate(jnp.array([1.0, 2.0]))[1][::20]


@tutorial(rtol=1e-3)
def n_body(jax):
    """Symplectic integration of the equations of Hamilton, with the energy it conserves."""
    jnp, random, lax = jax.numpy, jax.random, jax.lax
    q, p = random.normal(random.key(0), (5, 3)), 0.2 * random.normal(random.key(1), (5, 3))
    mass = jnp.array([1.0, 0.5, 0.2, 0.3, 0.4])

    def hamiltonian(q, p):
        i, j = jnp.triu_indices(5, 1)
        r = jnp.sqrt(jnp.sum((q[i] - q[j]) ** 2, axis=-1) + 0.1)
        return jnp.sum(p**2 / (2 * mass[:, None])) - jnp.sum(mass[i] * mass[j] / r)

    def step(state, _):
        q, p = state
        p = p - 0.005 * jax.grad(hamiltonian, 0)(q, p)
        q = q + 0.01 * jax.grad(hamiltonian, 1)(q, p)
        p = p - 0.005 * jax.grad(hamiltonian, 0)(q, p)
        return (q, p), hamiltonian(q, p)

    return jax.jit(lambda s: lax.scan(step, s, length=40))((q, p))


@tutorial(rtol=2e-3)
def physics_informed_network(jax):
    """u'' = -pi^2 sin(pi x) by a network: the Laplacian by hessian's trace, by forward-over-forward and by jvp of grad."""
    jnp, random = jax.numpy, jax.random
    keys = random.split(random.key(0), 2)
    params = [random.normal(keys[0], (2, 12)), jnp.zeros(12), random.normal(keys[1], (12,)) * 0.3]
    net = lambda p, x: jnp.tanh(x @ p[0] + p[1]) @ p[2]
    laplacian = lambda p, x: jnp.trace(jax.hessian(net, argnums=1)(p, x))

    def forward_laplacian(p, x):
        second = lambda v: jax.jvp(lambda x: jax.jvp(lambda x: net(p, x), (x,), (v,))[1], (x,), (v,))[1]
        return jnp.sum(jax.vmap(second)(jnp.eye(2)))

    xs = random.uniform(random.key(3), (16, 2))
    source = lambda x: -2 * jnp.pi**2 * jnp.sin(jnp.pi * x[0]) * jnp.sin(jnp.pi * x[1])

    def loss(p):
        inside = jax.vmap(lambda x: laplacian(p, x) - source(x))(xs)
        edge = jax.vmap(lambda x: net(p, x.at[0].set(0.0)))(xs)
        return jnp.mean(inside**2) + 10 * jnp.mean(edge**2)

    step = lambda p, _: (jax.tree.map(lambda p, g: p - 1e-4 * g, p, jax.grad(loss)(p)), loss(p))
    trained, losses = jax.jit(lambda p: jax.lax.scan(step, p, length=10))(params)
    return losses, jax.vmap(lambda x: laplacian(trained, x))(xs), jax.vmap(lambda x: forward_laplacian(trained, x))(xs)


@tutorial(rtol=1e-3)
def ray_marching(jax):
    """A signed distance field rendered by sphere tracing; normals are its gradient, and colour has a gradient in the scene."""
    jnp, lax = jax.numpy, jax.lax
    norm = lambda v: jnp.sqrt(jnp.sum(v**2))

    def sdf(scene, p):
        ball = norm(p - scene["centre"]) - scene["radius"]
        box = norm(jnp.maximum(jnp.abs(p - jnp.array([0.8, 0.0, 0.0])) - 0.3, 0)) - 0.05
        return -0.1 * jnp.log(jnp.exp(-ball / 0.1) + jnp.exp(-box / 0.1) + jnp.exp(-(p[1] + 0.7) / 0.1))

    def shade(scene, d):
        d, origin = d / norm(d), jnp.array([0.0, 0.2, 3.0])
        t = lax.fori_loop(0, 12, lambda i, t: t + sdf(scene, origin + t * d), 0.0)
        p = origin + t * d
        n = jax.grad(sdf, argnums=1)(scene, p)
        return jnp.clip(n @ jnp.array([0.5, 0.7, 0.5]), 0, 1)

    u = jnp.linspace(-0.5, 0.5, 6)
    rays = jnp.stack([*jnp.meshgrid(u, u), -jnp.ones((6, 6))], axis=-1)
    scene = {"centre": jnp.array([-0.4, 0.0, 0.0]), "radius": jnp.float32(0.6)}
    render = jax.jit(lambda s: jax.vmap(jax.vmap(lambda d: shade(s, d)))(rays))
    return render(scene), jax.jit(jax.grad(lambda s: render(s).mean()))(scene)


@tutorial(rtol=1e-3)
def option_prices_and_greeks(jax):
    """Black and Scholes beside Monte Carlo over paths; greeks by grad, and second ones by grad of grad."""
    jnp, random = jax.numpy, jax.random
    cdf = importlib.import_module(f"{jax.__name__}.scipy.stats").norm.cdf

    def closed(s, k, r, v, t):
        d1 = (jnp.log(s / k) + (r + v**2 / 2) * t) / (v * jnp.sqrt(t))
        return s * cdf(d1) - k * jnp.exp(-r * t) * cdf(d1 - v * jnp.sqrt(t))

    def simulated(s, k, r, v, t, smooth=0.5):
        z = random.normal(random.key(0), (500, 10))
        path = s * jnp.exp(jnp.cumsum((r - v**2 / 2) * t / 10 + v * jnp.sqrt(t / 10) * z, axis=1))
        return jnp.exp(-r * t) * jnp.mean(smooth * jax.nn.softplus((path.mean(1) - k) / smooth))

    at = (100.0, 95.0, 0.03, 0.2, 1.0)
    greeks = lambda f: jax.jit(jax.value_and_grad(f, argnums=(0, 2, 3, 4)))(*at)
    gamma = lambda f: jax.jit(jax.grad(jax.grad(f)))(*at)
    surface = jax.vmap(jax.vmap(closed, (None, 0, None, None, None)), (None, None, None, 0, None))
    prices = jax.jit(surface)(100.0, jnp.linspace(80, 120, 5), 0.03, jnp.linspace(0.1, 0.4, 4), 1.0)
    return greeks(closed), gamma(closed), greeks(simulated), gamma(simulated), prices


@tutorial
def game_of_life_and_heat(jax):
    """Stencils by roll and by convolution, in loops; the initial heat found from the final one by its gradient."""
    jnp, lax = jax.numpy, jax.lax
    convolve = importlib.import_module(f"{jax.__name__}.scipy.signal").convolve2d
    board = jnp.zeros((8, 8), jnp.int32).at[jnp.array([1, 2, 3, 3, 3]), jnp.array([2, 3, 1, 2, 3])].set(1)

    def live(b, _):
        n = sum(jnp.roll(b, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
        b = ((n == 3) | ((b == 1) & (n == 2))).astype(b.dtype)
        return b, b.sum()

    stencil = jnp.array([[0.0, 1, 0], [1, -4, 1], [0, 1, 0]])
    diffuse = lambda u: lax.fori_loop(0, 5, lambda i, u: u + 0.2 * convolve(u, stencil, "same"), u)
    target = diffuse(board.astype(jnp.float32))
    loss = lambda u: jnp.sum((diffuse(u) - target) ** 2)
    return lax.scan(live, board, length=6), target, jax.jit(jax.grad(loss))(jnp.zeros((8, 8)))
