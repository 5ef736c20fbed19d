"""Associated Legendre functions by their recurrences in the degree (DLMF 14.10.3), with the Condon-Shortley phase."""

import math
import operator

import numpy as np

import fgrad.numpy as jnp
from fgrad import lax
from fgrad.numpy.util import concrete


def _sizes(name, m, n, z):
    m, n = (operator.index(concrete(name, v, "pass m and n as Python integers")) for v in (m, n))
    if m < 0 or n < 0:
        raise ValueError(f"{name}: m and n must not be negative, got {m} and {n}")
    (z,) = jnp.promote_dtypes_inexact(z)
    if z.dtype.name not in ("float32", "float64"):
        raise TypeError(f"z.dtype={z.dtype} is not supported: {name} takes float32 and float64.")
    if z.ndim != 1:
        raise ValueError("z must be a 1D array.")
    return m, n, z


def _factors(k, l, normalized):
    """(a, b) with P_l = a z P_{l-1} - b P_{l-2}, of order k."""
    if not normalized:
        return (2 * l - 1) / (l - k), (l + k - 1) / (l - k)
    a = math.sqrt((4 * l * l - 1) / (l * l - k * k))
    return a, a * math.sqrt(((l - 1) ** 2 - k * k) / (4 * (l - 1) ** 2 - 1))


def _values(m, n, z, normalized, derivatives):
    """(values, derivatives or None), each (m + 1, n + 1, size of z)."""
    zero, sine = jnp.zeros_like(z), jnp.sqrt((1 - z) * (1 + z))
    start = math.sqrt(0.25 / math.pi) if normalized else 1.0
    values, slopes = [], []
    for k in range(m + 1):
        if k:
            start *= -math.sqrt((2 * k + 1) / (2 * k)) if normalized else -(2 * k - 1)
        p, d = [zero] * k, [zero] * k
        for l in range(k, n + 1):
            if l == k:
                p.append(start * lax.integer_pow(sine, k) if k else jnp.full_like(z, start))
                tail = z / sine if k == 1 else z * lax.integer_pow(sine, k - 2) if k else zero
                d.append(-k * start * tail)
                continue
            a, b = _factors(k, l, normalized)
            before, slope_before = (p[l - 2], d[l - 2]) if l - 2 >= k else (zero, zero)
            p.append(a * z * p[l - 1] - b * before)
            d.append(a * (p[l - 1] + z * d[l - 1]) - b * slope_before if derivatives else zero)
        if k == 1:  # at 1 and -1 the slope is infinite: the recurrence has differences of infinities there
            d = [jnp.where(jnp.abs(z) == 1, np.inf * z**l, v) if l else v for l, v in enumerate(d)]
        values += p[: n + 1]
        slopes += d[: n + 1]
    shape = (m + 1, n + 1, *z.shape)
    return jnp.stack(values).reshape(shape), jnp.stack(slopes).reshape(shape) if derivatives else None


def lpmn(m, n, z):
    """(values, derivatives) of the associated Legendre functions of orders 0 to m and degrees 0 to n, each (m + 1, n + 1, len(z)).

    z: float32 or float64 of one axis (TypeError, ValueError otherwise), in [-1, 1].

    >>> import fgrad.numpy as jnp
    >>> from fgrad.scipy import special
    >>> special.lpmn(1, 1, jnp.array([0.5]))[0][:, :, 0]
    Array([[ 1.       ,  0.5      ],
           [ 0.       , -0.8660254]], dtype=float32)
    """
    m, n, z = _sizes("lpmn", m, n, z)
    return _values(m, n, z, False, True)


def lpmn_values(m, n, z, is_normalized):
    """The values of lpmn; is_normalized: times sqrt((2 l + 1) (l - k)! / (4 pi (l + k)!)), as spherical harmonics have them."""
    m, n, z = _sizes("lpmn_values", m, n, z)
    return _values(m, n, z, bool(is_normalized), False)[0]
