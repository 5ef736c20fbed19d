"""Types and primitives of hijax: a library may declare them, as flax.nnx does; binding one raises NotImplementedError."""

from typing import NamedTuple

from fgrad.core import AbstractValue, ShapedArray
from fgrad.core.refs import AbstractRef
from fgrad.interpreters.ad import Zero, instantiate_zeros, is_undefined_primal

__all__ = [
    "AbstractRef",
    "AbstractValue",
    "AvalMutableQDD",
    "AvalQDD",
    "HiPrimitive",
    "HiType",
    "MutableHiType",
    "ShapedArray",
    "VJPHiPrimitive",
    "Zero",
    "aval_method",
    "aval_property",
    "control_flow_allowed_effects",
    "instantiate_zeros",
    "is_undefined_primal",
    "register_hitype",
]


class HiType(AbstractValue):
    """Base of the types of values that a program would know as one."""

    is_high, has_qdd = True, False


class MutableHiType(HiType):
    """Base of the types of values that a program would change."""

    has_qdd = True


class HiPrimitive:
    """Base of operations on such values."""

    def __init__(self, name):
        self.name = name

    def bind(self, *args, **params):
        raise NotImplementedError(
            f"{self.name}: no values of hijax types here; fgrad.new_ref and pytrees of arrays do the same (docs/jax_names.md)"
        )


class VJPHiPrimitive:
    """Base of operations with a reverse rule of their own; calling one raises NotImplementedError."""

    def __call__(self, *args):
        raise NotImplementedError(f"{type(self).__name__}: a function of fgrad.custom_vjp does the same (docs/jax_names.md)")


class AvalQDD(NamedTuple):
    """A type, and what it is at one point of the program."""

    aval: AbstractValue
    qdd: object


class AvalMutableQDD(NamedTuple):
    """A type, and a place for what it becomes."""

    aval: AbstractValue
    mutable_qdd: object


class aval_property(NamedTuple):  # noqa: N801 - JAX's name
    """A property that a tracer would take from its type."""

    fget: object


class aval_method(NamedTuple):  # noqa: N801 - JAX's name
    """A method that a tracer would take from its type."""

    fun: object


class _EffectTypes(set):
    def add_type(self, effect_type):
        self.add(effect_type)


control_flow_allowed_effects = _EffectTypes()


def register_hitype(value_type, typeof):
    """Note that `typeof` gives the HiType of values of `value_type`; no program has such values."""
