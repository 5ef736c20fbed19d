/* Sorting by unsigned keys: every operand's order is mapped to 32 or 64-bit keys, which a stable radix sort orders alone
 * (one operand) or packed with their positions.  Several keys are several stable sorts, the least significant first. */
#ifndef FG_SORT_H
#define FG_SORT_H
#include "keys.h"
#include "movement.h"
#include "sort_row.h"

enum { FG_SORT_MAX = 32, FG_SORT_SEGMENT = 16384, FG_SORT_BIG = 32768, FG_TOP_BIG = 131072, FG_SORT_PARTS = 16, FG_SORT_SMALL = 128, FG_SORT_ALONE = 24, FG_SORT_BYTES = 256 };
enum { FG_QUICK_SHORT = 8192, FG_QUICK_PACKED = 3072 };
typedef struct { uint64_t key, index; } FgPair;
enum { FG_ENGINE_U32, FG_ENGINE_U64, FG_ENGINE_PAIR };     /* key alone; key alone or (key32, index32); (key64, index) */

/* ---- keys: ~0 as `flip` reverses the order */
#define FG_KEYS(NAME, T, U, EXPR) \
static void fg_keys_##NAME(const void *src, void *dst, int64_t n, U flip, int part) { \
    const T *s = (const T *)src; U *d = (U *)dst; \
    (void)part; \
    for (int64_t i = 0; i < n; i++) { T v = s[i]; d[i] = (U)(EXPR) ^ flip; } \
}
#define FG_UKEY32(v) ((uint32_t)fg_key_f32(v, 0) ^ 0x80000000u)
#define FG_UKEY64(v) ((uint64_t)fg_key_f64(v, 0) ^ 0x8000000000000000u)
typedef struct { uint32_t re, im; } fg_bits64;
typedef struct { uint64_t re, im; } fg_bits128;
FG_KEYS(u8, uint8_t, uint32_t, v)
FG_KEYS(u16, uint16_t, uint32_t, v)
FG_KEYS(u32, uint32_t, uint32_t, v)
FG_KEYS(u64, uint64_t, uint64_t, v)
FG_KEYS(i8, int8_t, uint32_t, (uint8_t)(v ^ INT8_MIN))
FG_KEYS(i16, int16_t, uint32_t, (uint16_t)(v ^ INT16_MIN))
FG_KEYS(i32, int32_t, uint32_t, (uint32_t)v ^ 0x80000000u)
FG_KEYS(i64, int64_t, uint64_t, (uint64_t)v ^ 0x8000000000000000u)
FG_KEYS(f16, uint16_t, uint32_t, (uint16_t)(fg_key_f16(v, 0) ^ INT16_MIN))
FG_KEYS(bf16, uint16_t, uint32_t, (uint16_t)(fg_key_bf16(v, 0) ^ INT16_MIN))
FG_KEYS(f32, uint32_t, uint32_t, FG_UKEY32(v))
FG_KEYS(f64, uint64_t, uint64_t, FG_UKEY64(v))
FG_KEYS(c64, fg_bits64, uint64_t, (uint64_t)FG_UKEY32(v.re) << 32 | FG_UKEY32(v.im))
FG_KEYS(c128, fg_bits128, uint64_t, part == 0 ? FG_UKEY64(v.re) : FG_UKEY64(v.im))

static int fg_key_wide(int dtype) { return fg_itemsize(dtype) >= 8; }
static int fg_key_bits(int dtype) { int64_t b = 8 * fg_itemsize(dtype); return b > 64 ? 64 : (int)b; }
static int fg_key_parts(int dtype) { return dtype == FG_C128 ? 2 : 1; }

/* Keys of up to 32 bits leave the bits above the dtype's own zero, reversed or not. */
static void fg_keys(int dtype, const void *s, void *d, int64_t n, int reverse, int part) {
    uint32_t f = !reverse ? 0 : fg_key_bits(dtype) < 32 ? (1u << fg_key_bits(dtype)) - 1 : 0xffffffffu;
    uint64_t g = reverse ? ~(uint64_t)0 : 0;
    switch (dtype) {
        case FG_BOOL: case FG_U8: fg_keys_u8(s, d, n, f, part); break;
        case FG_U16: fg_keys_u16(s, d, n, f, part); break;
        case FG_U32: fg_keys_u32(s, d, n, f, part); break;
        case FG_U64: fg_keys_u64(s, d, n, g, part); break;
        case FG_I8: fg_keys_i8(s, d, n, f, part); break;
        case FG_I16: fg_keys_i16(s, d, n, f, part); break;
        case FG_I32: fg_keys_i32(s, d, n, f, part); break;
        case FG_I64: fg_keys_i64(s, d, n, g, part); break;
        case FG_F16: fg_keys_f16(s, d, n, f, part); break;
        case FG_BF16: fg_keys_bf16(s, d, n, f, part); break;
        case FG_F32: fg_keys_f32(s, d, n, f, part); break;
        case FG_F64: fg_keys_f64(s, d, n, g, part); break;
        case FG_C64: fg_keys_c64(s, d, n, g, part); break;
        default: fg_keys_c128(s, d, n, g, part); break;
    }
}

/* ---- values back from keys (real dtypes); NaNs and zeros come out in one form and are put right by fg_sort_mend */
#define FG_UNKEY(NAME, U, K, BITS, EXPR) \
static void fg_unkey_##NAME(const void *src, void *dst, int64_t n, K flip) { \
    const K *s = (const K *)src; U *d = (U *)dst; \
    for (int64_t i = 0; i < n; i++) { U k = (U)((U)(s[i] ^ flip) ^ ((U)1 << (BITS - 1))); d[i] = (U)(EXPR); } \
}
#define FG_UNFLOAT(U, BITS) (k >> (BITS - 1) ? ((U)1 << (BITS - 1)) | (U)-k : k)
FG_UNKEY(float16, uint16_t, uint32_t, 16, FG_UNFLOAT(uint16_t, 16))
FG_UNKEY(float32, uint32_t, uint32_t, 32, FG_UNFLOAT(uint32_t, 32))
FG_UNKEY(float64, uint64_t, uint64_t, 64, FG_UNFLOAT(uint64_t, 64))
FG_UNKEY(int8, uint8_t, uint32_t, 8, k)
FG_UNKEY(int16, uint16_t, uint32_t, 16, k)
FG_UNKEY(int32, uint32_t, uint32_t, 32, k)
FG_UNKEY(int64, uint64_t, uint64_t, 64, k)

static int fg_is_signed(int dtype) { return dtype >= FG_I8 && dtype <= FG_I64; }

static void fg_unkeys(int dtype, const void *s, void *d, int64_t n, int reverse) {
    uint32_t f = reverse ? 0xffffffffu : 0;
    uint64_t g = reverse ? ~(uint64_t)0 : 0;
    int sign = !fg_is_signed(dtype);                       /* unsigned: undo what FG_UNKEY does to the top bit */
    switch (dtype) {
        case FG_F16: case FG_BF16: fg_unkey_float16(s, d, n, f); break;
        case FG_F32: fg_unkey_float32(s, d, n, f); break;
        case FG_F64: fg_unkey_float64(s, d, n, g); break;
        case FG_BOOL: case FG_I8: case FG_U8: fg_unkey_int8(s, d, n, f ^ (sign ? 0x80u : 0)); break;
        case FG_I16: case FG_U16: fg_unkey_int16(s, d, n, f ^ (sign ? 0x8000u : 0)); break;
        case FG_I32: case FG_U32: fg_unkey_int32(s, d, n, f ^ (sign ? 0x80000000u : 0)); break;
        default: fg_unkey_int64(s, d, n, g ^ (sign ? 0x8000000000000000u : 0)); break;
    }
}

/* Zeros and NaNs have lost their signs and payloads: write the originals, in their order, over their places. */
#define FG_MEND(NAME, U, INF, TOP) \
static int fg_odd_##NAME(const void *src, int64_t n) { \
    const U *s = (const U *)src; \
    U odd = 0; \
    for (int64_t i = 0; i < n; i++) odd |= (U)((s[i] == (U)((U)1 << (8 * sizeof(U) - 1))) | ((s[i] & (U)TOP) > INF)); \
    return odd != 0; \
} \
static void fg_mend_##NAME(const void *src, void *dst, int64_t n) { \
    const U *s = (const U *)src; U *d = (U *)dst; \
    if (!fg_odd_##NAME(src, n)) return; \
    int64_t zero = 0, nan = 0; \
    while (zero < n && d[zero] != 0) zero++; \
    while (nan < n && (d[nan] & (U)TOP) <= INF) nan++; \
    for (int64_t i = 0; i < n; i++) { \
        U m = s[i] & (U)TOP; \
        if (m == 0) d[zero++] = s[i]; \
        else if (m > INF) d[nan++] = s[i]; \
    } \
}
FG_MEND(f16, uint16_t, 0x7c00, INT16_MAX)
FG_MEND(bf16, uint16_t, 0x7f80, INT16_MAX)
FG_MEND(f32, uint32_t, 0x7f800000u, INT32_MAX)
FG_MEND(f64, uint64_t, 0x7ff0000000000000u, INT64_MAX)

static int fg_sort_odd(int dtype, const void *src, int64_t n) {
    switch (dtype) {
        case FG_F16: return fg_odd_f16(src, n);
        case FG_BF16: return fg_odd_bf16(src, n);
        case FG_F32: return fg_odd_f32(src, n);
        case FG_F64: return fg_odd_f64(src, n);
        default: return 0;
    }
}

static void fg_sort_mend(int dtype, const void *src, void *dst, int64_t n) {
    switch (dtype) {
        case FG_F16: fg_mend_f16(src, dst, n); break;
        case FG_BF16: fg_mend_bf16(src, dst, n); break;
        case FG_F32: fg_mend_f32(src, dst, n); break;
        case FG_F64: fg_mend_f64(src, dst, n); break;
        default: break;
    }
}

/* ---- stable radix sort of a by bits [lo, hi) of its keys, with t as workspace */
#define FG_RADIX(NAME, E, K, KEY) \
/* Few items: each one's place is the number of smaller keys, counted in vectors, plus its equals so far. */ \
static void fg_small_##NAME(E *a, E *t, int64_t n, int lo) { \
    K key[FG_SORT_SMALL + 16]; \
    uint8_t equals[FG_SORT_SMALL] = {0}; \
    int64_t padded = (n + 15) & ~(int64_t)15; \
    for (int64_t i = 0; i < padded; i++) key[i] = i < n ? (K)(KEY(a[i]) >> lo) : (K)-1; \
    for (int64_t i = 0; i < n; i++) { \
        K e = key[i], below = 0; \
        for (int64_t j = 0; j < padded; j++) below += key[j] < e; \
        t[below + equals[below]++] = a[i]; \
    } \
    memcpy(a, t, n * sizeof(E)); \
} \
static void fg_radix_##NAME(E *a, E *t, int64_t n, int lo, int hi) { \
    if (n <= 8) { \
        for (int64_t i = 1; i < n; i++) { \
            E e = a[i]; \
            int64_t j = i; \
            for (; j > 0 && KEY(a[j - 1]) >> lo > KEY(e) >> lo; j--) a[j] = a[j - 1]; \
            a[j] = e; \
        } \
        return; \
    } \
    if (n <= FG_SORT_SMALL) { fg_small_##NAME(a, t, n, lo); return; } \
    int width = n < 4096 ? 8 : 11; \
    uint32_t count[2048]; \
    E *from = a, *to = t; \
    for (int shift = lo; shift < hi; shift += width) { \
        uint32_t mask = (1u << (hi - shift < width ? hi - shift : width)) - 1, sum = 0; \
        memset(count, 0, ((size_t)mask + 1) * sizeof *count); \
        for (int64_t i = 0; i < n; i++) count[(uint32_t)(KEY(from[i]) >> shift) & mask]++; \
        if (count[(uint32_t)(KEY(from[0]) >> shift) & mask] == (uint64_t)n) continue;      /* one digit only */ \
        for (uint32_t k = 0; k <= mask; k++) { uint32_t c = count[k]; count[k] = sum; sum += c; } \
        for (int64_t i = 0; i < n; i++) { E e = from[i]; to[count[(uint32_t)(KEY(e) >> shift) & mask]++] = e; } \
        E *swap = from; from = to; to = swap; \
    } \
    if (from != a) memcpy(a, from, n * sizeof(E)); \
}
#define FG_ITSELF(e) (e)
#define FG_PAIR_KEY(e) ((e).key)
FG_RADIX(u32, uint32_t, uint32_t, FG_ITSELF)
FG_RADIX(u64, uint64_t, uint64_t, FG_ITSELF)
FG_RADIX(pair, FgPair, uint64_t, FG_PAIR_KEY)

/* ---- a long row for several threads: each collects the keys of one range, and sorts them */
typedef struct { uint64_t lo, hi; int32_t last; } FgSpan;                  /* keys from lo to below hi, or all from lo */
#define FG_WITHIN(k, s) (((k) >= (s).lo) & (((k) < (s).hi) | (s).last))
#define FG_COUNT(NAME, E, K, KEY) \
static int64_t fg_count_##NAME(const E *a, int64_t n, FgSpan span) { \
    struct { K lo, hi, last; } s = {(K)span.lo, (K)span.hi, (K)span.last}; \
    int64_t count = 0; \
    for (int64_t i = 0; i < n; i++) count += FG_WITHIN(KEY(a[i]), s); \
    return count; \
}
/* Those keys in their order; `count` of them. */
#define FG_GATHER(NAME, E, KEY) \
static void fg_gather_##NAME(const E *a, int64_t n, FgSpan s, E *to, int64_t count) { \
    for (int64_t i = 0, j = 0; i < n && j < count; i++) { to[j] = a[i]; j += FG_WITHIN(KEY(a[i]), s); } \
}
FG_COUNT(u32, uint32_t, uint32_t, FG_ITSELF)
FG_COUNT(u64, uint64_t, uint64_t, FG_ITSELF)
FG_COUNT(pair, FgPair, uint64_t, FG_PAIR_KEY)
FG_GATHER(pair, FgPair, FG_PAIR_KEY)
#include "sort_quick.h"
#if !FG_SORT_QUICK
FG_GATHER(u32, uint32_t, FG_ITSELF)
FG_GATHER(u64, uint64_t, FG_ITSELF)
static void fg_quick_u32(uint32_t *a, uint32_t *t, int64_t n, int to_work, int depth) { (void)to_work; (void)depth; fg_radix_u32(a, t, n, 0, 32); }
static void fg_quick_u64(uint64_t *a, uint64_t *t, int64_t n, int to_work, int depth) { (void)to_work; (void)depth; fg_radix_u64(a, t, n, 0, 64); }
#endif
static int fg_quick_depth(int64_t n) { return 2 * (64 - __builtin_clzll((uint64_t)n | 1)); }    /* of pivots, after which they are bad ones */

/* ---- one row (or a whole big one, in stages whose ranges threads share out) */
typedef struct {
    int32_t n_ops, n_keys, reverse, dtype, part, packed, engine, bits, first, odd;
    int64_t n, ends[FG_SORT_PARTS];                    /* of the ranges of keys that threads sort */
    FgSpan spans[FG_SORT_PARTS];
    int32_t dtypes[FG_SORT_MAX];
    const char *src[FG_SORT_MAX];
    char *dst[FG_SORT_MAX];
    const char *key;
    void *a, *t;
    char *keys;
    uint32_t *perm, *places;                           /* places: of keys of a byte, a table for each part */
    int32_t parts;
    uint32_t *cells, *order;                           /* what sort_spread.h works with */
    uint32_t piece_from[16], piece_shift[16];
    int32_t n_cells, map_shift, shares, last, told; uint64_t map_low;
} FgSortRow;

static int64_t fg_sort_scratch(int32_t wide, int64_t n) { return ((wide ? 16 + 16 + 8 + 4 : 8 + 8 + 4 + 4) * n + 256) & ~(int64_t)63; }

static void fg_sort_layout(FgSortRow *r, char *scratch, int wide) {
    int64_t e = ((wide ? 16 : 8) * r->n + 63) & ~(int64_t)63;
    r->a = scratch; r->t = scratch + e; r->keys = scratch + 2 * e;
    r->perm = (uint32_t *)(r->keys + (((wide ? 8 : 4) * r->n + 63) & ~(int64_t)63));
}

/* Keys of one part of one operand, packed with positions (the current order, unless this is the first sort). */
static void fg_sort_keys(void *ctx, int64_t begin, int64_t end, int tid) {
    FgSortRow *r = (FgSortRow *)ctx;
    int wide = fg_key_wide(r->dtype);
    (void)tid;
    char *keys = r->packed ? r->keys : (char *)r->a;
    const char *src = r->key + begin * fg_itemsize(r->dtype);
    fg_keys(r->dtype, src, keys + begin * (wide ? 8 : 4), end - begin, r->reverse, r->part);
    if (!r->packed && fg_sort_odd(r->dtype, src, end - begin)) __atomic_store_n(&r->odd, 1, __ATOMIC_RELAXED);
}
static void fg_sort_pack(void *ctx, int64_t begin, int64_t end, int tid) {
    FgSortRow *r = (FgSortRow *)ctx;
    (void)tid;
    if (r->engine == FG_ENGINE_PAIR) {
        FgPair *a = (FgPair *)r->a; const uint64_t *k = (const uint64_t *)r->keys;
        for (int64_t i = begin; i < end; i++) { uint32_t p = r->first ? (uint32_t)i : r->perm[i]; a[i] = (FgPair){k[p], p}; }
    } else {
        uint64_t *a = (uint64_t *)r->a; const uint32_t *k = (const uint32_t *)r->keys;
        for (int64_t i = begin; i < end; i++) { uint32_t p = r->first ? (uint32_t)i : r->perm[i]; a[i] = (uint64_t)k[p] << 32 | p; }
    }
}
/* Where quicksort is the faster: of keys alone, of packed ones while radix sort's counters weigh; without wide vectors, not of the latter beyond. */
static int fg_quicker(const FgSortRow *r, int64_t n) {
    const int64_t packed = FG_VEC == 64 ? FG_QUICK_SHORT : FG_QUICK_PACKED;
    return FG_SORT_QUICK && r->bits >= 16 && (!r->packed || n < packed);
}
/* The network for what fits it, else quicksort or by radix. Packed keys differ, and are in the order of positions, in the first of several
 * sorts only. */
static void fg_sort_range(const FgSortRow *r, int64_t begin, int64_t n) {
    const int alone = n > FG_SORT_ALONE && (!r->packed || r->first);
    uint64_t *a64 = (uint64_t *)r->a + begin, *t64 = (uint64_t *)r->t + begin;
    uint32_t *a32 = (uint32_t *)r->a + begin, *t32 = (uint32_t *)r->t + begin;
    if (r->engine == FG_ENGINE_PAIR) fg_radix_pair((FgPair *)r->a + begin, (FgPair *)r->t + begin, n, 0, 64);
    else if (r->engine == FG_ENGINE_U32) {
        if (alone && fg_fits_row(n, 4)) fg_sort_row_u32(a32, n);
        else if (alone && fg_quicker(r, n)) fg_quick_u32(a32, t32, n, 0, fg_quick_depth(n));
        else fg_radix_u32(a32, t32, n, 0, r->bits);
    } else {
        if (alone && fg_fits_row(n, 8)) fg_sort_row_u64(a64, n);
        else if (alone && fg_quicker(r, n)) fg_quick_u64(a64, t64, n, 0, fg_quick_depth(n));
        else fg_radix_u64(a64, t64, n, r->packed ? 32 : 0, r->packed ? 32 + r->bits : 64);
    }
}

/* The ranges of keys, bounded by keys of a sample, whose equals stay together. */
static void fg_sort_spans(FgSortRow *r, int parts) {
    uint64_t some[FG_ROW_VECTORS * FG_VEC / 8];
    const int64_t count = FG_ROW_VECTORS * FG_VEC / 8, step = r->n / count;
    uint32_t noise = 1;
    for (int64_t j = 0; j < count; j++) {
        noise = noise * 1664525u + 1013904223u;
        int64_t at = j * step + (int64_t)((uint64_t)noise * (uint64_t)step >> 32);
        if (r->engine == FG_ENGINE_PAIR) some[j] = ((const FgPair *)r->a)[at].key;
        else if (r->engine == FG_ENGINE_U32) some[j] = ((const uint32_t *)r->a)[at];
        else some[j] = ((const uint64_t *)r->a)[at] & (r->packed ? ~(uint64_t)0xffffffffu : ~(uint64_t)0);
    }
    fg_sort_row_u64(some, count);
    for (int k = 0; k < parts; k++) {
        r->spans[k] = (FgSpan){k == 0 ? 0 : some[count * k / parts], k + 1 == parts ? 0 : some[count * (k + 1) / parts], k + 1 == parts};
    }
}
#define FG_OF_ENGINE(r, CALL) \
    if ((r)->engine == FG_ENGINE_U32) CALL(u32, uint32_t); \
    else if ((r)->engine == FG_ENGINE_U64) CALL(u64, uint64_t); \
    else CALL(pair, FgPair)
static void fg_sort_count(void *ctx, int64_t begin, int64_t end, int tid) {
    FgSortRow *r = (FgSortRow *)ctx;
    (void)tid;
#define FG_COUNT_OF(NAME, E) r->ends[k] = fg_count_##NAME((const E *)r->a, r->n, r->spans[k])
    for (int64_t k = begin; k < end; k++) { FG_OF_ENGINE(r, FG_COUNT_OF); }
}
/* Collect ranges of a in t (after which a is workspace). */
static void fg_sort_gather(void *ctx, int64_t begin, int64_t end, int tid) {
    FgSortRow *r = (FgSortRow *)ctx;
    (void)tid;
    for (int64_t k = begin; k < end; k++) {
        int64_t at = k ? r->ends[k - 1] : 0, n = r->ends[k] - at;
#define FG_GATHER_OF(NAME, E) fg_gather_##NAME((const E *)r->a, r->n, r->spans[k], (E *)r->t + at, n)
        if (n > 0) { FG_OF_ENGINE(r, FG_GATHER_OF); }
    }
}
static void fg_sort_ranges(void *ctx, int64_t begin, int64_t end, int tid) {
    FgSortRow *r = (FgSortRow *)ctx;
    (void)tid;
    for (int64_t k = begin; k < end; k++) {
        int64_t at = k ? r->ends[k - 1] : 0;
        if (r->ends[k] > at) fg_sort_range(r, at, r->ends[k] - at);
    }
}
static void fg_sort_unpack(void *ctx, int64_t begin, int64_t end, int tid) {
    FgSortRow *r = (FgSortRow *)ctx;
    (void)tid;
    if (r->engine == FG_ENGINE_PAIR) for (int64_t i = begin; i < end; i++) r->perm[i] = (uint32_t)((const FgPair *)r->a)[i].index;
    else for (int64_t i = begin; i < end; i++) r->perm[i] = (uint32_t)((const uint64_t *)r->a)[i];
}
static void fg_sort_values(void *ctx, int64_t begin, int64_t end, int tid) {
    FgSortRow *r = (FgSortRow *)ctx;
    (void)tid;
    fg_unkeys(r->dtype, (const char *)r->a + begin * (r->engine == FG_ENGINE_U32 ? 4 : 8), r->dst[0] + begin * fg_itemsize(r->dtype),
              end - begin, r->reverse);
}
#define FG_APPLY(T) for (int64_t i = begin; i < end; i++) ((T *)d)[i] = ((const T *)s)[perm[i]]; break
static void fg_sort_apply(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgSortRow *r = (const FgSortRow *)ctx;
    const uint32_t *perm = r->perm;                        /* a store of a byte might change what r holds, for all the compiler knows */
    (void)tid;
    for (int k = r->told; k < r->n_ops; k++) {
        const char *s = r->src[k]; char *d = r->dst[k];
        switch (fg_itemsize(r->dtypes[k])) {
            case 1: FG_APPLY(fg_item1);
            case 2: FG_APPLY(fg_item2);
            case 4: FG_APPLY(fg_item4);
            case 8: FG_APPLY(fg_item8);
            default: FG_APPLY(fg_item16);
        }
    }
}

/* ---- one key of a byte: its values are counted, in parts that threads share out */
static int fg_sort_by_bytes(const FgSortRow *r) { return r->n_keys == 1 && fg_key_bits(r->dtypes[0]) == 8 && r->n >= FG_SORT_BYTES; }
#define FG_OF_PART(r, k) for (int64_t i = (r)->n * (k) / (r)->parts, last_ = (r)->n * ((k) + 1) / (r)->parts; i < last_; i++)
static void fg_bytes_count(void *ctx, int64_t begin, int64_t end, int tid) {
    FgSortRow *r = (FgSortRow *)ctx;
    const uint8_t *s = (const uint8_t *)r->src[0];
    (void)tid;
    for (int64_t k = begin; k < end; k++) {
        uint32_t four[4][256] = {{0}};                     /* a count does not wait for that of an equal neighbour */
        FG_OF_PART(r, k) four[i & 3][s[i]]++;
        for (int v = 0; v < 256; v++) r->places[256 * k + v] = (four[0][v] + four[1][v]) + (four[2][v] + four[3][v]);
    }
}
/* Counts become the places of the first of each value and part; the values alone, if they are all there is to sort. */
static void fg_bytes_start(FgSortRow *r) {
    const uint32_t flip = (fg_is_signed(r->dtypes[0]) ? 0x80u : 0) ^ (r->reverse ? 0xffu : 0);
    uint32_t at = 0;
    for (uint32_t v = 0; v < 256; v++) {
        const uint32_t first = at;
        for (int k = 0; k < r->parts; k++) {
            uint32_t *place = &r->places[256 * k + (v ^ flip)], count = *place;
            *place = at;
            at += count;
        }
        if (r->n_ops == 1) memset(r->dst[0] + first, (int)(v ^ flip), at - first);
    }
}
static void fg_bytes_place(void *ctx, int64_t begin, int64_t end, int tid) {
    FgSortRow *r = (FgSortRow *)ctx;
    const uint8_t *s = (const uint8_t *)r->src[0];
    (void)tid;
    for (int64_t k = begin; k < end; k++) {
        uint32_t *place = r->places + 256 * k, *perm = r->perm;
        FG_OF_PART(r, k) perm[place[s[i]]++] = (uint32_t)i;
    }
}

/* ---- top k of a row: candidates below the k-th best so far are dropped, sixteen at once where all are; the buffer is sorted
 * whenever it is full. Keys are reversed, so the best come first, and equal ones in the order of their positions. */
typedef struct { int64_t have, room, k; uint64_t limit; int32_t full; } FgTopState;
static void fg_best_u64(uint64_t *a, uint64_t *t, int64_t n, int lo, int hi) {
    if (n > 16 && fg_fits_row(n, 8)) fg_sort_row_u64(a, n);         /* positions break ties */
    else fg_radix_u64(a, t, n, lo, hi);
}
static void fg_best_pair(FgPair *a, FgPair *t, int64_t n, int lo, int hi) { fg_radix_pair(a, t, n, lo, hi); }
#define FG_TOP_BLOCKS(K) \
    for (int64_t i = 0, m; i < n; i += m) { \
        m = fg_min64(16, n - i); \
        if (s->full && m == 16) { \
            K limit = (K)s->limit, better = 0; \
            for (int j = 0; j < 16; j++) better |= keys[i + j] < limit; \
            if (!better) continue; \
        } \
        for (int64_t j = i; j < i + m; j++) if (!s->full || keys[j] < s->limit)
#define FG_TOP(NAME, E, K, KEY, MAKE) \
static void fg_top_##NAME(FgTopState *s, E *buf, E *tmp, const K *keys, int64_t n, int64_t base, int lo, int hi) { \
    FG_TOP_BLOCKS(K) { \
            buf[s->have++] = MAKE(keys[j], base + j); \
            if (s->have == s->room) { \
                fg_best_##NAME(buf, tmp, s->have, lo, hi); \
                s->have = s->k; s->full = 1; s->limit = KEY(buf[s->k - 1]); \
            } \
        } \
    } \
}
#define FG_MAKE_U64(k, i) ((uint64_t)(k) << 32 | (uint32_t)(i))
#define FG_MAKE_PAIR(k, i) ((FgPair){k, (uint64_t)(i)})
#define FG_U64_KEY(e) ((uint32_t)((e) >> 32))
FG_TOP(u64, uint64_t, uint32_t, FG_U64_KEY, FG_MAKE_U64)
FG_TOP(pair, FgPair, uint64_t, FG_PAIR_KEY, FG_MAKE_PAIR)

/* A few of many: the buffer is always sorted, and a better key is inserted. */
#define FG_TOP_FEW 16
#define FG_TOP_INSERT(NAME, E, K, KEY, MAKE) \
static void fg_top_few_##NAME(FgTopState *s, E *buf, const K *keys, int64_t n, int64_t base) { \
    FG_TOP_BLOCKS(K) { \
            int64_t p = s->full ? s->k - 1 : s->have++; \
            for (; p > 0 && KEY(buf[p - 1]) > keys[j]; p--) buf[p] = buf[p - 1]; \
            buf[p] = MAKE(keys[j], base + j); \
            s->full = s->have == s->k; \
            s->limit = KEY(buf[s->have - 1]); \
        } \
    } \
}
FG_TOP_INSERT(u64, uint64_t, uint32_t, FG_U64_KEY, FG_MAKE_U64)
FG_TOP_INSERT(pair, FgPair, uint64_t, FG_PAIR_KEY, FG_MAKE_PAIR)

typedef struct {
    const char *src; char *values; int32_t *indices;
    int64_t n, k; int32_t dtype, failed;
    int64_t segments, seglen;                     /* rows are cut into segments, whose candidates go to `found` */
    char *found; int64_t *counts;
} FgTopK;

static int64_t fg_top_room(int64_t k) { return fg_max64(2 * k, 512); }
static int64_t fg_top_scratch(const FgTopK *t) { return 16 * fg_top_room(t->k) + 8 * 1024; }   /* workspace and keys */

/* The best of items [begin, begin + n) of a row, sorted, to buf; at most k of them. */
static int64_t fg_top_scan(const FgTopK *t, int64_t row, int64_t begin, int64_t n, char *buf, char *scratch) {
    int wide = fg_key_wide(t->dtype), bits = fg_key_bits(t->dtype), few = t->k <= 2 || (t->k <= FG_TOP_FEW && t->n >= 8 * t->k);
    int64_t item = fg_itemsize(t->dtype);
    FgTopState state = {0, fg_top_room(t->k), t->k, 0, 0};
    char *tmp = scratch, *keys = scratch + 16 * state.room;
    const char *src = t->src + (row * t->n + begin) * item;
    for (int64_t i = 0; i < n; i += 1024) {
        int64_t m = fg_min64(1024, n - i);
        fg_keys(t->dtype, src + i * item, keys, m, 1, 0);
        if (few && wide) fg_top_few_pair(&state, (FgPair *)buf, (const uint64_t *)keys, m, begin + i);
        else if (few) fg_top_few_u64(&state, (uint64_t *)buf, (const uint32_t *)keys, m, begin + i);
        else if (wide) fg_top_pair(&state, (FgPair *)buf, (FgPair *)tmp, (const uint64_t *)keys, m, begin + i, 0, 64);
        else fg_top_u64(&state, (uint64_t *)buf, (uint64_t *)tmp, (const uint32_t *)keys, m, begin + i, 32, 32 + bits);
    }
    if (few) return state.have;
    if (wide) fg_best_pair((FgPair *)buf, (FgPair *)tmp, state.have, 0, 64);
    else fg_best_u64((uint64_t *)buf, (uint64_t *)tmp, state.have, 32, 32 + bits);
    return fg_min64(state.have, t->k);
}

/* Join the candidates of a row's segments, which stand sorted in the order of their positions. */
static void fg_top_join(const FgTopK *t, int64_t row, char *buf, char *tmp) {
    int wide = fg_key_wide(t->dtype), bits = fg_key_bits(t->dtype);
    int64_t e = wide ? 16 : 8, have = 0;
    for (int64_t s = row * t->segments; s < (row + 1) * t->segments; s++) {
        memcpy(buf + have * e, t->found + s * t->k * e, t->counts[s] * e);
        have += t->counts[s];
    }
    if (wide) fg_best_pair((FgPair *)buf, (FgPair *)tmp, have, 0, 64);
    else fg_best_u64((uint64_t *)buf, (uint64_t *)tmp, have, 32, 32 + bits);
}

static void fg_top_write(const FgTopK *t, int64_t row, const char *buf) {
    int wide = fg_key_wide(t->dtype);
    int64_t item = fg_itemsize(t->dtype);
    for (int64_t i = 0; i < t->k; i++) {
        uint32_t at = wide ? (uint32_t)((const FgPair *)buf)[i].index : (uint32_t)((const uint64_t *)buf)[i];
        t->indices[row * t->k + i] = (int32_t)at;
        memcpy(t->values + (row * t->k + i) * item, t->src + (row * t->n + at) * item, item);
    }
}
#endif
