"""The smallest start: a function, its derivative, the derivative of that, and all of it compiled and over many points at once."""

import fgrad
import fgrad.numpy as jnp


def f(x):
    return jnp.sin(x) * x**2


def main():
    df = fgrad.grad(f)
    ddf = fgrad.grad(df)
    x = 2.0
    print(f"f({x})   = {float(f(x)):.6f}")
    print(f"f'({x})  = {float(df(x)):.6f}   by hand: {float(jnp.cos(x) * x**2 + 2 * x * jnp.sin(x)):.6f}")
    print(f"f''({x}) = {float(ddf(x)):.6f}   by hand: {float(4 * x * jnp.cos(x) + (2 - x**2) * jnp.sin(x)):.6f}")
    points = jnp.linspace(0.0, 3.0, 4)
    print("f' at", points, "=", fgrad.jit(fgrad.vmap(df))(points))
    print("the program of f':", fgrad.make_jaxpr(df)(x), sep="\n")
    return float(df(x)), float(ddf(x))


if __name__ == "__main__":
    main()
