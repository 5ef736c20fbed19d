/* Elements of a strided box, overwritten, added to or multiplied by others. */
#ifndef FG_UPDATE_H
#define FG_UPDATE_H
#include "fg.h"

enum { FG_PUT, FG_ADD, FG_MUL };
typedef union { float f32; int32_t i32; uint8_t u8; } FgNumber;

/* Programs flush denormal numbers, and checks ask for infinities and NaN: such numbers are theirs. */
static inline int fg_is_plain(float x) {
  uint32_t w;
  memcpy(&w, &x, 4);
  w &= 0x7fffffff;
  return w == 0 || (w >= 0x00800000 && w < 0x7f800000);
}

#define FG_EACH(T, EXPR)                                                          \
  for (int64_t i = 0; i < n; i++) {                                               \
    T *o = (T *)to + i * step, v = ((const T *)by)[i * by_step];                  \
    EXPR;                                                                         \
  }                                                                               \
  break

/* One row; false where it met a number that is a program's. */
static int fg_update_row(char *to, int64_t step, const char *by, int64_t by_step, int64_t n, int32_t code, int how) {
  int plain = 1;
  switch (code == FG_F32 ? how : code == FG_I32 ? 3 + how : 6 + fg_itemsize(code)) {
    case FG_PUT: FG_EACH(float, *o = v; plain &= fg_is_plain(v));
    case FG_ADD: FG_EACH(float, plain &= fg_is_plain(v) & fg_is_plain(*o); *o += v; plain &= fg_is_plain(*o));
    case FG_MUL: FG_EACH(float, plain &= fg_is_plain(v) & fg_is_plain(*o); *o *= v; plain &= fg_is_plain(*o));
    case 3 + FG_PUT: FG_EACH(uint32_t, *o = v);
    case 3 + FG_ADD: FG_EACH(uint32_t, *o += v);
    case 3 + FG_MUL: FG_EACH(uint32_t, *o *= v);
    case 6 + 1: FG_EACH(uint8_t, *o = v);
    default: return 0;
  }
  return plain;
}

/* Dtypes that are put as they are, beside float32 and int32. */
static int fg_updates(int32_t code) { return code == FG_BOOL; }

/* `by` has the shape of `to`, or steps of 0 along all axes. False where numbers are met that are a program's: the box is half written then. */
static int fg_update(const FgTensor *to, const FgTensor *by, int how) {
  int64_t item = fg_itemsize(to->dtype), at[FG_MAXDIM] = {0}, whole = by->ndim == to->ndim;
  int last = to->ndim - 1;
  if (to->ndim == 0) return fg_update_row(to->data, 0, by->data, 0, 1, to->dtype, how);
  char *row = to->data;
  const char *from = by->data;
  for (;;) {
    if (!fg_update_row(row, to->strides[last], from, whole ? by->strides[last] : 0, to->shape[last], to->dtype, how)) return 0;
    int d = last - 1;
    for (; d >= 0; d--) {
      row += to->strides[d] * item;
      if (whole) from += by->strides[d] * item;
      if (++at[d] < to->shape[d]) break;
      row -= at[d] * to->strides[d] * item;
      if (whole) from -= at[d] * by->strides[d] * item;
      at[d] = 0;
    }
    if (d < 0) return 1;
  }
}
#endif
