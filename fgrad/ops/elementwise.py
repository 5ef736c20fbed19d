"""All elementwise primitives and their functions, by one import."""

from fgrad.ops.arithmetic import *  # noqa: F403
from fgrad.ops.casts import *  # noqa: F403
from fgrad.ops.logic import *  # noqa: F403
from fgrad.ops.special import *  # noqa: F403
from fgrad.ops.transcendental import *  # noqa: F403
