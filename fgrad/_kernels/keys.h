/* Floats as integers of the same order.  A key is the magnitude's bits with the sign, so -0.0 == 0.0; every NaN has the
 * largest key.  `turn` reverses the order of all but NaN. */
#ifndef FG_KEYS_H
#define FG_KEYS_H
#include <stdint.h>

#define FG_FLOAT_KEY(NAME, U, I, INF, TOP) \
static inline I fg_key_##NAME(U u, int turn) { \
    U m = u & (U)TOP; \
    I sign = -(I)(u >> (8 * sizeof(U) - 1)), k = (I)((I)m ^ sign) - sign; \
    I nan = -(I)(m > INF), t = -(I)turn;             /* masks: conditional moves here keep GCC from vectorising a maximum */ \
    k = (I)((k ^ t) - t); \
    return (I)((k & ~nan) | (nan & (I)TOP)); \
}
FG_FLOAT_KEY(f16, uint16_t, int16_t, 0x7c00, INT16_MAX)
FG_FLOAT_KEY(bf16, uint16_t, int16_t, 0x7f80, INT16_MAX)
FG_FLOAT_KEY(f32, uint32_t, int32_t, 0x7f800000u, INT32_MAX)
FG_FLOAT_KEY(f64, uint64_t, int64_t, 0x7ff0000000000000u, INT64_MAX)
#endif
