"""The passes over a jaxpr that come before its lowering, each with its switch in the configuration."""

from fgrad.compile import sparse
from fgrad.config import config
from fgrad.core import ClosedJaxpr
from fgrad.transforms.linearize import dce_jaxpr


def _drop_dead(closed):
    """What no output needs goes, inside loops and branches too."""
    return ClosedJaxpr(dce_jaxpr(closed.jaxpr, [True] * len(closed.out_avals))[0], closed.consts)


PASSES = (
    ("pass_dce", _drop_dead),
    ("pass_sparse", sparse.propagate),
)


def run_passes(closed: ClosedJaxpr) -> ClosedJaxpr:
    """An equal jaxpr that is cheaper to run."""
    for switch, run in PASSES:
        if getattr(config, switch):
            closed = run(closed)
    return closed
