/* Programs compute as XLA's do: denormal numbers count as zeros of their sign, and results that would be denormal are zeros. Many processors
 * take a hundred cycles and more for an operation with one, which sums that fade (recurrences, tails of exponentials) are full of. */
#ifndef FG_FLUSH_H
#define FG_FLUSH_H
#include <stdint.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
/* The thread's mode; it set, of which what it was is returned; it as it was. */
static inline uint64_t fg_flush_now(void) { return _mm_getcsr(); }
static inline uint64_t fg_flush_mode(int on) {
    const unsigned before = _mm_getcsr(), bits = 0x8040;       /* flush to zero, denormals are zeros */
    _mm_setcsr(on ? before | bits : before & ~bits);
    return before;
}
static inline void fg_flush_end(uint64_t before) { _mm_setcsr((unsigned)before); }
#elif defined(__aarch64__)
static inline uint64_t fg_flush_now(void) {
    uint64_t now;
    __asm__ volatile("mrs %0, fpcr" : "=r"(now));
    return now;
}
static inline uint64_t fg_flush_mode(int on) {
    const uint64_t before = fg_flush_now(), bit = 1ull << 24;
    __asm__ volatile("msr fpcr, %0" :: "r"(on ? before | bit : before & ~bit));
    return before;
}
static inline void fg_flush_end(uint64_t before) { __asm__ volatile("msr fpcr, %0" :: "r"(before)); }
#else
static inline uint64_t fg_flush_now(void) { return 0; }
static inline uint64_t fg_flush_mode(int on) { return 0; }
static inline void fg_flush_end(uint64_t before) {}
#endif
#endif
