/* What modules that compile programs are compiled with: == of strings, which Cython leaves to PyUnicode_Compare, without a call. */
#ifndef FG_TEXT_H
#define FG_TEXT_H
#include <Python.h>
#include <string.h>

static inline int fg_compare_text(PyObject *a, PyObject *b) {
    if (PyUnicode_KIND(a) != PyUnicode_1BYTE_KIND || PyUnicode_KIND(b) != PyUnicode_1BYTE_KIND) return PyUnicode_Compare(a, b);
    Py_ssize_t n = PyUnicode_GET_LENGTH(a), m = PyUnicode_GET_LENGTH(b);
    int order = memcmp(PyUnicode_1BYTE_DATA(a), PyUnicode_1BYTE_DATA(b), n < m ? n : m);
    return order ? (order < 0 ? -1 : 1) : (n > m) - (n < m);
}
#define PyUnicode_Compare fg_compare_text
#endif
