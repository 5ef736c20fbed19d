/* Memory for machine code that is made while a program runs: written first, then executable and never both. */
#ifndef FG_MACHINE_CODE_H
#define FG_MACHINE_CODE_H
#include <stdint.h>
#include <string.h>

/* 2 in the variant of the widest vectors, by what x86-64-v4 has; 1 by what x86-64-v3 has. */
#if !defined(__x86_64__) || defined(_WIN32) || !defined(__BMI2__)
#define FG_MACHINE_CODE 0
#elif defined(__AVX512F__)
#if defined(__AVX512VL__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
#define FG_MACHINE_CODE 2
#else
#define FG_MACHINE_CODE 0
#endif
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define FG_MACHINE_CODE 1
#else
#define FG_MACHINE_CODE 0
#endif

#if FG_MACHINE_CODE
#include <sys/mman.h>
enum { FG_CODE_PAGE = 4096 };

/* A copy of the code that may be run; NULL if the system lets none be. *bytes: of its pages, for munmap. */
static void *fg_code_keep(const void *code, size_t n, size_t *bytes) {
    *bytes = (n + FG_CODE_PAGE - 1) / FG_CODE_PAGE * FG_CODE_PAGE;
    void *p = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    memcpy(p, code, n);
    if (mprotect(p, *bytes, PROT_READ | PROT_EXEC) == 0) return p;
    munmap(p, *bytes);
    return NULL;
}
/* 1 if the system lets code be written and run. */
static int fg_code_may(void) {
    static int may = -1;
    if (may < 0) {
        size_t bytes;
        void *p = fg_code_keep("", 1, &bytes);
        may = p != NULL;
        if (p) munmap(p, bytes);
    }
    return may;
}
#else
static int fg_code_may(void) { return 0; }
#endif
#endif
