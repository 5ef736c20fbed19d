/* Orders of lanes that transforms need.  FFT_*_T: for vectors of FG_VEC bytes of the type T; U: of complex numbers. */
#ifndef FG_FFT_VEC_H
#define FG_FFT_VEC_H
#define FFT_EVEN16 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define FFT_ODD16 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define FFT_LO16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define FFT_HI16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define FFT_BACK16 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0
#define FFT_EVEN8 0, 2, 4, 6, 8, 10, 12, 14
#define FFT_ODD8 1, 3, 5, 7, 9, 11, 13, 15
#define FFT_LO8 0, 8, 1, 9, 2, 10, 3, 11
#define FFT_HI8 4, 12, 5, 13, 6, 14, 7, 15
#define FFT_BACK8 7, 6, 5, 4, 3, 2, 1, 0
#define FFT_EVEN4 0, 2, 4, 6
#define FFT_ODD4 1, 3, 5, 7
#define FFT_LO4 0, 4, 1, 5
#define FFT_HI4 2, 6, 3, 7
#define FFT_BACK4 3, 2, 1, 0
#define FFT_EVEN2 0, 2
#define FFT_ODD2 1, 3
#define FFT_LO2 0, 2
#define FFT_HI2 1, 3
#define FFT_BACK2 1, 0
#define FFT_PAIR_LO8 0, 1, 8, 9, 2, 3, 10, 11
#define FFT_PAIR_HI8 4, 5, 12, 13, 6, 7, 14, 15
#define FFT_PAIR_LO4 0, 1, 4, 5
#define FFT_PAIR_HI4 2, 3, 6, 7
#define FFT_PAIR_LO2 0, 1
#define FFT_PAIR_HI2 2, 3
#define FFT_CAT(a, b) a##b
#define FFT_ORDER(name, n) FFT_CAT(name, n)
#if FG_VEC == 64
#define FFT_LANES_f32 16
#define FFT_LANES_f64 8
#elif FG_VEC == 32
#define FFT_LANES_f32 8
#define FFT_LANES_f64 4
#else
#define FFT_LANES_f32 4
#define FFT_LANES_f64 2
#endif
#define FFT_UNIT_LO_f32 FFT_ORDER(FFT_LO, FFT_LANES_f64)         /* complex64 moves as a double */
#define FFT_UNIT_HI_f32 FFT_ORDER(FFT_HI, FFT_LANES_f64)
#define FFT_UNIT_LO_f64 FFT_ORDER(FFT_PAIR_LO, FFT_LANES_f64)
#define FFT_UNIT_HI_f64 FFT_ORDER(FFT_PAIR_HI, FFT_LANES_f64)
#endif
