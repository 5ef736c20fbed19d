"""An MLP on scikit-learn's handwritten digits: value_and_grad and SGD with momentum in one jitted, donated step."""

import numpy as np
from sklearn.datasets import load_digits

import fgrad
import fgrad.numpy as jnp
from fgrad import nn, optim, random


def init(key, sizes):
    he = nn.initializers.he_normal()
    keys = random.split(key, len(sizes) - 1)
    return [{"w": he(k, (m, n)), "b": jnp.zeros(n)} for k, m, n in zip(keys, sizes, sizes[1:])]


def logits(params, x):
    """x (B, 64) -> (B, 10)."""
    for layer in params[:-1]:
        x = nn.relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def loss(params, x, y):
    return jnp.mean(nn.softmax_cross_entropy_with_integer_labels(logits(params, x), y))


def read_digits(key, held_out=297):
    """Training and held-out (images, labels) of the 1,797 digits, shuffled; pixels between 0 and 1."""
    x, y = load_digits(return_X_y=True)
    order = np.asarray(random.permutation(key, len(x)))
    x, y = (x[order] / 16).astype(np.float32), y[order].astype(np.int32)
    return (x[held_out:], y[held_out:]), (x[:held_out], y[:held_out])


def main(epochs=30, batch=64):
    data_key, init_key, order_key = random.split(random.key(0), 3)
    (x, y), (x_test, y_test) = read_digits(data_key)
    params = init(init_key, (64, 128, 64, 10))
    optimizer = optim.sgd(0.05, momentum=0.9)
    state = optimizer.init(params)

    def step(params, state, x, y):
        value, grads = fgrad.value_and_grad(loss)(params, x, y)
        updates, state = optimizer.update(grads, state, params)
        return optim.apply_updates(params, updates), state, value

    step = fgrad.jit(step, donate_argnums=(0, 1))
    accuracy = fgrad.jit(lambda params, x, y: jnp.mean(jnp.argmax(logits(params, x), axis=1) == y))
    for epoch in range(1, epochs + 1):
        order = np.asarray(random.permutation(random.fold_in(order_key, epoch), len(x)))
        values = []
        for rows in np.array_split(order[: len(x) // batch * batch], len(x) // batch):
            params, state, value = step(params, state, x[rows], y[rows])
            values.append(float(value))
        if epoch % 5 == 0 or epoch == epochs:
            print(f"epoch {epoch:3d}  loss {np.mean(values):.4f}  held-out accuracy {float(accuracy(params, x_test, y_test)):.3f}")
    return float(accuracy(params, x_test, y_test))


if __name__ == "__main__":
    main()
