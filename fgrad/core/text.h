/* What modules that compile programs are compiled with: == of strings, which Cython leaves to PyUnicode_Compare, most often without a call. */
#ifndef FG_TEXT_H
#define FG_TEXT_H
#include <Python.h>
#include <string.h>

static inline int fg_compare_text(PyObject *a, PyObject *b) {
    if (PyUnicode_KIND(a) != PyUnicode_1BYTE_KIND || PyUnicode_KIND(b) != PyUnicode_1BYTE_KIND) return PyUnicode_Compare(a, b);
    Py_ssize_t n = PyUnicode_GET_LENGTH(a);
    const Py_UCS1 *x = PyUnicode_1BYTE_DATA(a), *y = PyUnicode_1BYTE_DATA(b);
    return n != PyUnicode_GET_LENGTH(b) || *x != *y || memcmp(x, y, n);      /* only whether they are equal is asked */
}
#define PyUnicode_Compare fg_compare_text
#endif
