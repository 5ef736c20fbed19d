"""OpenBLAS from the scipy-openblas32 wheel, always on one thread.

Work is split by `parallel_for` into panels, and each panel is one single-threaded BLAS call.  OpenBLAS's own threads
would spin beside the OpenMP team, and its threaded drivers wait for each other inside a call, so they would deadlock on
a team that grants fewer threads than they asked for (nested calls, a second Python thread, a forked child).  Panels cost
nothing: at n = 256 both ways take the same time.
"""
from posix.dlfcn cimport RTLD_LOCAL, RTLD_NOW, dlerror, dlopen, dlsym

import importlib.util
import os

cdef void *library = NULL
ctypedef void (*set_threads_t)(int n) noexcept nogil
ctypedef char *(*config_t)() noexcept nogil


def _library_path():
    spec = importlib.util.find_spec("scipy_openblas32")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        lib = os.path.join(folder, "lib")
        if os.path.isdir(lib):
            for name in sorted(os.listdir(lib)):
                if name.startswith("libscipy_openblas") and name.endswith((".so", ".dylib")):
                    return os.path.join(lib, name)
    raise ImportError("fgrad needs OpenBLAS for matrix products, and found no scipy_openblas32 package: pip install scipy-openblas32")


cdef void *blas_symbol(str name) except NULL:
    """The address of a BLAS, CBLAS or LAPACK routine, by its plain name ("cblas_sgemm", "dpotrf_")."""
    cdef bytes symbol = b"scipy_" + name.encode()
    cdef void *address = dlsym(library, symbol)
    if address == NULL:
        raise ImportError(f"OpenBLAS in {_path} has no routine {name}: pip install --upgrade scipy-openblas32")
    return address


def openblas_config():
    """OpenBLAS's description of itself: version, core type, largest number of threads."""
    return (<config_t>blas_symbol("openblas_get_config"))().decode()


def _load(path):
    global library
    # The variable is read when the library is loaded: with 1 it starts no pool at all.
    before = os.environ.get("OPENBLAS_NUM_THREADS")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    try:
        library = dlopen(os.fsencode(path), RTLD_NOW | RTLD_LOCAL)
    finally:
        if before is None:
            del os.environ["OPENBLAS_NUM_THREADS"]
        else:
            os.environ["OPENBLAS_NUM_THREADS"] = before
    if library == NULL:
        raise ImportError(f"OpenBLAS did not load ({dlerror().decode(errors='replace')}): pip install --force-reinstall scipy-openblas32")


_path = _library_path()
_load(_path)
(<set_threads_t>blas_symbol("openblas_set_num_threads"))(1)      # the same file may have been loaded earlier by someone else
sgemm = <sgemm_t>blas_symbol("cblas_sgemm")
dgemm = <dgemm_t>blas_symbol("cblas_dgemm")
cgemm = <xgemm_t>blas_symbol("cblas_cgemm")
zgemm = <xgemm_t>blas_symbol("cblas_zgemm")
sgemv = <sgemv_t>blas_symbol("cblas_sgemv")
dgemv = <dgemv_t>blas_symbol("cblas_dgemv")
cgemv = <xgemv_t>blas_symbol("cblas_cgemv")
zgemv = <xgemv_t>blas_symbol("cblas_zgemv")
