"""Random numbers: golden values of jax.random 0.10 (partitionable threefry), and the distributions' shapes."""

import numpy as np

import fgrad
import fgrad.numpy as jnp
from fgrad import random

GOLDEN = {
    "bernoulli": [False, False, False, False, False, False, False, False],
    "bits": [2895194379, 4185947648, 1300703658],
    "categorical": [4, 4, 4, 4, 4, 4, 2, 4],
    "fold_in": [2796958904, 1911163382],
    "normal": [0.4512351453304291, 1.9534509181976318, -0.5162394642829895],
    "permutation": [4, 2, 3, 5, 0, 7, 6, 1],
    "randint": [-4, 43, 19, 60, 59, 59],
    "split": [[3625411723, 1954958720], [195045567, 4062205631]],
    "uniform": [0.6740899085998535, 0.9746168851852417, 0.3028435707092285],
}


def test_golden():
    k = random.key(7)
    np.testing.assert_array_equal(random.split(k, 2), GOLDEN["split"])
    np.testing.assert_array_equal(random.fold_in(k, 11), GOLDEN["fold_in"])
    np.testing.assert_array_equal(random.bits(k, (3,)), GOLDEN["bits"])
    np.testing.assert_array_equal(random.uniform(k, (3,)), np.array(GOLDEN["uniform"], np.float32))
    np.testing.assert_array_equal(random.randint(k, (6,), -5, 77), GOLDEN["randint"])
    np.testing.assert_array_equal(random.permutation(k, 8), GOLDEN["permutation"])
    np.testing.assert_array_equal(random.bernoulli(k, 0.3, (8,)), GOLDEN["bernoulli"])
    np.testing.assert_array_equal(random.categorical(k, jnp.arange(5.0), shape=(8,)), GOLDEN["categorical"])
    np.testing.assert_allclose(random.normal(k, (3,)), GOLDEN["normal"], rtol=1e-5)


def test_under_transformations():
    k = random.key(0)
    np.testing.assert_array_equal(fgrad.jit(lambda k: random.uniform(k, (5,)))(k), random.uniform(k, (5,)))
    keys = random.split(k, 4)
    batched = fgrad.vmap(lambda k: random.normal(k, (5,)))(keys)
    np.testing.assert_array_equal(batched, np.stack([random.normal(q, (5,)) for q in keys]))


def test_moments():
    x = np.asarray(random.normal(random.key(1), (100_000,)))
    assert abs(x.mean()) < 0.02 and abs(x.std() - 1) < 0.02
    t = np.asarray(random.truncated_normal(random.key(2), -1.0, 1.0, (10_000,)))
    assert t.min() >= -1 and t.max() <= 1
