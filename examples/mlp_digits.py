"""An MLP on scikit-learn's handwritten digits: value_and_grad and SGD with momentum in one jitted, donated step."""

import numpy as np
from sklearn.datasets import load_digits

import fgrad
import fgrad.numpy as jnp


def init(rng, sizes):
    return [
        {"w": jnp.asarray((rng.normal(size=(m, n)) * np.sqrt(2 / m)).astype(np.float32)), "b": jnp.zeros(n)}
        for m, n in zip(sizes, sizes[1:])
    ]


def logits(params, x):
    for layer in params[:-1]:
        x = jnp.maximum(x @ layer["w"] + layer["b"], 0)
    return x @ params[-1]["w"] + params[-1]["b"]


def loss(params, x, y):
    z = logits(params, x)
    z = z - jnp.max(z, axis=1, keepdims=True)
    log_p = z - jnp.log(jnp.sum(jnp.exp(z), axis=1, keepdims=True))
    return -jnp.mean(jnp.take_along_axis(log_p, y[:, None], 1))


def step(params, momentum, x, y, lr):
    value, grads = fgrad.value_and_grad(loss)(params, x, y)
    momentum = fgrad.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
    params = fgrad.tree.map(lambda p, m: p - lr * m, params, momentum)
    return params, momentum, value


def main(epochs=30, batch=64):
    x, y = load_digits(return_X_y=True)
    x, y = (x / 16).astype(np.float32), y.astype(np.int32)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(x))
    x, y, x_test, y_test = x[order[:1500]], y[order[:1500]], x[order[1500:]], y[order[1500:]]
    params = init(rng, (64, 128, 64, 10))
    momentum = fgrad.tree.map(jnp.zeros_like, params)
    train_step = fgrad.jit(step, donate_argnums=(0, 1))
    predict = fgrad.jit(lambda p, x: jnp.argmax(logits(p, x), axis=1))
    for epoch in range(epochs):
        order = rng.permutation(len(x))
        values = []
        for i in range(0, len(x) - batch + 1, batch):
            rows = order[i : i + batch]
            params, momentum, value = train_step(params, momentum, x[rows], y[rows], 0.05)
            values.append(float(value))
        if epoch % 5 == 4:
            accuracy = float(jnp.mean(predict(params, x_test) == y_test))
            print(f"epoch {epoch + 1:3d}  loss {np.mean(values):.4f}  held-out accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
