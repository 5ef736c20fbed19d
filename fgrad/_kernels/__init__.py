"""Everything that touches memory.  KERNELS maps a kernel's name to its (run, check) addresses."""

from importlib import import_module

_MODULES = """
    attention conv cumulative elementwise glu index lapack loss matmul movement norm pool random rope softmax sort
""".split()

KERNELS: dict[str, tuple[int, int]] = {}
for _name in _MODULES:
    KERNELS.update(import_module(f"fgrad._kernels.{_name}").KERNELS)
