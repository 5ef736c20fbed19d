"""What JAX lets a caller ask of an elementary function's accuracy."""

import enum


class AccuracyMode(enum.Enum):
    """How accurate a function should be. Every function here errs by 2 units in the last place at most, whatever is asked."""

    HIGHEST = 1
    DEFAULT = 2


class Tolerance:
    """The error that a caller accepts: absolute, relative, in units in the last place. Raises ValueError for negative numbers."""

    def __init__(self, atol=0.0, rtol=0.0, ulps=0):
        if atol < 0 or rtol < 0 or ulps < 0:
            raise ValueError(f"Tolerances must be non-negative, got atol={atol}, rtol={rtol}, ulps={ulps}")
        self.atol, self.rtol, self.ulps = atol, rtol, ulps

    def __repr__(self):
        return f"Tolerance(atol={self.atol}, rtol={self.rtol}, ulps={self.ulps})"


def check_accuracy(name, accuracy):
    """Raises ValueError for what is neither None nor of these types."""
    if accuracy is not None and not isinstance(accuracy, (AccuracyMode, Tolerance)):
        raise ValueError(f"{name}: accuracy must be an AccuracyMode, a Tolerance or None, got {accuracy!r}")
