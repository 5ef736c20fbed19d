from libc.stdint cimport int64_t

# What tells trees, or the arguments of calls, apart, as a growing row of words.
cdef struct Words:
    int64_t *at
    Py_ssize_t n, room
    bint custom                    # there are registered nodes: their data are told apart by ==
    bint unsorted                  # there are dictionaries whose names are not in ascending order
    int64_t first[64]

cdef void start(Words *w) noexcept
cdef void release(Words *w) noexcept
cdef int push(Words *w, int64_t word) except -1
cdef bytes bytes_of(Words *w)

cdef class Walk:
    cdef dict kinds, structures
    cdef str namespace
    cdef Kind learn(self, t)
    cdef int walk(self, object x, list leaves, Words *w, int depth) except -1
    cdef int walk_dict(self, dict d, list leaves, Words *w, int depth) except -1
    cdef int walk_custom(self, object x, Kind kind, list leaves, Words *w, int depth) except -1
    cdef object structure_of(self, tree, Words *w)
    cdef list columns(self, tree, tuple rest, Words *first)

cdef class Kind:
    cdef int code
    cdef readonly object type, flatten
