"""Complex forms of functions whose primitives are real.

The inverse functions follow W. Kahan, "Branch cuts for complex elementary functions" (1987): no cancellation, no overflow, and signs of
zeros choose the side of a cut.
"""

import math

from fgrad.api.custom import custom_jvp
from fgrad.compile.eager import eager
from fgrad.dtypes import finfo
from fgrad.ops import elementwise as ew


def _parts(z):
    return ew.real(z), ew.imag(z)


def _times(z, factor):
    """z times a real number: parts that are infinite leave the others alone."""
    return ew.complex_(*[ew.mul(p, ew.like(p, factor)) for p in _parts(z)])


def exp2(z):
    return ew.exp(_times(z, math.log(2)))


def log2(z):
    return _times(ew.log(z), 1 / math.log(2))


def log10(z):
    return _times(ew.log(z), 1 / math.log(10))


def _turned(z):
    """i z."""
    x, y = _parts(z)
    return ew.complex_(ew.neg(y), x)


def _turned_back(z):
    """-i z."""
    x, y = _parts(z)
    return ew.complex_(y, ew.neg(x))


def _roots(z):
    """The parts of sqrt(1 - z) and of sqrt(1 + z)."""
    x, y = _parts(z)
    one = ew.like(x, 1)
    return *_parts(ew.sqrt(ew.complex_(ew.sub(one, x), ew.neg(y)))), *_parts(ew.sqrt(ew.complex_(ew.add(one, x), y)))


def _far(x, y):
    """Whether 1 is nothing beside |x + iy|, and |x + iy| / 2. Parts may be infinite."""
    half = ew.like(x, 0.5)
    size = ew.abs(ew.complex_(ew.mul(x, half), ew.mul(y, half)))
    return ew.gt(size, ew.like(x, 1 / finfo(x.dtype).eps)), size


def _arc(part, far, size):
    """asinh(part), and log(4 size) far out."""
    near = ew.asinh(ew.select(far, size, part))
    return ew.add(near, ew.select(far, ew.like(size, math.log(2)), ew.like(size, 0)))


def _asin(z):
    x, y = _parts(z)
    a, b, c, d = _roots(z)
    far, size = _far(x, y)
    across = ew.select(far, ew.abs(y), ew.sub(ew.mul(a, c), ew.mul(b, d)))
    return ew.complex_(ew.atan2(x, across), ew.copysign(_arc(ew.sub(ew.mul(a, d), ew.mul(b, c)), far, size), y))


def _acos(z):
    x, y = _parts(z)
    a, b, c, d = _roots(z)
    far, size = _far(x, y)
    angle = ew.mul(ew.atan2(ew.select(far, ew.abs(y), a), ew.select(far, x, c)), ew.select(far, ew.like(a, 1), ew.like(a, 2)))
    return ew.complex_(angle, ew.copysign(_arc(ew.sub(ew.mul(b, c), ew.mul(a, d)), far, size), ew.neg(y)))


def _acosh(z):
    x, y = _parts(z)
    one = ew.like(x, 1)
    a, b = _parts(ew.sqrt(ew.complex_(ew.sub(x, one), y)))
    c, d = _parts(ew.sqrt(ew.complex_(ew.add(x, one), y)))
    far, size = _far(x, y)
    angle = ew.mul(ew.atan2(ew.select(far, y, b), ew.select(far, x, c)), ew.select(far, one, ew.like(b, 2)))
    return ew.complex_(_arc(ew.add(ew.mul(a, c), ew.mul(b, d)), far, size), angle)


def _atanh(z):
    """Odd, so taken where Re z >= 0."""
    flip = ew.lt(ew.real(z), ew.like(ew.real(z), 0))
    x, y = _parts(ew.select(flip, ew.neg(z), z))
    one = ew.like(x, 1)
    far, size = _far(x, y)
    less, square = ew.sub(one, x), ew.square(y)
    # Beside the pole y^2 would vanish, and log1p(4 / y^2) is 2 log1p(2 / |y|).
    pole = ew.bitwise_and(ew.eq(less, ew.like(x, 0)), ew.lt(ew.abs(y), ew.like(y, finfo(y.dtype).eps)))
    four, two = ew.like(x, 4), ew.like(x, 2)
    re = ew.log1p(ew.div(ew.select(pole, two, ew.mul(x, four)), ew.select(pole, ew.abs(y), ew.add(ew.square(less), square))))
    re = ew.mul(re, ew.select(pole, two, one))
    inverse = ew.div(ew.div(ew.min(x, ew.like(x, finfo(x.dtype).max)), size), size)  # 4 Re(1 / z)
    im = ew.atan2(ew.mul(y, two), ew.sub(ew.mul(less, ew.add(one, x)), square))
    im = ew.select(far, ew.copysign(ew.like(y, math.pi), y), im)
    out = ew.complex_(ew.mul(ew.select(far, inverse, re), ew.like(re, 0.25)), ew.mul(im, ew.like(im, 0.5)))
    return ew.select(flip, ew.neg(out), out)


def _of_square(z, sign):
    """1 + sign z^2, as a product."""
    one = ew.like(z, 1)
    if sign > 0:
        z = _turned(z)
    return ew.mul(ew.sub(one, z), ew.add(one, z))


def _with_derivative(fun, derivative):
    """`fun` as one program outside of jit, with its derivative of z."""
    f = custom_jvp(eager(1)(fun))
    f.defjvp(lambda primals, tangents: (f(*primals), ew.mul(tangents[0], derivative(*primals))))
    return f


def _between(z):
    """sqrt(z - 1) sqrt(z + 1)."""
    one = ew.like(z, 1)
    return ew.mul(ew.sqrt(ew.sub(z, one)), ew.sqrt(ew.add(z, one)))


def _inverse(z):
    return ew.div(ew.like(z, 1), z)


asin = _with_derivative(_asin, lambda z: _inverse(ew.sqrt(_of_square(z, -1))))
acos = _with_derivative(_acos, lambda z: ew.neg(_inverse(ew.sqrt(_of_square(z, -1)))))
atan = _with_derivative(lambda z: _turned_back(_atanh(_turned(z))), lambda z: _inverse(_of_square(z, 1)))
asinh = _with_derivative(lambda z: _turned_back(_asin(_turned(z))), lambda z: _inverse(ew.sqrt(_of_square(z, 1))))
acosh = _with_derivative(_acosh, lambda z: _inverse(_between(z)))
atanh = _with_derivative(_atanh, lambda z: _inverse(_of_square(z, -1)))
