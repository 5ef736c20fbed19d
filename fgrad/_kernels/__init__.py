"""Everything that touches memory.  KERNELS maps a kernel's name to its (run, check) addresses."""

import contextlib
import os
from importlib import import_module


@contextlib.contextmanager
def _bounded_spin():
    """While libgomp loads (which reads it then): a team's threads spin about 0.1 ms for work or for each other, then sleep.

    Its own default is tens of milliseconds, which a thread whose partner lost its core to another process spins away at every region.
    A process that sets GOMP_SPINCOUNT or OMP_WAIT_POLICY itself, or has loaded libgomp before, keeps what it has.
    """
    mine = not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys()
    if mine:
        os.environ["GOMP_SPINCOUNT"] = "2000"
    try:
        yield
    finally:
        if mine:
            del os.environ["GOMP_SPINCOUNT"]


_MODULES = """
    attention cumulative elementwise glu index loss matmul movement norm optimizer random rope softmax sort
""".split()

KERNELS: dict[str, tuple[int, int]] = {}
with _bounded_spin():
    for _name in _MODULES:
        KERNELS.update(import_module(f"fgrad._kernels.{_name}").KERNELS)
