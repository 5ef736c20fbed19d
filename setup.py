"""Build of the Cython kernels.  Everything else is in pyproject.toml."""

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup

HERE = Path(__file__).parent
KERNELS = sorted(p.relative_to(HERE) for p in (HERE / "fgrad" / "_kernels").glob("*.pyx"))
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
    out = ["-O3", "-g0", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-fwrapv", "-Wno-unused-function", "-Wno-maybe-uninitialized"]
    isa = os.environ.get("FGRAD_BUILD_ISA", "native")
    out += [f for f in ([f"-march={isa}"] if platform.machine() in ("x86_64", "AMD64") else [f"-mcpu={isa}"]) if accepts([f])[0]]
    return out


common = dict(
    include_dirs=[numpy.get_include(), "fgrad/_kernels"],
    extra_compile_args=flags(),
    extra_link_args=["-fopenmp", *(["-Wl,-s"] if sys.platform.startswith("linux") else [])],  # no symbols: a third of the size
    define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
    depends=[str(h) for h in (HERE / "fgrad" / "_kernels").glob("*.h")],
)
extensions = [Extension(".".join(p.with_suffix("").parts), [str(p)], **common) for p in KERNELS]
setup(
    ext_modules=cythonize(
        extensions,
        nthreads=os.cpu_count() or 1,
        language_level=3,
        compiler_directives={"boundscheck": False, "wraparound": False, "cdivision": True, "initializedcheck": False},
    )
)
