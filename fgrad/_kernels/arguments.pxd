from libc.stdint cimport int64_t

# What tells the arguments of calls apart, as a growing row of words.
cdef struct Words:
    int64_t *at
    Py_ssize_t n, room
    int64_t first[64]

cdef void start(Words *w) noexcept
cdef void release(Words *w) noexcept
cdef int push(Words *w, int64_t word) except -1
cdef bytes signature_of(Words *w)
cdef int flatten_dict(dict d, list leaves, Words *w, bint *convert, int depth) except -1
cdef int flatten(object x, list leaves, Words *w, bint *convert, int depth) except -1
