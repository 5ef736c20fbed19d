"""OpenBLAS from the scipy-openblas32 wheel, always on one thread.

Work is split by `parallel_for` into panels, and each panel is one single-threaded BLAS call.  OpenBLAS's own threads
would spin beside the OpenMP team, and its threaded drivers wait for each other inside a call, so they would deadlock on
a team that grants fewer threads than they asked for (nested calls, a second Python thread, a forked child).  Panels cost
nothing: at n = 256 both ways take the same time.
"""
from libc.stdint cimport int64_t
from posix.dlfcn cimport RTLD_LOCAL, RTLD_NOW, dlerror, dlopen, dlsym

from fgrad._kernels.abi cimport FG_C64, FG_F32, FG_F64

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


cdef void gemm(int dtype, int ta, int tb, int64_t m, int64_t n, int64_t k, const char *a, int64_t lda, const char *b, int64_t ldb,
               int add, char *c, int64_t ldc) noexcept nogil:
    cdef float one_f[2]
    cdef float beta_f[2]
    cdef double one_d[2]
    cdef double beta_d[2]
    if dtype == FG_F32:
        sgemm(ROW_MAJOR, ta, tb, <int>m, <int>n, <int>k, 1.0, <const float *>a, <int>lda, <const float *>b, <int>ldb,
              add, <float *>c, <int>ldc)
    elif dtype == FG_F64:
        dgemm(ROW_MAJOR, ta, tb, <int>m, <int>n, <int>k, 1.0, <const double *>a, <int>lda, <const double *>b, <int>ldb,
              add, <double *>c, <int>ldc)
    elif dtype == FG_C64:
        one_f[0], one_f[1], beta_f[0], beta_f[1] = 1, 0, add, 0
        cgemm(ROW_MAJOR, ta, tb, <int>m, <int>n, <int>k, one_f, a, <int>lda, b, <int>ldb, beta_f, c, <int>ldc)
    else:
        one_d[0], one_d[1], beta_d[0], beta_d[1] = 1, 0, add, 0
        zgemm(ROW_MAJOR, ta, tb, <int>m, <int>n, <int>k, one_d, a, <int>lda, b, <int>ldb, beta_d, c, <int>ldc)
