/* Orders of lanes of vectors of FG_VEC bytes: VEC_LANES_OF_T elements of T. */
#ifndef FG_VEC_ORDER_H
#define FG_VEC_ORDER_H
#define VEC_EVEN16 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define VEC_ODD16 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define VEC_LO16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define VEC_HI16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define VEC_BACK16 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0
#define VEC_EVEN8 0, 2, 4, 6, 8, 10, 12, 14
#define VEC_ODD8 1, 3, 5, 7, 9, 11, 13, 15
#define VEC_LO8 0, 8, 1, 9, 2, 10, 3, 11
#define VEC_HI8 4, 12, 5, 13, 6, 14, 7, 15
#define VEC_BACK8 7, 6, 5, 4, 3, 2, 1, 0
#define VEC_EVEN4 0, 2, 4, 6
#define VEC_ODD4 1, 3, 5, 7
#define VEC_LO4 0, 4, 1, 5
#define VEC_HI4 2, 6, 3, 7
#define VEC_BACK4 3, 2, 1, 0
#define VEC_EVEN2 0, 2
#define VEC_ODD2 1, 3
#define VEC_LO2 0, 2
#define VEC_HI2 1, 3
#define VEC_BACK2 1, 0
#define VEC_CAT(a, b) a##b
#define VEC_ORDER(name, n) VEC_CAT(name, n)
/* TURN: pairs of lanes of two vectors, transposed. NEAR: within each block of 128 bits, which one instruction does without a table; BLOCK: such blocks, of two doubles. */
#if FG_VEC == 64
#define VEC_LANES_OF_f32 16
#define VEC_TURN_EVEN_f32 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define VEC_TURN_ODD_f32 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#define VEC_LANES_OF_f64 8
#define VEC_NEAR_LO_f32 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define VEC_NEAR_HI_f32 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define VEC_NEAR_EVEN_f32 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30
#define VEC_NEAR_ODD_f32 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31
#define VEC_NEAR_LO_f64 0, 8, 2, 10, 4, 12, 6, 14
#define VEC_NEAR_HI_f64 1, 9, 3, 11, 5, 13, 7, 15
#define VEC_NEAR_EVEN_f64 0, 8, 2, 10, 4, 12, 6, 14
#define VEC_NEAR_ODD_f64 1, 9, 3, 11, 5, 13, 7, 15
#define VEC_BLOCK_EVEN 0, 1, 4, 5, 8, 9, 12, 13
#define VEC_BLOCK_ODD 2, 3, 6, 7, 10, 11, 14, 15
#elif FG_VEC == 32
#define VEC_LANES_OF_f32 8
#define VEC_TURN_EVEN_f32 0, 8, 2, 10, 4, 12, 6, 14
#define VEC_TURN_ODD_f32 1, 9, 3, 11, 5, 13, 7, 15
#define VEC_LANES_OF_f64 4
#define VEC_NEAR_LO_f32 0, 8, 1, 9, 4, 12, 5, 13
#define VEC_NEAR_HI_f32 2, 10, 3, 11, 6, 14, 7, 15
#define VEC_NEAR_EVEN_f32 0, 2, 8, 10, 4, 6, 12, 14
#define VEC_NEAR_ODD_f32 1, 3, 9, 11, 5, 7, 13, 15
#define VEC_NEAR_LO_f64 0, 4, 2, 6
#define VEC_NEAR_HI_f64 1, 5, 3, 7
#define VEC_NEAR_EVEN_f64 0, 4, 2, 6
#define VEC_NEAR_ODD_f64 1, 5, 3, 7
#define VEC_BLOCK_EVEN 0, 1, 4, 5
#define VEC_BLOCK_ODD 2, 3, 6, 7
#else
#define VEC_LANES_OF_f32 4
#define VEC_TURN_EVEN_f32 0, 4, 2, 6
#define VEC_TURN_ODD_f32 1, 5, 3, 7
#define VEC_LANES_OF_f64 2
#define VEC_NEAR_LO_f32 0, 4, 1, 5
#define VEC_NEAR_HI_f32 2, 6, 3, 7
#define VEC_NEAR_EVEN_f32 0, 2, 4, 6
#define VEC_NEAR_ODD_f32 1, 3, 5, 7
#define VEC_NEAR_LO_f64 0, 2
#define VEC_NEAR_HI_f64 1, 3
#define VEC_NEAR_EVEN_f64 0, 2
#define VEC_NEAR_ODD_f64 1, 3
#endif
#endif
