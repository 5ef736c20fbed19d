"""Linear regression by gradient descent (value_and_grad and optim.sgd in one jitted, donated step), beside the closed form."""

import numpy as np

import fgrad
import fgrad.numpy as jnp
from fgrad import optim, random


def loss(params, x, y):
    return jnp.mean((x @ params["w"] + params["b"] - y) ** 2)


def data(key, rows, features):
    """x (rows, features), y (rows,): a line with noise of 0.1."""
    kx, kw, kn = random.split(key, 3)
    x = random.normal(kx, (rows, features))
    return x, x @ random.normal(kw, (features,)) + 1.5 + 0.1 * random.normal(kn, (rows,))


def closed_form(x, y):
    """The least-squares (w, b), in float64."""
    ones = np.ones((len(x), 1))
    solution = np.linalg.lstsq(np.hstack([np.asarray(x, np.float64), ones]), np.asarray(y, np.float64), rcond=None)[0]
    return solution[:-1], solution[-1]


def main(steps=300, rows=500, features=5):
    x, y = data(random.key(0), rows, features)
    params = {"w": jnp.zeros(features), "b": jnp.zeros(())}
    optimizer = optim.sgd(0.05, momentum=0.9)
    state = optimizer.init(params)

    def step(params, state, x, y):
        value, grads = fgrad.value_and_grad(loss)(params, x, y)
        updates, state = optimizer.update(grads, state, params)
        return optim.apply_updates(params, updates), state, value

    step = fgrad.jit(step, donate_argnums=(0, 1))
    for i in range(steps):
        params, state, value = step(params, state, x, y)
        if i in (0, 9, 99) or i == steps - 1:
            print(f"step {i + 1:4d}  loss {float(value):.6f}")
    w, b = closed_form(x, y)
    difference = max(np.abs(np.asarray(params["w"]) - w).max(), abs(float(params["b"]) - b))
    print("gradient descent w", np.round(np.asarray(params["w"]), 4), "b", round(float(params["b"]), 4))
    print("closed form      w", np.round(w, 4), "b", round(float(b), 4))
    print(f"largest difference {difference:.1e}")
    return float(difference)


if __name__ == "__main__":
    main()
