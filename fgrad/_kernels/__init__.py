"""Everything that touches memory.  KERNELS maps a kernel's name to its (run, check) addresses.

A source build has one set of kernels, for its own machine, in this folder. A portable build (FGRAD_BUILD_ISA=all) has a folder of
them per instruction set, and the best that the processor runs is put first in the package's path; FGRAD_ISA forces one.
"""

import os
from importlib import import_module

from fgrad._kernels.isa import supported

_HERE = os.path.dirname(__file__)


def variants(folder=_HERE):
    """{name: folder} of the instruction sets that kernels were built for; empty for a source build."""
    folders = [(name, os.path.join(folder, name)) for name in sorted(os.listdir(folder)) if name.startswith("isa-")]
    return {name[len("isa-") :]: path for name, path in folders if any(f.startswith("array.") for f in os.listdir(path))}


def choose(built, runs, forced=""):
    """The name of the variant to load, or "native" where there is one set of kernels.

    built: names of variants; runs: names that the processor runs, best first; forced: FGRAD_ISA. ImportError where none fits.
    """
    names = list(built) or ["native"]
    usable = [name for name in runs if name in built] or ([] if built else ["native"])
    if forced and forced not in names:
        raise ImportError(f"FGRAD_ISA={forced}: this build of fgrad has kernels for {', '.join(names)}")
    if forced and forced not in usable or not usable:
        raise ImportError(
            f"fgrad has kernels for {', '.join(names)}{f' and FGRAD_ISA={forced}' if forced else ''}, but this processor runs "
            f"{', '.join(runs) or 'none of them'}: build fgrad from source (pip install --no-binary fgrad fgrad)"
        )
    return forced or usable[0]


ISA = choose(VARIANTS := variants(), supported(), os.environ.get("FGRAD_ISA", ""))
if VARIANTS:
    __path__.insert(0, VARIANTS[ISA])

_MODULES = """
    attention band conv cumulative dot_bytes elementwise fft fold glu index lapack loss matmul movement norm pairs pool random ranked
    recurrence rope search softmax sort
""".split()

KERNELS: dict[str, tuple[int, int]] = {}
for _name in _MODULES:
    KERNELS.update(import_module(f"fgrad._kernels.{_name}").KERNELS)
