/* What is known of the core that runs. */
#ifndef FG_CORE_H
#define FG_CORE_H
#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif

/* Whether the core fetches a few streams so far ahead that instructions for it only take the places of loads: Zen 3 and 4 (family 25). */
static int fg_core_fetches(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    unsigned a, b, c, d, family;
    if (!__get_cpuid(0, &a, &b, &c, &d) || b != 0x68747541 || d != 0x69746e65 || c != 0x444d4163) return 0;      /* AuthenticAMD */
    if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
    family = a >> 8 & 15;
    return (family == 15 ? family + (a >> 20 & 255) : family) == 25;
#else
    return 0;
#endif
}
#endif
