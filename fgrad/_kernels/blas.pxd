# Single-threaded BLAS entry points, loaded at import.  Row major = 101, no transpose = 111, transpose = 112.
from libc.stdint cimport int64_t

cdef enum:
    ROW_MAJOR = 101
    NO_TRANS = 111
    TRANS = 112

ctypedef void (*sgemm_t)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                         const float *b, int ldb, float beta, float *c, int ldc) noexcept nogil
ctypedef void (*dgemm_t)(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                         const double *b, int ldb, double beta, double *c, int ldc) noexcept nogil
ctypedef void (*xgemm_t)(int order, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int lda,
                         const void *b, int ldb, const void *beta, void *c, int ldc) noexcept nogil
ctypedef void (*sgemv_t)(int order, int ta, int m, int n, float alpha, const float *a, int lda, const float *x, int incx,
                         float beta, float *y, int incy) noexcept nogil
ctypedef void (*dgemv_t)(int order, int ta, int m, int n, double alpha, const double *a, int lda, const double *x, int incx,
                         double beta, double *y, int incy) noexcept nogil
ctypedef void (*xgemv_t)(int order, int ta, int m, int n, const void *alpha, const void *a, int lda, const void *x, int incx,
                         const void *beta, void *y, int incy) noexcept nogil

cdef sgemm_t sgemm
cdef dgemm_t dgemm
cdef xgemm_t cgemm
cdef xgemm_t zgemm
cdef sgemv_t sgemv
cdef dgemv_t dgemv
cdef xgemv_t cgemv
cdef xgemv_t zgemv

cdef void *blas_symbol(str name) except NULL

# c (m, n) = a b (+ c, where `add`), row-major; ta, tb are NO_TRANS or TRANS
cdef void gemm(int dtype, int ta, int tb, int64_t m, int64_t n, int64_t k, const char *a, int64_t lda, const char *b, int64_t ldb,
               int add, char *c, int64_t ldc) noexcept nogil
