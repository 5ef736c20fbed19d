/* Behind functions that pass vectors on, the compiler does not clear their upper halves: all code without AVX would be slow until somebody does. Once
 * a run: to use them again takes time, too. */
#ifndef FG_UPPER_H
#define FG_UPPER_H
static inline void fg_clear_upper(void) {
#ifdef __AVX__
    __builtin_ia32_vzeroupper();
#endif
}
#endif
