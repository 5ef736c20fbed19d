"""Named errors.  Names are JAX's where JAX has one, so that `except` clauses port."""


class FgradError(Exception):
    """Base of the errors that fgrad defines itself."""


class TracerError(FgradError, TypeError):
    """A traced value was used where it cannot be."""


class ConcretizationTypeError(TracerError):
    """A traced value was used where Python needs a concrete one."""


class TracerBoolConversionError(ConcretizationTypeError):
    """bool() of a traced value: an `if`, `while`, `and`, `or` or `assert` depends on it."""


class TracerIntegerConversionError(ConcretizationTypeError):
    """A traced value was used as a Python integer (an index into a list, range(), a shape)."""


class TracerArrayConversionError(TracerError):
    """A traced value was given to NumPy."""


class NonConcreteBooleanIndexError(TracerError, IndexError):
    """A boolean mask under tracing would give a result of unknown shape."""


class UnexpectedTracerError(TracerError):
    """A tracer was used after, or outside, the transformation that made it."""


class JaxprTypeError(FgradError, TypeError):
    """A jaxpr is not well typed: raised by the checker."""


class InconclusiveDimensionOperation(Exception):
    """What was asked of a symbolic dimension holds for some sizes only, or needs a number."""


class NotDifferentiableError(FgradError, NotImplementedError, TypeError, ValueError):
    """A derivative was asked of something that has none, or in a mode that it does not support."""


class ShapeError(FgradError, TypeError, ValueError):
    """Shapes do not fit an operation."""


class LoweringError(FgradError, RuntimeError):
    """A program could not be compiled."""


class TypePromotionError(FgradError, ValueError):
    """Operands of dtypes that do not promote."""


class KeyReuseError(FgradError, RuntimeError):
    """A random key was used twice. (fgrad does not look for that: the name is for `except` clauses.)"""


JAXTypeError = TracerError
JAXIndexError = NonConcreteBooleanIndexError
JaxRuntimeError = LoweringError


class AxisError(FgradError, ValueError, IndexError):
    """An axis that an array does not have, as numpy.exceptions.AxisError."""


class InplaceError(FgradError, NotImplementedError, ValueError):
    """An array was to be changed in place."""


class EmptyAxisError(FgradError, IndexError, TypeError):
    """An element is asked for of an axis of size 0."""
