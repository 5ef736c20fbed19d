"""Programs by family; importing this module fills the table."""

from tests.peers.programs import arrays, control, derivatives, nets, numerics, scalars, trees
from tests.peers.registry import PROGRAMS

__all__ = ["PROGRAMS", "arrays", "control", "derivatives", "nets", "numerics", "scalars", "trees"]
