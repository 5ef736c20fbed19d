"""What makes a function of a primitive: promotion, broadcasting, names and docstrings of the elementwise functions."""

from fgrad.compile.eager import eager
from fgrad.core import get_aval
from fgrad.core.binding import floating_of, paired, pairing_of
from fgrad.dtypes import BOOL
from fgrad.numpy.util import SCALARS, binary, common_dtype, unary
from fgrad.ops import elementwise as ew


def named(fun, name, doc, arrays=2, traced=None):
    """fun as an eager function. traced: what is called in its place while tracing."""
    fun.__name__ = fun.__qualname__ = name
    fun.__module__ = "fgrad.numpy.ufuncs"  # where pickle finds it
    fun.__doc__ = doc
    out = eager(arrays)(fun)
    if traced is not None:
        out._slow = traced
    return out


def inexact_ufunc(name, prim, what, complex_form=None, strong=False):
    """A unary function on floats and complex numbers; integers become the default float. strong: the result is never weakly typed."""
    bind = prim.bind

    def fun(x, /):
        x = unary(name, x, inexact=True)
        if complex_form is not None and x.aval.dtype.kind == "c":
            out = ew.cast_as(complex_form(x), x.aval.dtype, x.aval.weak_type)
        else:
            out = bind(x)
        return ew.convert_element_type(out, out.aval.dtype) if strong else out

    return named(
        fun,
        name,
        f"{what}, element by element. Integers become the default float.\n\n"
        "x: array or scalar of any shape. Returns an array of that shape. Raises TypeError for lists.\n",
        arrays=1,
        traced=None if strong else floating_of(prim, fun),
    )


def is_mask(x):
    """Whether x is an array of booleans, of fgrad or NumPy."""
    return getattr(x, "dtype", None) == BOOL and hasattr(x, "shape")


def binary_ufunc(name, prim, bool_prim, doc, mixed=None):
    """A binary function; booleans take bool_prim (None: the primitive refuses them itself); mixed(x, y) is the result where a boolean
    array meets floats, or None."""
    bind = prim.bind

    def fun(x, y, /):
        if (pair := paired(x, y)) is not None:
            return bind(*pair)
        if mixed is not None and (is_mask(x) or is_mask(y)) and (out := mixed(x, y)) is not None:
            return out
        x, y = binary(name, x, y)
        if bool_prim is not None and common_dtype(x, y) is BOOL:
            return bool_prim.bind(x, y)
        return bind(x, y)

    fun.primitive = prim  # type: ignore[attr-defined]
    return named(
        fun,
        name,
        f"{doc}, element by element, after type promotion and broadcasting.\n\n"
        "x, y: arrays or scalars of shapes that broadcast together (ValueError otherwise). Raises TypeError for lists.\n",
        traced=pairing_of(prim, fun),
    )


def typed_as(out, x, y):
    """A result that was made with typed constants, weakly typed where both operands are."""
    weak = get_aval(x).weak_type and get_aval(y).weak_type
    return ew.convert_element_type(out, out.dtype, weak)


def arr(x, dtype):
    """A scalar operand as a constant of dtype, for unary primitives."""
    return dtype.type(x) if type(x) in SCALARS else x
