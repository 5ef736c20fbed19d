/* Casts between every pair of compute types.  Float to integer saturates and NaN gives 0, as in XLA; complex to real takes
 * the real part; anything to bool is "!= 0". */
#ifndef FG_VM_CAST_H
#define FG_VM_CAST_H
#include "vm_complex.h"

#define FG_CAST_SIG(from, to) static void vm_cast_##from##_##to(int64_t n, void *d_, const void *a_, const void *b_, const void *c_)
#define VM_CAST(from, A, to, D, expr) FG_CAST_SIG(from, to) { \
    D *d = (D *)d_; const A *a = (const A *)a_; (void)b_; (void)c_; \
    FG_SIMD for (int64_t i = 0; i < n; i++) { A x = a[i]; d[i] = (D)(expr); } }
/* (A)MAX may round up to MAX + 1, which is why the test is >= */
#define FG_SATURATE(A, D, lo, hi, v) \
    ((v) >= (A)(hi) ? (D)(hi) : (v) <= (A)(lo) ? (D)(lo) : (D)(((v) > (A)(lo) && (v) < (A)(hi)) ? (v) : 0))
/* to signed integers of 32 and 64 bits: what is too low, the machine's conversion makes the least integer itself */
#define FG_SATURATE_SIGNED(A, D, lo, hi, v) ({ const A v_ = (v); v_ != v_ ? 0 : v_ >= (A)(hi) ? (D)(hi) : (D)v_; })
/* to 8 and 16 bits: bounds first, which the numbers that hold them all represent; the lower one is what NaN becomes there */
#define FG_SATURATE_NARROW(A, D, lo, hi, v) ({ \
    const A v_ = (v), w_ = v_ > (A)(lo) ? v_ : (A)(lo), u_ = w_ < (A)(hi) ? w_ : (A)(hi); (D)(int32_t)((lo) != 0 && v_ != v_ ? 0 : u_); })
#define VM_CASTC(from, A, to, C, R, RE, IM) FG_CAST_SIG(from, to) { \
    C *d = (C *)d_; const A *a = (const A *)a_; (void)b_; (void)c_; \
    for (int64_t i = 0; i < n; i++) { A x = a[i]; C r; r.re = (R)(RE); r.im = (R)(IM); d[i] = r; } }

#define VM_CASTS_COMMON(f, A, RE, IM, NONZERO) VM_CAST(f, A, bool, uint8_t, NONZERO) \
    VM_CASTC(f, A, c64, fg_c64, float, RE, IM) VM_CASTC(f, A, c128, fg_c128, double, RE, IM)
#define VM_CASTS_REAL(f, A, RE) VM_CAST(f, A, f32, float, RE) VM_CAST(f, A, f64, double, RE)
/* Integers of 64 bits in vectors, where the machine converts them one by one: their halves are numbers on scales of their own, whose sum is rounded once.
 * Towards float32, bits that float64 does not hold are one that stands for all of them. */
#if defined(__AVX2__) && !defined(__AVX512DQ__)
#define FG_HALVES(x, SIGN, LESS) (fg_double(((uint64_t)(x) >> 32 ^ (SIGN)) | 0x4530000000000000u) - (LESS) + fg_double(((uint64_t)(x) & 0xffffffffu) | 0x4330000000000000u))
#define FG_STICKY(x, FAR) ((FAR) ? ((uint64_t)(x) & ~(uint64_t)2047) | ((((uint64_t)(x) & 2047) + 2047) & 2048) : (uint64_t)(x))
#define FG_REAL_u64(x) FG_HALVES(x, 0, 0x1p84 + 0x1p52)
#define FG_REAL_i64(x) FG_HALVES(x, 0x80000000u, 0x1p84 + 0x1p63 + 0x1p52)
#define FG_FAR_u64(x) ((x) >> 53 != 0)
#define FG_FAR_i64(x) (((uint64_t)(x) + ((uint64_t)1 << 53)) >> 54 != 0)
#define VM_CASTS_WIDE(f, A) VM_CAST(f, A, f64, double, FG_REAL_##f(x)) VM_CAST(f, A, f32, float, ({ const uint64_t w_ = FG_STICKY(x, FG_FAR_##f(x)); FG_REAL_##f(w_); }))
#else
#define VM_CASTS_WIDE(f, A) VM_CASTS_REAL(f, A, x)
#endif
#define VM_CASTS_INT(f, A) VM_CASTS_COMMON(f, A, x, 0, x != 0) \
    VM_CAST(f, A, u8, uint8_t, x) VM_CAST(f, A, u16, uint16_t, x) VM_CAST(f, A, u32, uint32_t, x) VM_CAST(f, A, u64, uint64_t, x)
#define VM_CAST_SAT(f, A, to, D, R, lo, hi, RE) VM_CAST(f, A, to, D, FG_SATURATE(R, D, lo, hi, RE))
#define VM_CAST_SIGNED(f, A, to, D, R, lo, hi, RE) VM_CAST(f, A, to, D, FG_SATURATE_SIGNED(R, D, lo, hi, RE))
#define VM_CAST_NARROW(f, A, to, D, R, lo, hi, RE) VM_CAST(f, A, to, D, FG_SATURATE_NARROW(R, D, lo, hi, RE))
#define VM_CASTS_FLOAT(f, A, R, RE, IM, NONZERO) VM_CASTS_COMMON(f, A, RE, IM, NONZERO) VM_CASTS_REAL(f, A, RE) \
    VM_CAST_NARROW(f, A, i8, int8_t, R, INT8_MIN, INT8_MAX, RE) \
    VM_CAST_NARROW(f, A, i16, int16_t, R, INT16_MIN, INT16_MAX, RE) VM_CAST_NARROW(f, A, u16, uint16_t, R, 0, UINT16_MAX, RE) \
    VM_CAST_SIGNED(f, A, i32, int32_t, R, INT32_MIN, INT32_MAX, RE) VM_CAST_SAT(f, A, u32, uint32_t, R, 0, UINT32_MAX, RE) \
    VM_CAST_SIGNED(f, A, i64, int64_t, R, INT64_MIN, INT64_MAX, RE) VM_CAST_SAT(f, A, u64, uint64_t, R, 0, UINT64_MAX, RE)

VM_CASTS_INT(i8, int8_t) VM_CASTS_INT(i16, int16_t) VM_CASTS_INT(i32, int32_t) VM_CASTS_INT(i64, int64_t)
VM_CASTS_INT(u8, uint8_t) VM_CASTS_INT(u16, uint16_t) VM_CASTS_INT(u32, uint32_t) VM_CASTS_INT(u64, uint64_t)
VM_CASTS_REAL(i8, int8_t, x) VM_CASTS_REAL(i16, int16_t, x) VM_CASTS_REAL(i32, int32_t, x) VM_CASTS_WIDE(i64, int64_t)
VM_CASTS_REAL(u8, uint8_t, x) VM_CASTS_REAL(u16, uint16_t, x) VM_CASTS_REAL(u32, uint32_t, x) VM_CASTS_WIDE(u64, uint64_t)
VM_CASTS_FLOAT(f32, float, float, x, 0, x != 0) VM_CASTS_FLOAT(f64, double, double, x, 0, x != 0)
VM_CASTS_FLOAT(c64, fg_c64, float, x.re, x.im, (x.re != 0) | (x.im != 0))
VM_CASTS_FLOAT(c128, fg_c128, double, x.re, x.im, (x.re != 0) | (x.im != 0))
#define VM_CAST_BYTE(f, A, R, RE) VM_CAST_NARROW(f, A, u8, uint8_t, R, 0, UINT8_MAX, RE)
VM_CAST_BYTE(f64, double, double, x) VM_CAST_BYTE(c64, fg_c64, float, x.re) VM_CAST_BYTE(c128, fg_c128, double, x.re)
#if defined(__AVX2__) && !defined(__AVX512F__)
/* Four vectors to one of bytes, by the machine's saturation: a compiler's own narrowing masks, packs and moves each step. */
FG_INLINE __m256i fg_to_bytes(const float *a) {
    const __m256 least = _mm256_setzero_ps(), most = _mm256_set1_ps(255.0f);
    return _mm256_cvttps_epi32(_mm256_min_ps(_mm256_max_ps(_mm256_loadu_ps(a), least), most));                  /* max is its second operand of NaN */
}
FG_CAST_SIG(f32, u8) {
    uint8_t *d = (uint8_t *)d_; const float *a = (const float *)a_; int64_t i = 0; (void)b_; (void)c_;
    for (; i + 32 <= n; i += 32) {
        const __m256i low = _mm256_packus_epi32(fg_to_bytes(a + i), fg_to_bytes(a + i + 8));
        const __m256i bytes = _mm256_packus_epi16(low, _mm256_packus_epi32(fg_to_bytes(a + i + 16), fg_to_bytes(a + i + 24)));
        _mm256_storeu_si256((__m256i *)(d + i), _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
    }
    for (; i < n; i++) { const float x = a[i]; d[i] = FG_SATURATE_NARROW(float, uint8_t, 0, UINT8_MAX, x); }
}
#else
VM_CAST_BYTE(f32, float, float, x)
#endif

/* Rows: source type.  Wrapping integer casts only depend on the width of the target. */
#define VM_CAST_ROW_COMMON(f) [FG_BOOL] = vm_cast_##f##_bool, [FG_U8] = vm_cast_##f##_u8, [FG_U16] = vm_cast_##f##_u16, \
    [FG_U32] = vm_cast_##f##_u32, [FG_U64] = vm_cast_##f##_u64, [FG_F32] = vm_cast_##f##_f32, [FG_F64] = vm_cast_##f##_f64, \
    [FG_C64] = vm_cast_##f##_c64, [FG_C128] = vm_cast_##f##_c128
#define VM_CAST_ROW_INT(f) {VM_CAST_ROW_COMMON(f), [FG_I8] = vm_cast_##f##_u8, [FG_I16] = vm_cast_##f##_u16, \
    [FG_I32] = vm_cast_##f##_u32, [FG_I64] = vm_cast_##f##_u64}
#define VM_CAST_ROW_FLOAT(f) {VM_CAST_ROW_COMMON(f), [FG_I8] = vm_cast_##f##_i8, [FG_I16] = vm_cast_##f##_i16, \
    [FG_I32] = vm_cast_##f##_i32, [FG_I64] = vm_cast_##f##_i64}
static const FgVmFn fg_vm_cast[FG_NDTYPES][FG_NDTYPES] = {
    [FG_BOOL] = VM_CAST_ROW_INT(u8), [FG_I8] = VM_CAST_ROW_INT(i8), [FG_I16] = VM_CAST_ROW_INT(i16), [FG_I32] = VM_CAST_ROW_INT(i32),
    [FG_I64] = VM_CAST_ROW_INT(i64), [FG_U8] = VM_CAST_ROW_INT(u8), [FG_U16] = VM_CAST_ROW_INT(u16), [FG_U32] = VM_CAST_ROW_INT(u32),
    [FG_U64] = VM_CAST_ROW_INT(u64), [FG_F32] = VM_CAST_ROW_FLOAT(f32), [FG_F64] = VM_CAST_ROW_FLOAT(f64),
    [FG_C64] = VM_CAST_ROW_FLOAT(c64), [FG_C128] = VM_CAST_ROW_FLOAT(c128)};
#endif
