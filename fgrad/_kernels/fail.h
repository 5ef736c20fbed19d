/* How a kernel's check says no: `return fg_fail(msg, "pad: axis %d ...", d)`. */
#ifndef FG_FAIL_H
#define FG_FAIL_H
#include <stdarg.h>
#include <stdio.h>
#include "fg.h"

__attribute__((format(printf, 2, 3)))
static int fg_fail(char *msg, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    vsnprintf(msg, FG_MSG, format, ap);
    va_end(ap);
    return -1;
}

static const char *const fg_dtype_names[FG_NDTYPES] = {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
                                                       "float16", "bfloat16", "float32", "float64", "complex64", "complex128"};
static const char *fg_dtype_name(int d) { return d >= 0 && d < FG_NDTYPES ? fg_dtype_names[d] : "?"; }

/* "(2, 3)" in one of four rotating buffers, so that one message can name several shapes. */
static const char *fg_shape_text(const FgTensor *t) {
    static __thread char text[4][96];
    static __thread int turn = 0;
    char *s = text[turn++ & 3];
    int n = 0;
    n += snprintf(s + n, 96 - n, "(");
    for (int d = 0; d < t->ndim && n < 80; d++)
        n += snprintf(s + n, 96 - n, d ? ", %lld" : "%lld", (long long)t->shape[d]);
    if (n > 90) n = 90;
    snprintf(s + n, 96 - n, ")");
    return s;
}
#endif
