"""All elementwise functions: arithmetic, comparison, logic, bits, exp/log, trigonometric.  Selection and rounding are in .selection."""

from fgrad.numpy import arithmetic, logic, transcendental
from fgrad.numpy.arithmetic import *
from fgrad.numpy.logic import *
from fgrad.numpy.logic import truth as truth
from fgrad.numpy.transcendental import *

__all__: list[str] = []
__all__ += arithmetic.__all__
__all__ += logic.__all__
__all__ += transcendental.__all__
