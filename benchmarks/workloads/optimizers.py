"""Optimizer updates over many leaves."""

from benchmarks.workload import Workload, leaves, normal, workload


@workload(
    "optimizers/AdamW update",
    sizes=((200, 1000), (100, 65_536)),
    quick=((200, 1000),),
    tol=1e-3,
    calls=3,
    note="leaves x elements, donated",
)
class AdamW(Workload):
    def inputs(self, rng):
        count, n = self.size
        make = lambda scale: {f"p{i:03}": normal(rng, n, scale=scale) for i in range(count)}  # noqa: E731
        return make(1.0), make(0.1)

    def bytes(self):
        return 7 * 4 * self.size[0] * self.size[1]

    def jaxlike(self, m, params, grads):
        optimizer = m.optim.adamw(1e-3, weight_decay=0.01)

        def update(params, state, grads):
            updates, state = optimizer.update(grads, state, params)
            return m.optim.apply_updates(params, updates), state

        update = m.jit(update, donate_argnums=(0, 1))
        box = [params, optimizer.init(params)]

        def call():
            box[:] = update(*box, grads)
            return box[0]

        return call

    def torch(self, m, params, grads):
        params = {k: v.requires_grad_() for k, v in params.items()}
        for k, p in params.items():
            p.grad = grads[k]
        optimizer = m.torch.optim.AdamW(params.values(), lr=1e-3, weight_decay=0.01, fused=True)

        def call():
            optimizer.step()
            return params

        return call

    def numpy(self, np, params, grads):
        ps, gs = leaves(params), leaves(grads)
        mus, nus = [np.zeros_like(p) for p in ps], [np.zeros_like(p) for p in ps]
        count = [0]

        def call():
            count[0] += 1
            c1, c2 = np.float32(1 - 0.9 ** count[0]), np.float32(1 - 0.999 ** count[0])
            for p, g, mu, nu in zip(ps, gs, mus, nus):
                mu += np.float32(0.1) * (g - mu)
                nu += np.float32(0.001) * (g * g - nu)
                p -= np.float32(1e-3) * (mu / c1 / (np.sqrt(nu / c2) + np.float32(1e-8)) + np.float32(0.01) * p)
            return params

        return call


@workload("optimizers/eager AdamW update", tol=1e-3, calls=4, note="6 leaves of a 64-128-128-10 network, without jit")
class EagerAdamW(Workload):
    def inputs(self, rng):
        shapes = [s for a, b in ((64, 128), (128, 128), (128, 10)) for s in ((a, b), (b,))]
        return [normal(rng, *s) for s in shapes], [normal(rng, *s, scale=0.1) for s in shapes]

    def jaxlike(self, m, params, grads):
        optimizer = m.optim.adamw(1e-3, weight_decay=0.01)
        box = [params, optimizer.init(params)]

        def call():
            updates, state = optimizer.update(grads, box[1], box[0])
            box[:] = m.optim.apply_updates(box[0], updates), state
            return box[0]

        return call

    def torch(self, m, params, grads):
        for p, g in zip(params, grads):
            p.grad = g
        optimizer = m.torch.optim.AdamW(params, lr=1e-3, weight_decay=0.01, fused=True)

        def call():
            optimizer.step()
            return params

        return call
