"""All elementwise functions: arithmetic, comparison, logic, bits, exp/log, trigonometric.  Selection and rounding are in .selection."""

from fgrad.numpy.arithmetic import *
from fgrad.numpy.logic import *
from fgrad.numpy.logic import truth as truth
from fgrad.numpy.transcendental import *
