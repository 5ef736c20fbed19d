# Copies of a product's operands; NULL where there is no memory for one.
from libc.stdint cimport int64_t

from fgrad._kernels.dot_plan cimport FgDot

cdef char *pack(FgDot *p, char *src, const int64_t *s, int64_t outer, int64_t rows, int64_t cols, int how, int64_t *sb, int64_t *sb1) noexcept nogil
cdef char *spread(FgDot *p, char *src) noexcept nogil
cdef char *pack_complex(FgDot *p, char *src) noexcept nogil
