"""Hypergeometric functions 1F1 and 2F1 of real arguments, and the Pochhammer symbol.

Series run until their terms no longer count; DLMF equations lead every argument to where the series are stable and short. The
derivatives in the parameters are those of the series themselves.
"""

import math

import numpy as np

import fgrad.numpy as jnp
from fgrad import lax
from fgrad.api import custom_jvp, jvp
from fgrad.ops import special as ops
from fgrad.scipy.chebyshev import operands, single


def _whole_below_1(x):
    return (x <= 0) & (lax.floor(x) == x)


def _sign_of_gamma(x):
    return jnp.where((x < 0) & (jnp.mod(lax.floor(x), 2) != 0), -1.0, 1.0).astype(x.dtype)


def _gamma_ratio(upper, lower):
    """Products of gamma functions over products: 0 where a lower argument is a pole, an infinity where only an upper one is."""
    log = sum(ops.lgamma(u) for u in upper) - sum(ops.lgamma(jnp.where(_whole_below_1(w), 1, w)) for w in lower)
    sign = math.prod(map(_sign_of_gamma, [*upper, *lower]))
    zero = sum(_whole_below_1(w) for w in lower) > 0
    return jnp.where(zero, 0, sign * lax.exp(log))


@custom_jvp
@single
def _poch(z, m):
    top, bottom = ops.gamma(z + m), ops.gamma(z)
    usable = jnp.isfinite(top) & jnp.isfinite(bottom) & (bottom != 0)
    value = jnp.where(usable, top / jnp.where(usable, bottom, 1), _gamma_ratio([z + m], [z]))
    return jnp.where(m == 0, 1, value)


_poch.defjvps(
    lambda t, out, z, m: t * (ops.digamma(z + m) - ops.digamma(z)) * out,
    lambda t, out, z, m: t * ops.digamma(z + m) * out,
)


def poch(z, m):
    """The Pochhammer symbol gamma(z + m) / gamma(z), for real z and m."""
    return _poch(*operands("poch", z, m))


def _sum_while(step, state, limit):
    """The sum of terms: step(k, state) gives the next state, of which the last entry is the term; until none counts any longer."""
    eps = np.finfo(state[-1].dtype).eps / 16

    def body(carry):
        k, total, state = carry
        state = step(k, state)
        return k + 1, total + state[-1], state

    def more(carry):
        k, total, state = carry
        return (k < limit) & jnp.any((abs(state[-1]) > eps * abs(total)) & jnp.isfinite(total))

    start = jnp.zeros((), state[-1].dtype), state[-1], state
    return lax.while_loop(more, body, start)[1]


def _series(ratio, limit):
    """The function of (parameters..., x) whose series starts with 1 and has these ratios of successive terms, with its derivatives."""

    @custom_jvp
    def value(*args):
        return _sum_while(lambda k, s: (s[0] * ratio(k, *args),), (jnp.ones_like(args[-1]),), limit)

    def slope(i, args):
        eps = np.finfo(args[i].dtype).eps / 16

        def body(carry):
            k, total, term, change = carry
            r, dr = jvp(lambda v: ratio(k, *args[:i], v, *args[i + 1 :]), (args[i],), (jnp.ones_like(args[i]),))
            change = change * r + term * dr
            return k + 1, total + change, term * r, change

        def more(carry):
            k, total, term, change = carry
            return (k < limit) & jnp.any((abs(term) + abs(change) > eps * abs(total)) & jnp.isfinite(total))

        zero = jnp.zeros_like(args[i])
        return lax.while_loop(more, body, (jnp.zeros((), args[i].dtype), zero, jnp.ones_like(zero), zero))[1]

    @value.defjvp
    def rule(primals, tangents):
        return value(*primals), sum(t * slope(i, primals) for i, t in enumerate(tangents))

    return value


# --- 1F1 ------------------------------------------------------------------------------------------------------------------

_kummer_series = _series(lambda k, a, b, x: (a + k) / (b + k) * x / (k + 1), 4000)  # DLMF 13.2.2


def _kummer_far(a, b, x):
    """gamma(b) / gamma(a) x^(a-b) times the sum of DLMF 13.7.2, which ends before its terms grow; without exp(x)."""

    def body(k, carry):
        total, term = carry
        following = term * (b - a + k) * (1 - a + k) / (k + 1) / x
        following = jnp.where(abs(following) < abs(term), following, 0)
        return total + following, following

    total, _ = lax.fori_loop(0, 40, body, (jnp.ones_like(x), jnp.ones_like(x)))
    return _gamma_ratio([b], [a]) * x ** (a - b) * total


def _hyp1f1_general(a, b, x, polynomial=False):
    a1, size = jnp.where(x < 0, b - a, a), abs(x)  # Kummer's transformation, DLMF 13.2.39
    series = jnp.logical_not(polynomial)
    far = (size > (600 if x.dtype.itemsize == 8 else 80)) & series & ~_whole_below_1(a1)
    near = _kummer_series(jnp.where(polynomial, a, a1), b, jnp.where(far, 0, jnp.where(polynomial, x, size)))
    near = near * jnp.where((x < 0) & series, lax.exp(x), 1)
    beyond = _kummer_far(a1, b, jnp.where(far, size, 1)) * jnp.where(x < 0, 1, lax.exp(x))
    return jnp.where(far, beyond, near)


@custom_jvp
@single
def _hyp1f1(a, b, x):
    value = _hyp1f1_general(a, b, x, _whole_below_1(a))
    return jnp.where(a == 0, 1, jnp.where(a == b, lax.exp(x), jnp.where(b == 0, np.inf, value)))


def _slope(fun, args, i):
    """The derivative of fun in its argument i, at args."""
    dtype = args[i].dtype
    wide = [v.astype(jnp.promote_types(dtype, jnp.float32)) for v in args]
    return jvp(lambda v: fun(*wide[:i], v, *wide[i + 1 :]), (wide[i],), (jnp.ones_like(wide[i]),))[1].astype(dtype)


_hyp1f1.defjvps(
    lambda t, out, a, b, x: t * _slope(_hyp1f1_general, (a, b, x), 0),
    lambda t, out, a, b, x: t * _slope(_hyp1f1_general, (a, b, x), 1),
    lambda t, out, a, b, x: t * (a / b * _hyp1f1(a + 1, b + 1, x)),
)


def hyp1f1(a, b, x):
    """Kummer's confluent hypergeometric function 1F1(a; b; x) of real arguments; 1 for a = 0, infinite for b = 0.

    >>> from fgrad.scipy import special
    >>> round(float(special.hyp1f1(1.0, 2.0, 1.0)), 5)
    1.71828
    """
    return _hyp1f1(*operands("hyp1f1", a, b, x))


# --- 2F1 ------------------------------------------------------------------------------------------------------------------


_gauss_series = _series(lambda k, a, b, c, x: (a + k) * (b + k) / (c + k) / (k + 1) * x, 200_000)  # DLMF 15.2.1


def _at_one(a, b, c, d, y):
    """2F1 at 1 - y by DLMF 15.8.4, for d = c - a - b not near a whole number."""
    first = _gamma_ratio([c, d], [c - a, c - b]) * _gauss_series(a, b, 1 - d, y)
    return first + y**d * _gamma_ratio([c, -d], [a, b]) * _gauss_series(c - a, c - b, d + 1, y)


def _at_one_whole(a, b, c, m, y):
    """2F1 at 1 - y for whole m = c - a - b >= 0: DLMF 15.8.10."""

    def finite(k, carry):
        total, term = carry
        total = total + jnp.where(k < m, term, 0)
        bottom = (k + 1) * (1 - m + k)
        return total, term * (a + k) * (b + k) * y / jnp.where(bottom == 0, 1, bottom)

    count = jnp.max(m, initial=0).astype(jnp.int32)
    state = 0, (jnp.zeros_like(y), jnp.ones_like(y))
    head = lax.while_loop(lambda s: s[0] < count, lambda s: (s[0] + 1, finite(s[0].astype(y.dtype), s[1])), state)[1][0]
    head = jnp.where(m > 0, head * _gamma_ratio([jnp.where(m > 0, m, 1), c], [a + m, b + m]), 0)

    def step(k, state):
        factor, bracket, _ = state
        factor = factor * (a + m + k) * (b + m + k) / ((k + 1) * (k + 1 + m)) * y
        bracket = bracket - 1 / (k + 1) - 1 / (k + m + 1) + 1 / (a + m + k) + 1 / (b + m + k)
        return factor, bracket, factor * bracket

    bracket = lax.log(y) - ops.digamma(jnp.ones_like(y)) - ops.digamma(m + 1) + ops.digamma(a + m) + ops.digamma(b + m)
    factor = lax.exp(-ops.lgamma(m + 1))
    tail = _sum_while(step, (factor, bracket, factor * bracket), 2000)
    sign = jnp.where(jnp.mod(m, 2) == 0, 1.0, -1.0).astype(y.dtype)
    return head - sign * y**m * _gamma_ratio([c], [a, b]) * tail


def _inside(a, b, c, x, whole_too=True):
    """2F1 for 0 <= x < 1 with neither a nor b a whole number below 1; elements outside are passed with x = 0.

    whole_too: where c - a - b is whole, near 1, its own formula is used, of which the derivatives in the parameters are not those of 2F1.
    """
    y = 1 - x
    d = c - a - b
    turned = d < 0  # Euler's transformation, DLMF 15.8.1, makes d positive
    a, b, d = jnp.where(turned, c - a, a), jnp.where(turned, c - b, b), abs(d)
    whole, far = jnp.round(d), x > 0.9
    exact = far & (d == whole) & whole_too
    apart = far & (abs(d - whole) > 0.05)
    a1, b1 = jnp.where(exact, a, 1), jnp.where(exact, b, 1)
    m = jnp.where(exact, whole, 0)
    at_whole = _at_one_whole(a1, b1, jnp.where(exact, c, 2), m, jnp.where(exact, y, 0.05))
    at_other = _at_one(
        jnp.where(apart, a, 1), jnp.where(apart, b, 1), jnp.where(apart, c, 2.5), jnp.where(apart, d, 0.5), jnp.where(apart, y, 0.05)
    )
    direct = _gauss_series(a, b, c, jnp.where(exact | apart, 0, x))
    return jnp.where(exact, at_whole, jnp.where(apart, at_other, direct)) * jnp.where(turned, y**-d, 1)


def _hyp2f1_general(a, b, c, x):
    """What the derivatives in the parameters are those of, for x < 1."""
    below = x < 0
    x1, b1 = jnp.where(below, x / (x - 1), x), jnp.where(below, c - b, b)  # Pfaff's transformation, DLMF 15.8.1
    return _inside(a, b1, c, x1, False) * jnp.where(below, (1 - jnp.where(below, x, 0)) ** -a, 1)


@custom_jvp
@single
def _hyp2f1(a, b, c, x):
    d = c - a - b
    polynomial = _whole_below_1(a) | _whole_below_1(b)
    euler = _whole_below_1(c - a) | _whole_below_1(c - b)
    below = x < 0
    x1, b1 = jnp.where(below, x / (x - 1), x), jnp.where(below, c - b, b)  # Pfaff's transformation, DLMF 15.8.1
    usual = ~polynomial & ~euler & (x1 < 1)
    value = _inside(jnp.where(usual, a, 1), jnp.where(usual, b1, 1), jnp.where(usual, c, 2), jnp.where(usual, x1, 0))
    value = value * jnp.where(below & usual, (1 - jnp.where(below, x, 0)) ** -a, 1)
    other = polynomial | euler
    sides = jnp.where(polynomial, a, c - a), jnp.where(polynomial, b, c - b)
    ended = _gauss_series(jnp.where(other, sides[0], 1), jnp.where(other, sides[1], 1), c, jnp.where(other, x, 0))
    ended = ended * jnp.where(polynomial, 1, jnp.where(x < 1, 1 - x, 1) ** d)
    value = jnp.where(other, ended, value)
    value = jnp.where((x == 1) & ~polynomial, jnp.where(d > 0, _gamma_ratio([c, d], [c - a, c - b]), np.inf), value)
    infinite = _whole_below_1(c) | ((x > 1) & ~polynomial)
    return jnp.where((x == 0) | (((a == 0) | (b == 0)) & (c != 0)), 1, jnp.where(infinite, np.inf, value))


_hyp2f1.defjvps(
    lambda t, out, a, b, c, x: t * _slope(_hyp2f1_general, (a, b, c, x), 0),
    lambda t, out, a, b, c, x: t * _slope(_hyp2f1_general, (a, b, c, x), 1),
    lambda t, out, a, b, c, x: t * _slope(_hyp2f1_general, (a, b, c, x), 2),
    lambda t, out, a, b, c, x: t * (a * b / c * _hyp2f1(a + 1, b + 1, c + 1, x)),
)


def hyp2f1(a, b, c, x):
    """Gauss's hypergeometric function 2F1(a, b; c; x) of real arguments: infinite for x > 1 and for c = 0, -1, -2, ...

    For x near 1 by the transformations to 1 - x, for x < 0 by Pfaff's.

    >>> from fgrad.scipy import special
    >>> round(float(special.hyp2f1(1.0, 1.0, 2.0, 0.5)), 5)
    1.38629
    """
    return _hyp2f1(*operands("hyp2f1", a, b, c, x))


__all__ = ["hyp1f1", "hyp2f1", "poch"]
