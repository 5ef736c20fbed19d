"""Build of the Cython kernels.  Everything else is in pyproject.toml."""

import compileall
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup

HERE = Path(__file__).parent
KERNELS = sorted(p.relative_to(HERE) for p in (HERE / "fgrad" / "_kernels").glob("*.pyx"))
# the inner loops over trees, of tracing and compiling: no loops over arrays, so they are built once, for any processor
PROGRAMS = sorted(p.relative_to(HERE) for d in ("", "core", "transforms", "compile", "api") for p in (HERE / "fgrad" / d).glob("*.pyx"))
OPENMP_HELP = """
fgrad needs a C compiler with OpenMP, and a small OpenMP program did not build:

{error}

Debian/Ubuntu: apt-get install gcc        Fedora: dnf install gcc
macOS: brew install libomp, then set CC=clang CFLAGS="-Xpreprocessor -fopenmp -I$(brew --prefix libomp)/include"
       and LDFLAGS="-L$(brew --prefix libomp)/lib -lomp"
"""


def compiler():
    import sysconfig

    return (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()


def accepts(flags, source="int main(void) { return 0; }\n"):
    """(True, "") if the compiler builds a program with these flags, else (False, what it said)."""
    with tempfile.TemporaryDirectory() as tmp:
        c = Path(tmp, "probe.c")
        c.write_text(source)
        run = subprocess.run(
            [
                *compiler(),
                *os.environ.get("CFLAGS", "").split(),
                *flags,
                str(c),
                "-o",
                str(Path(tmp, "probe")),
                *os.environ.get("LDFLAGS", "").split(),
            ],
            capture_output=True,
            text=True,
        )
        return run.returncode == 0, run.stderr


def flags():
    probe = "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n"
    try:
        ok, error = accepts(["-fopenmp"], probe)
    except OSError as e:
        ok, error = False, str(e)
    if not ok:
        sys.exit(OPENMP_HELP.format(error=error.strip()))
    return [
        "-O3",
        "-g0",
        "-fopenmp",
        "-fno-math-errno",
        "-fno-trapping-math",
        "-fwrapv",
        "-Wno-unused-function",
        "-Wno-maybe-uninitialized",
    ]


def flags_of(module):
    """Of one module: `instructions` interprets flat code, `vm_plan` has stages of several operations, `index` loops of several of one
    product; each rounds alone, without contraction. Loops over indices are a few instructions, which should not straddle lines."""
    apart = ["-ffp-contract=off"] if module in ("index", "instructions", "random", "vm_plan") else []
    return [*FLAGS, *apart, *(ALIGNED if module == "index" else [])]


def headers_of(module):
    """The headers that a module is built from, through other headers and through declarations that it cimports."""
    folder = HERE / "fgrad" / "_kernels"
    found, waiting = set(), [folder / f"{module}.pyx", folder / f"{module}.pxd"]
    while waiting:
        path = waiting.pop()
        if path in found or not path.exists():
            continue
        found.add(path)
        text = path.read_text()
        waiting += [folder / name for name in re.findall(r'"(\w+\.h)"', text)]
        waiting += [folder / f"{name}.pxd" for name in re.findall(r"from fgrad\._kernels\.(\w+) cimport", text)]
    return sorted(str(p) for p in found if p.suffix == ".h")


def march(isa):
    """The flag for an instruction set (a name that -march or -mcpu knows), or none where the compiler does not take it."""
    flag = f"-march={isa}" if platform.machine() in ("x86_64", "AMD64") else f"-mcpu={isa}"
    return [flag] if accepts([flag])[0] else []


def variant(extension, isa):
    """The same module once more, in a folder of its own: fgrad/_kernels/__init__.py puts one of these folders into the package's path."""
    package, _, module = extension.name.rpartition(".")
    source = Path("build", f"isa-{isa}", module + ".c")  # a file of its own, or the objects of all variants would have one name
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(f'#include "../../{Path(extension.sources[0]).as_posix()}"\n')
    Path(*package.split("."), f"isa-{isa}").mkdir(exist_ok=True)
    options = {**common, "depends": [*headers_of(module), *extension.sources], "extra_compile_args": [*flags_of(module), *march(isa)]}
    return Extension(f"{package}.isa-{isa}.{module}", [str(source)], **options)


FLAGS = flags()
ALIGNED = ["-falign-loops=32"] if accepts(["-falign-loops=32"])[0] else []
ISA = os.environ.get("FGRAD_BUILD_ISA", "native")  # native, all (for wheels), or what -march takes
VARIANTS = ["x86-64-v2", "x86-64-v3", "x86-64-v4"] if ISA == "all" and platform.machine() in ("x86_64", "AMD64") else []
STRIP = ["-Wl,-s"] if sys.platform.startswith("linux") else []  # no symbols: a third of the size
PLAIN = dict(include_dirs=[numpy.get_include(), "fgrad/_kernels"], extra_link_args=STRIP)
common = dict(
    include_dirs=PLAIN["include_dirs"],
    extra_link_args=["-fopenmp", *STRIP],
    define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
)
best = [] if ISA == "all" else march(ISA)
extensions = [
    Extension(
        ".".join(p.with_suffix("").parts),
        [str(p)],
        extra_compile_args=[*flags_of(p.stem), *(best if p.stem != "isa" else [])],
        depends=headers_of(p.stem),
        **common,
    )
    for p in KERNELS
]
modules = cythonize(
    extensions,
    nthreads=os.cpu_count() or 1,
    language_level=3,
    compiler_directives={"boundscheck": False, "wraparound": False, "cdivision": True, "initializedcheck": False},
)
text = "fgrad/core/text.h"
programs = cythonize(
    [
        Extension(".".join(p.with_suffix("").parts), [str(p)], extra_compile_args=["-O2", "-g0", "-include", text], depends=[text], **PLAIN)
        for p in PROGRAMS
    ],
    nthreads=os.cpu_count() or 1,
    language_level=3,
)
for folder in (HERE / "fgrad" / "_kernels").glob("isa-*"):
    if not VARIANTS:
        shutil.rmtree(folder)  # of an earlier portable build in place, which would be found first
if VARIANTS:
    isa = [m for m in modules if m.name.endswith(".isa")]
    modules = isa + [variant(m, name) for m in modules if m not in isa for name in VARIANTS]
# pip compiles one module after the other unless told otherwise
built = setup(ext_modules=modules + programs, options={"build_ext": {"parallel": os.cpu_count() or 1}})
if built.have_run.get("build_ext") and built.get_command_obj("build_ext").inplace:
    # the bytecode that pip writes of what it installs: without it, where PYTHONDONTWRITEBYTECODE is set, each import compiles 28,000 lines
    compileall.compile_dir(str(HERE / "fgrad"), quiet=1)
