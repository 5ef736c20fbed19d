/* What a mask of bytes selects. A byte that is not zero holds; `count` is how many of the n do, as fg_mask_count said. */
#ifndef FG_MASKS_H
#define FG_MASKS_H
#include <stdint.h>
#include <string.h>

static int64_t fg_mask_count(const uint8_t *m, int64_t n) {
  int64_t count = 0;
  for (int64_t i = 0; i < n;) {
    int64_t end = i + 255 < n ? i + 255 : n;
    uint8_t part = 0; /* of at most 255 */
    for (; i < end; i++) part += m[i] != 0;
    count += part;
  }
  return count;
}

/* WRITE(i, k): element i is the k-th that holds, or is written over by it. Eight bytes at a time, so that empty stretches cost little. */
#define FG_EACH_TRUE(WRITE)                                     \
  int64_t i = 0, k = 0;                                         \
  for (; k + 8 <= count && i + 8 <= n; i += 8) {                \
    uint64_t word;                                              \
    memcpy(&word, m + i, 8);                                    \
    if (word)                                                   \
      for (int64_t j = i; j < i + 8; j++) {                     \
        WRITE(j, k);                                            \
        k += m[j] != 0;                                         \
      }                                                         \
  }                                                             \
  for (; k < count && i < n; i++) {                             \
    WRITE(i, k);                                                \
    k += m[i] != 0;                                             \
  }

#define FG_SELECTED(T)                                                                                                          \
  static void fg_selected_##T(const uint8_t *m, int64_t n, int64_t count, const void *from, void *to) {                         \
    const T *x = from;                                                                                                          \
    T *out = to;                                                                                                                \
    FG_EACH_TRUE(FG_TAKE)                                                                                                       \
  }                                                                                                                             \
  static void fg_placed_##T(const uint8_t *m, int64_t n, int64_t count, const void *from, const void *values, void *to) {       \
    const T *x = from, *v = values;                                                                                             \
    T *out = to;                                                                                                                \
    int64_t i = 0, k = 0;                                                                                                       \
    for (; k < count && i < n; i++) {                                                                                           \
      out[i] = m[i] ? v[k] : x[i];                                                                                              \
      k += m[i] != 0;                                                                                                           \
    }                                                                                                                           \
    memcpy(out + i, x + i, (n - i) * sizeof(T));                                                                                \
  }
#define FG_TAKE(i, k) out[k] = x[i]
FG_SELECTED(uint8_t)
FG_SELECTED(uint16_t)
FG_SELECTED(uint32_t)
FG_SELECTED(uint64_t)

#define FG_TRUE_PLACES(T)                                                                                                       \
  static void fg_true_places_##T(const uint8_t *m, int64_t n, int64_t count, T *out, int64_t step) {                            \
    FG_EACH_TRUE(FG_PLACE)                                                                                                      \
  }
#define FG_PLACE(i, k) out[(k) * step] = i
FG_TRUE_PLACES(int32_t)
FG_TRUE_PLACES(int64_t)

/* The rows of `size` bytes that a mask selects. */
static void fg_mask_selected(const uint8_t *m, int64_t n, int64_t count, int64_t size, const char *x, char *out) {
  if (size == 1) fg_selected_uint8_t(m, n, count, x, out);
  else if (size == 2) fg_selected_uint16_t(m, n, count, x, out);
  else if (size == 4) fg_selected_uint32_t(m, n, count, x, out);
  else if (size == 8) fg_selected_uint64_t(m, n, count, x, out);
  else
    for (int64_t i = 0, k = 0; i < n && k < count; i++)
      if (m[i]) memcpy(out + k++ * size, x + i * size, size);
}

/* x with one word at all places of the selected rows, of `rows` words each. */
static void fg_mask_numbered(const uint8_t *m, int64_t n, int64_t rows, const uint32_t *x, uint32_t word, uint32_t *out) {
  if (rows == 1)
    for (int64_t i = 0; i < n; i++) out[i] = m[i] ? word : x[i];
  else
    for (int64_t i = 0; i < n; i++, x += rows, out += rows)
      for (int64_t k = 0; k < rows; k++) out[k] = m[i] ? word : x[k];
}

/* x with its selected rows replaced by `values`, one after the other. */
static void fg_mask_placed(const uint8_t *m, int64_t n, int64_t count, int64_t size, const char *x, const char *values, char *out) {
  if (size == 1) fg_placed_uint8_t(m, n, count, x, values, out);
  else if (size == 2) fg_placed_uint16_t(m, n, count, x, values, out);
  else if (size == 4) fg_placed_uint32_t(m, n, count, x, values, out);
  else if (size == 8) fg_placed_uint64_t(m, n, count, x, values, out);
  else {
    memcpy(out, x, n * size);
    for (int64_t i = 0, k = 0; i < n && k < count; i++)
      if (m[i]) memcpy(out + i * size, values + k++ * size, size);
  }
}

/* The places of all that holds in `rows` rows of n, axis by axis: those along axis d begin at out[d], `step` apart. */
#define FG_TRUE_ROWS(T)                                                                                                         \
  static void fg_true_rows_##T(const uint8_t *m, int64_t rows, int64_t n, char *const *out, int ndim, const int64_t *dims, int64_t step) { \
    int64_t at[16] = {0}, k = 0;                                                                                                \
    for (int64_t r = 0; r < rows; r++, m += n) {                                                                                \
      int64_t count = fg_mask_count(m, n);                                                                                      \
      fg_true_places_##T(m, n, count, (T *)out[ndim - 1] + k * step, step);                                                     \
      for (int d = 0; d < ndim - 1; d++)                                                                                        \
        for (int64_t j = k; j < k + count; j++) ((T *)out[d])[j * step] = (T)at[d];                                             \
      k += count;                                                                                                               \
      for (int d = ndim - 2; d >= 0 && ++at[d] == dims[d]; d--) at[d] = 0;                                                      \
    }                                                                                                                           \
  }
FG_TRUE_ROWS(int32_t)
FG_TRUE_ROWS(int64_t)
#endif
