/* float64 elementary functions; included by scalar_math.h, which says how they are built. */

/* 2^n for a whole number n in [-1022, 1023] */
FG_INLINE double fg_pow2i_f64(double n) { return fg_double(fg_bits64(n + (FG_MAGIC64 + 1023)) << 52); }

/* p * 2^n in two steps, so that a denormal result is rounded once; twice the exponents' bias is added to n before it is halved */
FG_INLINE double fg_scale_f64(double p, double n) {
    uint64_t u = fg_bits64(n + (FG_MAGIC64 + 2046)), half = u >> 1;
    return p * fg_double(half << 52) * fg_double((u - half) << 52);
}

/* a * b = p + err exactly, for products that neither overflow nor underflow */
FG_INLINE double fg_mul_err(double a, double b, double p) {
#if defined(__FMA__) || defined(__aarch64__)
    return __builtin_fma(a, b, -p);
#else
    double t = 134217729.0 * a, ah = t - (t - a), al = a - ah, u = 134217729.0 * b, bh = u - (u - b), bl = b - bh;
    return ((ah * bh - p) + ah * bl + al * bh) + al * bl;
#endif
}

/* (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2 */
FG_INLINE double fg_expq_f64(double r) {
    return FG_POLY(r, 0.5, 0.16666666666666677, 0.041666666666666699, 0.0083333333333216152, 0.001388888888886683,
        0.00019841269886158622, 2.4801587360570644e-05, 2.7557244181877631e-06, 2.7557242747080409e-07,
        2.5109044893179733e-08, 2.0924447259855354e-09);
}
#define FG_LN2_HI 6.93147180369123816490e-01     /* 32 bits: n * FG_LN2_HI is exact */
#define FG_LN2_LO 1.90821492927058770002e-10
#define FG_LOG2E 1.44269504088896340736

/* 2^k e^(x + xl) for |xl| tiny */
FG_INLINE double fg_expk_f64(double x, double xl, double k) {
    x = x > 720 ? 720 : x;
    x = x < -760 ? -760 : x;
    double n = (x * FG_LOG2E + FG_MAGIC64) - FG_MAGIC64;
    double r = (x - n * FG_LN2_HI) - (n * FG_LN2_LO - xl);
    double s = 1 + r, e = (1 - s) + r;                    /* 1 + r in two parts: one rounding less */
    return fg_scale_f64(s + (e + r * r * fg_expq_f64(r)), n + k);
}
FG_INLINE double fg_exp_f64(double x) { return fg_expk_f64(x, 0, 0); }

FG_INLINE double fg_exp2_f64(double x) {
    double y = x > 1100 ? 1100 : x;
    y = y < -1100 ? -1100 : y;
    double n = (y + FG_MAGIC64) - FG_MAGIC64, r = y - n;
    double p = FG_POLY(r, 0.24022650695910072, 0.055504108664821611, 0.0096181291076284856, 0.001333355814640968,
        0.00015403530393357127, 1.525273383858826e-05, 1.321548682159236e-06, 1.0178058281913403e-07, 7.0548920342157169e-09,
        4.4556437725750675e-10, 2.5737106828471302e-11);
    return fg_scale_f64(1 + (r * 0.69314718055994530942 + r * r * p), n);
}

FG_INLINE double fg_expm1_f64(double x) {
    double y = x > 710 ? 710 : x;
    y = y < -40 ? -40 : y;
    double n = (y * FG_LOG2E + FG_MAGIC64) - FG_MAGIC64;
    double hi = y - n * FG_LN2_HI, lo = n * FG_LN2_LO, r = hi - lo, c = (hi - r) - lo;
    double p = r + (r * r * fg_expq_f64(r) + c), t = fg_pow2i_f64(n - 1);
    return fabs(x) < 1e-16 ? x : 2 * (t * p + (t - 0.5));
}

/* x = m 2^k with m in [sqrt(1/2), sqrt(2)), x a positive normal number */
FG_INLINE double fg_split_f64(double x, double *k) {
    uint64_t t = fg_bits64(x) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    *k = fg_double((t >> 52) | 0x4330000000000000u) - (4503599627370496.0 + 1023.0);
    return fg_double((t & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu);
}
/* log(1 + f) = f - *c for f in [sqrt(1/2) - 1, sqrt(2) - 1], by log((1+s)/(1-s)) with s = f / (2 + f) */
FG_INLINE double fg_logc_f64(double f) {
    double s = f / (2 + f), z = s * s, h = 0.5 * f * f;
    double R = z * FG_POLY(z, 0.6666666666666734, 0.39999999999413965, 0.28571428742561306, 0.22222198553875094,
        0.18183565402410531, 0.15314021247266493, 0.14796259832450306);
    return h - s * (h + R);
}
#define FG_LOG_EDGES(x, y) ((x) > 0 ? ((x) < INFINITY ? (y) : (x)) : (x) == 0 ? -INFINITY : NAN)

FG_INLINE double fg_log_f64(double x) {
    double k, f = fg_split_f64(x < DBL_MIN ? x * 18014398509481984.0 : x, &k) - 1;
    k -= x < DBL_MIN ? 54 : 0;
    double y = k * FG_LN2_HI + (f - (fg_logc_f64(f) - k * FG_LN2_LO));
    return FG_LOG_EDGES(x, y);
}
FG_INLINE double fg_log2_f64(double x) {
    double k, f = fg_split_f64(x < DBL_MIN ? x * 18014398509481984.0 : x, &k) - 1;
    k -= x < DBL_MIN ? 54 : 0;
    double c = fg_logc_f64(f), hi = f - c, lo = (f - hi) - c, p = hi * FG_LOG2E, e = fg_mul_err(hi, FG_LOG2E, p);
    double y = k + p, t = (k - y) + p;                   /* |k| >= 1 > p, or k = 0 and t = 0 */
    y += t + (e + (hi * 2.0355273740931033e-17 + lo * FG_LOG2E));
    return FG_LOG_EDGES(x, y);
}
FG_INLINE double fg_log10_f64(double x) { double y = fg_log_f64(x); return y * 0.43429448190325182 + y * 1.0983196502167651e-17; }
/* log(1 + x + xl) for |xl| tiny */
FG_INLINE double fg_log1pl_f64(double x, double xl) {
    double u = 1 + x, c = x >= 1 ? 1 - (u - x) : x - (u - 1), k, m = fg_split_f64(u, &k);
    c = k < 60 ? (c + xl) * fg_pow2i_f64(k < 60 ? -k : 0) : 0;
    double f0 = m - 1, f = f0 + c, lo = (f0 - f) + c;    /* exact where it matters: c is far below f0 unless f0 = 0 */
    double y = k * FG_LN2_HI + (f - (fg_logc_f64(f) - (k * FG_LN2_LO + lo)));
    y = FG_LOG_EDGES(u, y);
    return fabs(x) < 1e-16 ? x : y;
}
FG_INLINE double fg_log1p_f64(double x) { return fg_log1pl_f64(x, 0); }

/* x - n pi/2 for |x| <= 1e6, as r + *lo; the quadrant stands in the low bits of *q */
FG_INLINE double fg_pio2_f64(double x, double *lo, uint64_t *q) {
    double z = x * 0.63661977236758134308 + FG_MAGIC64, n = z - FG_MAGIC64;
    double t = x - n * 1.57079632673412561417e+00, w = n * 6.07710050630396597660e-11, r = t - w;   /* 33-bit parts: exact products */
    double e = ((t - r) - w) - n * 2.02226624879595063154e-21, s = r + e;
    *q = fg_bits64(z);
    *lo = (r - s) + e;
    return s;
}
/* sin and cos of r + lo, as the returned value + *err */
FG_INLINE double fg_sinr_f64(double r, double lo, double *err) {
    double z = r * r, v = z * r;
    double p = FG_POLY(z, 0.0083333333333224131, -0.00019841269829807813, 2.7557313691920405e-06, -2.5050758115764694e-08,
        1.5896795689741376e-10);
    double d = (z * (0.5 * lo - v * p) - lo) + v * 0.16666666666666632, s = r - d;
    *err = (r - s) - d;
    return s;
}
FG_INLINE double fg_cosr_f64(double r, double lo, double *err) {
    double z = r * r, h = 0.5 * z, w = 1 - h;
    double p = FG_POLY(z, 0.041666666666666602, -0.0013888888888874125, 2.4801587289482293e-05, -2.7557314352360537e-07,
        2.0875723276674192e-09, -1.1359647968406598e-11);
    double d = ((1 - w) - h) + (z * z * p - r * lo), c = w + d;
    *err = (w - c) + d;
    return c;
}
#define FG_TRIG_MAX_F64 1e6
FG_INLINE double fg_sincos_of_f64(double r, double lo, uint64_t q) {
    double el, s = fg_sinr_f64(r, lo, &el), c = fg_cosr_f64(r, lo, &el);
    return fg_double(fg_bits64((q & 1) ? c : s) ^ ((q & 2) << 62));
}
FG_INLINE double fg_sincos_f64(double x, uint64_t shift) {
    uint64_t q;
    double lo, r = fg_pio2_f64(x, &lo, &q);
    return fg_sincos_of_f64(r, lo, q + shift);
}
FG_INLINE double fg_sin_f64(double x) { double y = fg_sincos_f64(x, 0); return fabs(x) < 1e-8 ? x : y; }
FG_INLINE double fg_cos_f64(double x) { return fg_sincos_f64(x, 1); }
FG_INLINE double fg_tan_of_f64(double r, double lo, uint64_t q) {        /* sin / cos, the quotient corrected by its residual */
    double sl, cl, s = fg_sinr_f64(r, lo, &sl), c = fg_cosr_f64(r, lo, &cl);
    double n = (q & 1) ? -c : s, nl = (q & 1) ? -cl : sl, d = (q & 1) ? s : c, dl = (q & 1) ? sl : cl;
    double rd = 1 / d, y = n * rd, p = y * d;
    return y + (((n - p) - fg_mul_err(y, d, p)) + (nl - y * dl)) * rd;
}
FG_INLINE double fg_tan_f64(double x) {
    uint64_t q;
    double lo, r = fg_pio2_f64(x, &lo, &q), y = fg_tan_of_f64(r, lo, q);
    return fabs(x) < 1e-8 ? x : y;
}

/* |x| - n pi/2 for larger x, as fg_pio2_f64 gives it, by the reduction of fg_pio2_far_f32: the 53 bits of x times 192 bits of 2/pi, of which 128
 * are kept, the last two of n and the fraction; no float64 is nearer to a multiple of pi/2 than 2^-62.  The table has 64 bits of 2/pi / 2^42 from
 * every eighth on. */
static const uint64_t fg_two_over_pi_f64[143] = {
    0x000000000028be60u, 0x0000000028be60dbu, 0x00000028be60db93u, 0x000028be60db9391u, 0x0028be60db939105u, 0x28be60db9391054au, 0xbe60db9391054a7fu,
    0x60db9391054a7f09u, 0xdb9391054a7f09d5u, 0x9391054a7f09d5f4u, 0x91054a7f09d5f47du, 0x054a7f09d5f47d4du, 0x4a7f09d5f47d4d37u, 0x7f09d5f47d4d3770u,
    0x09d5f47d4d377036u, 0xd5f47d4d377036d8u, 0xf47d4d377036d8a5u, 0x7d4d377036d8a566u, 0x4d377036d8a5664fu, 0x377036d8a5664f10u, 0x7036d8a5664f10e4u,
    0x36d8a5664f10e410u, 0xd8a5664f10e4107fu, 0xa5664f10e4107f94u, 0x664f10e4107f9458u, 0x4f10e4107f9458eau, 0x10e4107f9458eaf7u, 0xe4107f9458eaf7aeu,
    0x107f9458eaf7aef1u, 0x7f9458eaf7aef158u, 0x9458eaf7aef1586du, 0x58eaf7aef1586dc9u, 0xeaf7aef1586dc91bu, 0xf7aef1586dc91b8eu, 0xaef1586dc91b8e90u,
    0xf1586dc91b8e9093u, 0x586dc91b8e909374u, 0x6dc91b8e909374b8u, 0xc91b8e909374b801u, 0x1b8e909374b80192u, 0x8e909374b801924bu, 0x909374b801924bbau,
    0x9374b801924bba82u, 0x74b801924bba8274u, 0xb801924bba827464u, 0x01924bba82746487u, 0x924bba827464873fu, 0x4bba827464873f87u, 0xba827464873f877au,
    0x827464873f877ac7u, 0x7464873f877ac72cu, 0x64873f877ac72c4au, 0x873f877ac72c4a69u, 0x3f877ac72c4a69cfu, 0x877ac72c4a69cfbau, 0x7ac72c4a69cfba20u,
    0xc72c4a69cfba208du, 0x2c4a69cfba208d7du, 0x4a69cfba208d7d4bu, 0x69cfba208d7d4baeu, 0xcfba208d7d4baed1u, 0xba208d7d4baed121u, 0x208d7d4baed1213au,
    0x8d7d4baed1213a67u, 0x7d4baed1213a671cu, 0x4baed1213a671c09u, 0xaed1213a671c09adu, 0xd1213a671c09ad17u, 0x213a671c09ad17dfu, 0x3a671c09ad17df90u,
    0x671c09ad17df904eu, 0x1c09ad17df904e64u, 0x09ad17df904e6475u, 0xad17df904e64758eu, 0x17df904e64758e60u, 0xdf904e64758e60d4u, 0x904e64758e60d4ceu,
    0x4e64758e60d4ce7du, 0x64758e60d4ce7d27u, 0x758e60d4ce7d2721u, 0x8e60d4ce7d272117u, 0x60d4ce7d272117e2u, 0xd4ce7d272117e2efu, 0xce7d272117e2ef7eu,
    0x7d272117e2ef7e4au, 0x272117e2ef7e4a0eu, 0x2117e2ef7e4a0ec7u, 0x17e2ef7e4a0ec7feu, 0xe2ef7e4a0ec7fe25u, 0xef7e4a0ec7fe25ffu, 0x7e4a0ec7fe25fff7u,
    0x4a0ec7fe25fff781u, 0x0ec7fe25fff78166u, 0xc7fe25fff7816603u, 0xfe25fff7816603fbu, 0x25fff7816603fbcbu, 0xfff7816603fbcbc4u, 0xf7816603fbcbc462u,
    0x816603fbcbc462d6u, 0x6603fbcbc462d682u, 0x03fbcbc462d6829bu, 0xfbcbc462d6829b47u, 0xcbc462d6829b47dbu, 0xc462d6829b47db4du, 0x62d6829b47db4d9fu,
    0xd6829b47db4d9fb3u, 0x829b47db4d9fb3c9u, 0x9b47db4d9fb3c9f2u, 0x47db4d9fb3c9f2c2u, 0xdb4d9fb3c9f2c26du, 0x4d9fb3c9f2c26dd3u, 0x9fb3c9f2c26dd3d1u,
    0xb3c9f2c26dd3d18fu, 0xc9f2c26dd3d18fd9u, 0xf2c26dd3d18fd9a7u, 0xc26dd3d18fd9a797u, 0x6dd3d18fd9a797fau, 0xd3d18fd9a797fa8bu, 0xd18fd9a797fa8b5du,
    0x8fd9a797fa8b5d49u, 0xd9a797fa8b5d49eeu, 0xa797fa8b5d49eeb1u, 0x97fa8b5d49eeb1fau, 0xfa8b5d49eeb1faf9u, 0x8b5d49eeb1faf97cu, 0x5d49eeb1faf97c5eu,
    0x49eeb1faf97c5ecfu, 0xeeb1faf97c5ecf41u, 0xb1faf97c5ecf41ceu, 0xfaf97c5ecf41ce7du, 0xf97c5ecf41ce7de2u, 0x7c5ecf41ce7de294u, 0x5ecf41ce7de294a4u,
    0xcf41ce7de294a4bau, 0x41ce7de294a4ba9au, 0xce7de294a4ba9afeu, 0x7de294a4ba9afed7u, 0xe294a4ba9afed7ecu, 0x94a4ba9afed7ec47u, 0xa4ba9afed7ec47e3u,
    0xba9afed7ec47e357u, 0x9afed7ec47e35742u, 0xfed7ec47e3574215u};
FG_INLINE double fg_whole_f64(uint64_t n) { return fg_double(n | 0x4330000000000000u) - 4503599627370496.0; }        /* n < 2^52 */
FG_INLINE double fg_pio2_far_f64(double x, double *lo, uint64_t *q) {
    const uint64_t u = fg_bits64(x), half = 0xffffffffu;
    int64_t at = (int64_t)(u >> 52 & 2047) - 1035;
    at = at < 0 ? 0 : at;
    const uint64_t w = fg_two_over_pi_f64[at >> 3], later = fg_two_over_pi_f64[(at >> 3) + 8], last = fg_two_over_pi_f64[(at >> 3) + 16];
    const uint64_t m = ((u & 0x000fffffffffffffu) | 0x0010000000000000u) << (at & 7), m0 = m & half, m1 = m >> 32;
    const uint64_t w0 = w >> 32, w1 = w & half, w2 = later >> 32, w3 = later & half, w4 = last >> 32, w5 = last & half;
    uint64_t t = m0 * w3 + (m0 * w4 >> 32) + (m1 * w5 >> 32), v = (t & half) + m1 * w4, low = v & half, carry = (t >> 32) + (v >> 32);
    t = m0 * w2 + carry; v = (t & half) + m1 * w3; carry = (t >> 32) + (v >> 32);
    const uint64_t middle = v & half, n = ((m0 * w0 + m1 * w1) << 32) + m0 * w1 + m1 * w2 + carry;      /* |x| 2/pi mod 4, in 2^-62 */
    const uint64_t rounded = n + (1ull << 61), f = rounded & ~(3ull << 62);
    *q = rounded >> 62;
    double first = (fg_whole_f64(f >> 32) - 536870912.0) * 0x1p32, second = fg_whole_f64(f & half);             /* the fraction, less a half */
    double sum = first + second, third = fg_whole_f64(middle) * 0x1p-32, high = sum + third, back = high - sum;
    double rest = (second - (sum - first)) + (((sum - (high - back)) + (third - back)) + fg_whole_f64(low) * 0x1p-64);
    double s = high + rest, sl = (high - s) + rest, p = s * FG_PIO2;
    double pl = fg_mul_err(s, FG_PIO2, p) + (s * FG_PIO2_LO + sl * FG_PIO2), r = p + pl;
    *lo = ((p - r) + pl) * 0x1p-62;
    return r * 0x1p-62 + (x - x);                                                                                /* NaN for an infinity */
}
FG_INLINE double fg_sin_far_f64(double x) {
    uint64_t q;
    double lo, r = fg_pio2_far_f64(x, &lo, &q), y = fg_sincos_of_f64(r, lo, q);
    return x < 0 ? -y : y;
}
FG_INLINE double fg_cos_far_f64(double x) {
    uint64_t q;
    double lo, r = fg_pio2_far_f64(x, &lo, &q);
    return fg_sincos_of_f64(r, lo, q + 1);
}
FG_INLINE double fg_tan_far_f64(double x) {
    uint64_t q;
    double lo, r = fg_pio2_far_f64(x, &lo, &q), y = fg_tan_of_f64(r, lo, q);
    return x < 0 ? -y : y;
}

/* (asin(x) - x) / x^3 at z = x^2, for |x| <= 1/2 */
FG_INLINE double fg_asinp_f64(double z) {
    return FG_POLY(z, 0.16666666666666763, 0.074999999999702624, 0.044642857175120246, 0.030381942683650801,
        0.022372215659222212, 0.017351600112782677, 0.013980961189774327, 0.011397778168652291, 0.010786516780489674,
        0.0036830881092762826, 0.021763387985508944, -0.021077136679306836, 0.032676793567942501);
}
FG_INLINE double fg_asin_f64(double x) {
    double a = fabs(x), big = a > 0.5, z = big ? 0.5 - 0.5 * a : a * a, s = big ? sqrt(z) : a;
    double w = s * z * fg_asinp_f64(z), e = (z - s * s - fg_mul_err(s, s, s * s)) / (s + s);   /* sqrt(z) = s + e */
    e = s > 0 ? e : 0;
    return copysign(big ? FG_PIO2 - 2 * (s + (w + e - 0.5 * FG_PIO2_LO)) : s + w, x);
}
FG_INLINE double fg_acos_f64(double x) {
    double a = fabs(x), big = a > 0.5, z = big ? 0.5 - 0.5 * a : a * a, s = big ? sqrt(z) : x;
    double w = s * z * fg_asinp_f64(z);
    return big ? (x > 0 ? 2 * (s + w) : 2 * (FG_PIO2 - (s + (w - FG_PIO2_LO)))) : FG_PIO2 - (s + (w - FG_PIO2_LO));
}

/* atan(a / b) for a, b >= 0, reduced to |t| <= tan(pi/8) by one division */
FG_INLINE double fg_atanq_f64(double a, double b) {
    int far = a > 2.41421356237309504880 * b, mid = a > 0.41421356237309504880 * b;
    double num = far ? -b : mid ? a - b : a, den = far ? a : mid ? a + b : b;
    double hi = far ? FG_PIO2 : mid ? 0.5 * FG_PIO2 : 0, lo = far ? FG_PIO2_LO : mid ? 0.5 * FG_PIO2_LO : 0;
    double t = num / den, z = t * t;
    double p = z * FG_POLY(z, -0.33333333333333326, 0.19999999999997689, -0.14285714285390502, 0.1111111108833313,
        -0.090909081501337821, 0.076922828854460695, -0.066662286304979682, 0.05877040150961927, -0.052185226093172089,
        0.045040304987449709, -0.033485666117147116, 0.015206547953650193);
    return hi + (t + (t * p + lo));
}
FG_INLINE double fg_atan_f64(double x) { return copysign(fg_atanq_f64(fabs(x), 1), x); }
FG_INLINE double fg_atan2_f64(double y, double x) {
    double a = fabs(y), b = fabs(x);
    int inf = (a == INFINITY) & (b == INFINITY), zero = (a == 0) & (b == 0);
    double s = (a > 1e307) | (b > 1e307) ? 0.25 : 1;
    double r = fg_atanq_f64(inf ? 1 : a * s, inf | zero ? 1 : b * s);
    r = (x < 0) | (zero & (copysign(1, x) < 0)) ? 2 * FG_PIO2 - (r - 2 * FG_PIO2_LO) : r;
    return copysign(r, y);
}

/* -t / (t + 2) with t = e^-2|x| - 1; what rounding t and t + 2 lost is put back (1.5 - d / 2 is near 1 / d) */
FG_INLINE double fg_tanh_f64(double x) {
    double a = fabs(x), y = -2 * (a > 20 ? 20 : a), n = (y * FG_LOG2E + FG_MAGIC64) - FG_MAGIC64, s = fg_pow2i_f64(n), base = s - 1;
    double h = y - n * FG_LN2_HI, w = n * FG_LN2_LO, r = h - w, c = (h - r) - w, sr = s * r, hi = base + sr;
    double lo = ((base - hi) + sr) + s * (r * r * fg_expq_f64(r) + c), t = hi + lo, tl = (hi - t) + lo;
    double d = t + 2, dl = ((2 - d) + t) + tl, q = t / d;
    return copysign(q + (tl - q * dl) * (1.5 - 0.5 * d), x);
}
FG_INLINE double fg_sinh_f64(double x) {
    double a = fabs(x), z = a * a, e = fg_expk_f64(a, 0, -1), big = e - 0.25 / e;
    double p = FG_POLY(z, 0.16666666666666669, 0.0083333333333331389, 0.00019841269841437678, 2.7557319155337337e-06,
        2.5052123398486171e-08, 1.6057240346256301e-10, 7.7593120622703776e-13);
    return copysign(a < 1 ? a + a * z * p : big, x);
}
FG_INLINE double fg_cosh_f64(double x) { double e = fg_expk_f64(fabs(x), 0, -1); return e + 0.25 / e; }
/* e^-|x| or 1 over 1 + e^-|x|, the quotient corrected by its residual */
FG_INLINE double fg_logistic_f64(double x) {
    double e = fg_exp_f64(-fabs(x)), n = x < 0 ? e : 1, d = 1 + e, dl = (1 - d) + e, r = 1 / d, y = n * r, p = y * d;
    return y + (((n - p) - fg_mul_err(y, d, p)) - y * dl) * r;
}

FG_INLINE double fg_asinh_f64(double x) {
    double a = fabs(x), big = a > 1e17, t = a * a, y = a + t / (1 + sqrt(1 + t));
    return copysign(fg_log1p_f64(big ? a : y) + (big ? 0.69314718055994530942 : 0), x);
}
FG_INLINE double fg_acosh_f64(double x) {
    double t = x - 1, big = x > 1e17, v = 2 * t + t * t, s = sqrt(v), p = s * s;
    double e = (((2 * t - v) + t * t) + ((v - p) - fg_mul_err(s, s, p))) / (s + s), y = t + s, l = (s - y) + t;    /* sqrt(v) = s + e */
    e = (t > 0) & (t < 1) ? e + l : 0;
    y = fg_log1pl_f64(big ? x : y, e) + (big ? 0.69314718055994530942 : 0);
    return x < 1 ? NAN : y;
}
FG_INLINE double fg_atanh_f64(double x) {
    double a = fabs(x), b = 2 * a, small = a < 0.5, q = (small ? b * a : b) / (1 - a);
    return copysign(0.5 * fg_log1p_f64(small ? b + q : q), x);
}

/* as vec_cbrt_f32, with a step more: z near |x|^(-1/3) to 2^-18 and to 2^-51; y = x z^2, less (y^3 - x) / (3 y^2) by remainders */
FG_INLINE double fg_cbrt_f64(double x) {
    double a = fabs(x), tiny = a < 0x1p-900, b = a * (tiny ? 0x1p300 : 0x1p-30), unit = tiny ? 0x1p-100 : 0x1p10;
    double third = 6004800933346956.0 - 0.33333333333333333 * fg_double((fg_bits64(b) >> 32) | 0x4330000000000000u);
    double z = fg_double(fg_bits64(third) << 32), h = 1 - b * z * (z * z);
    z += z * h * ((0.17386863 * h + 0.22337617) * h + 0.33333325);
    h = 1 - b * z * (z * z);
    z += z * h * (0.22222222222222222 * h + 0.33333333333333333);
    double zz = z * z, y = b * zz, p = y * y, c = fg_mul_err(p, y, b) + fg_mul_err(y, y, p) * y;
    y = (y - c * (zz * 0.33333333333333333)) * unit;
    return (a > 0) & (a < INFINITY) ? copysign(y, x) : x;
}

/* erf(x) / x - 1 at z = x^2, for |x| <= 1 */
FG_INLINE double fg_erfp_f64(double z) {
    return FG_POLY(z, 0.12837916709551256, -0.37612638903183754, 0.11283791670955121, -0.026866170645129868,
        0.0052239776254236108, -0.00085483270219560605, 0.00012055332903814525, -1.4925647594563675e-05,
        1.6462045982050497e-06, -1.63646495742019e-07, 1.4792469874518503e-08, -1.216497009938543e-09, 8.7104708446426189e-11,
        -4.2331385111448316e-12);
}
#define FG_ERFC_TAIL(u) FG_POLY(u, -0.1396211168405625, 0.015379652102619849, 0.068097054254688719, -0.10103906603631108, \
    0.093732834998523057, -0.066330365812053371, 0.037167515534006844, -0.016197734059865253, 0.0050319700163638193, \
    -0.00075777327336936317, -0.00019925695184250106, 0.00015062160717758851, -2.4398110564770663e-05, -1.1221840791779883e-05, \
    5.7066247756515347e-06, 2.9350307669585849e-07, -8.1970250301209038e-07, 7.4905491601694343e-08, 1.0341799612872728e-07, \
    -1.8026541007257695e-08, -9.7095140683894959e-09, 1.8465477143585618e-09)
/* erfc(a + al) for a >= 0.5 and a tiny al: erfc(x) = e^(-x^2) P(u) / (1 + 2x), with u = (x - 4) / (x + 4);
 * x^2 in two parts, since its error counts x^2-fold, and the division by 1 + 2x with its residual */
FG_INLINE double fg_erfc_tail_f64(double a, double al) {
    a = a > 27.5 ? 27.5 : a;
    double h = a * a, e = fg_expk_f64(-h, -(fg_mul_err(a, a, h) + 2 * a * al), 0), u = (a - 4) / (a + 4);
    double t = u * FG_ERFC_TAIL(u);
    double p = 1.2329951186255526 + t, pl = (1.2329951186255526 - p) + t, y = e * p, yl = fg_mul_err(e, p, y) + e * pl;
    double d = 1 + 2 * a, dl = (2 * a - d) + 1, q = y / d, m = q * d;
    return q + (((y - m) - fg_mul_err(q, d, m)) + (yl - q * dl)) / d;
}
/* beyond 1 as 1 - erfc(a), of which the errors count for a sixth and less: nothing is put back */
FG_INLINE double fg_erf_f64(double x) {
    double a = fabs(x), small = x + x * fg_erfp_f64(a < 1 ? x * x : 1), b = a < 1 ? 1 : a > 6 ? 6 : a;
    double both = 1 / ((b + 4) * (1 + 2 * b)), u = (b - 4) * ((1 + 2 * b) * both), h = -(b * b);
    double n = (h * FG_LOG2E + FG_MAGIC64) - FG_MAGIC64, r = (h - n * FG_LN2_HI) - n * FG_LN2_LO;
    double e = (1 + (r + r * r * fg_expq_f64(r))) * fg_pow2i_f64(n);
    double tail = e * (1.2329951186255526 + u * FG_ERFC_TAIL(u)) * ((b + 4) * both);
    return a < 1 ? small : x != x ? x : copysign(1 - tail, x);
}
FG_INLINE double fg_erfc_f64(double x) {
    double a = fabs(x), small = (1 - x) - x * fg_erfp_f64(a < 0.65 ? x * x : 0), t = fg_erfc_tail_f64(a < 0.65 ? 0.65 : a, 0);
    return a < 0.65 ? small : x != x ? x : x > 0 ? t : 2 - t;
}

/* The normal distribution function, erfc(-x / sqrt(2)) / 2: the rounding of x / sqrt(2) counts x^2-fold in the tail, so it is kept. */
FG_INLINE double fg_ndtr_f64(double x) {
    const double c = 0.70710678118654752440, cl = -4.8336466567264567e-17;
    double a = fabs(x) < 40 ? fabs(x) : 40, z = a * c, zl = fg_mul_err(a, c, z) + a * cl;
    double t = fg_erfc_tail_f64(z < 0.65 ? 0.65 : z, zl), near = z < 0.65 ? z : 0;
    double slope = 1.1283791670955126 * (1 - near * near * (1 - near * near * (0.5 - 0.16666666666666667 * (near * near))));
    double small = (0.5 - 0.5 * near) - 0.5 * (near * fg_erfp_f64(near * near) + zl * slope);
    t = z < 0.65 ? small : 0.5 * t;
    return x != x ? x : x > 0 ? 1 - t : t;
}
/* Inverse error function for a in [0, 1): polynomials in w = -log(1 - a^2), to 2^-23 */
FG_INLINE double fg_erf_inv_seed(double a, double w) {
    double t = w - 2.5, s = sqrt(w) - 4;
    double p = a * FG_POLY(t, 1.5014093641417599, 0.24664030395570688, -0.0041774156995892358, -0.0012527872001288349,
        0.00021837015856369815, -4.9337294915733518e-06, -3.469814423193587e-06, 4.5923047473447607e-07, 2.3834409331093603e-08,
        -8.2609946127303413e-09);
    double q = FG_POLY(s, 3.8397832399851826, 1.0094947199971667, 0.0012580814835210787, -0.00085286593587517051,
        0.00028575633312966694, -8.5281869300458737e-05, 2.8542220552724574e-05, -4.9023510507985132e-06, -1.6063287289205503e-06,
        5.8512528039542529e-07);
    return w < 5 ? p : q;
}
/* one Halley step on erf, or on erfc where 1 - |y| is the quantity that has the digits */
FG_INLINE double fg_erf_inv_f64(double y) {
    double a = fabs(y), x = fg_erf_inv_seed(a, -fg_log_f64((1 - a) * (1 + a))), z = a < 0.8 ? x * x : 0;
    double e = a < 0.8 ? (x - a) + x * fg_erfp_f64(z) : (1 - a) - fg_erfc_f64(x);
    double u = e / (1.12837916709551257390 * fg_exp_f64(-x * x));
    x -= u / (1 + x * u);
    return copysign(a < 1 ? x : a == 1 ? INFINITY : NAN, y);
}

/* log(x / (1 - x)) as +-log(1 + |1 - 2 x| / min(x, 1 - x)), where nothing cancels; smallest x times 2^54, lest the quotient overflows */
FG_INLINE double fg_logit_f64(double x) {
    double side = x < 0.5 ? x : 1 - x, tiny = fabs(side) < 1e-300;
    double y = fg_log1p_f64(fabs(1 - 2 * x) / (tiny ? side * 18014398509481984.0 : side));
    y += tiny ? 37.429947750237048 : 0;
    return x < 0.5 ? -y : y;
}
/* p log(p / q), 0 where p = 0 <= q, inf where one is negative, or NaN */
FG_INLINE double fg_rel_entr_f64(double p, double q) {
    int up = p >= q, both = (p > 0) & (q > 0);
    double d = up ? (p - q) / q : (q - p) / p, y = fg_log1p_f64(d);          /* near each other two logarithms would cancel */
    y = d < 1e300 ? up ? y : -y : fg_log_f64(p) - fg_log_f64(q);
    return both ? p * y : (p == 0) & (q >= 0) ? 0 : INFINITY;
}
/* sqrt(x^2 + y^2), scaled where squares would overflow or lose digits */
FG_INLINE double fg_hypot_f64(double x, double y) {
    double a = fabs(x), b = fabs(y), m = a > b ? a : b, s = m > 1e150 ? 0x1p-600 : m < 1e-130 ? 0x1p600 : 1;
    double r = m > 1e150 ? 0x1p600 : m < 1e-130 ? 0x1p-600 : 1, u = a * s, v = b * s, h = sqrt(u * u + v * v) * r;
    return (a == INFINITY) | (b == INFINITY) ? INFINITY : h;
}
/* x 2^n for a whole n: a product that cannot lose digits, then one that is rounded */
FG_INLINE double fg_ldexp_f64(double x, double n) {
    double a = fabs(x), tiny = a < DBL_MIN, b = tiny ? a * 18014398509481984.0 : a;
    uint64_t u = fg_bits64(b);
    double m = fg_double((u & 0x000fffffffffffffu) | 0x3fe0000000000000u);
    double e = fg_double((u >> 52) | 0x4330000000000000u) - (4503599627370496.0 + 1022.0) - (tiny ? 54 : 0) + n;
    e = e > 2000 ? 2000 : e;
    e = e < -2000 ? -2000 : e;
    double first = e > 1000 ? 1000 : e < -1000 ? -1000 : e;
    double y = m * fg_pow2i_f64(first) * fg_pow2i_f64(e - first);
    return (a > 0) & (a < INFINITY) ? copysign(y, x) : x;
}
FG_INLINE double fg_gelu_f64(double x) { return x * fg_logistic_f64(x * (FG_GELU_A + FG_GELU_B * (x * x))); }
FG_INLINE double fg_gelu_slope_f64(double x) {
    x = x > 30 ? 30 : x < -30 ? -30 : x;                                       /* beyond, it is 0 and 1 */
    double s = fg_logistic_f64(x * (FG_GELU_A + FG_GELU_B * (x * x)));
    return s + x * (FG_GELU_A + 3 * FG_GELU_B * (x * x)) * (s * (1 - s));
}
FG_INLINE double fg_gelu_exact_f64(double x) { return x * fg_ndtr_f64(x); }
FG_INLINE double fg_gelu_exact_slope_f64(double x) {
    double near = x > 40 ? 40 : x < -40 ? -40 : x;
    return fg_ndtr_f64(x) + 0.398942280401432678 * near * fg_exp_f64(-0.5 * near * near);
}

/* sign and edges of x^y, given r = |x|^y with a = |x| */
FG_INLINE double fg_pow_edges(double x, double y, double a, double r) {
    double half = 0.5 * y;
    int whole = trunc(y) == y, odd = whole & (trunc(half) != half);
    r = (x < 0) & (a < INFINITY) & !whole ? NAN : r;
    r = odd & (copysign(1, x) < 0) ? -r : r;
    return (y == 0) | (x == 1) | ((x == -1) & (fabs(y) == INFINITY)) ? 1 : (x != x) | (y != y) ? x + y : r;
}
/* log of a > 0 as an unevaluated sum: the value returned and *low */
FG_INLINE double fg_log_parts_f64(double a, double *low) {
    double k, m = fg_split_f64(a < DBL_MIN ? a * 18014398509481984.0 : a, &k);
    k -= a < DBL_MIN ? 54 : 0;
    double f = m - 1, d = m + 1, dl = m > 1 ? 1 - (d - m) : m - (d - 1), rd = 1 / d;
    double s = f * rd, p = s * d, sl = (((f - p) - fg_mul_err(s, d, p)) - s * dl) * rd;
    double z = s * s, zl = fg_mul_err(s, s, z) + 2 * s * sl;
    double c = z * FG_POLY(z, 0.40000000000002239, 0.28571428570106988, 0.22222222518824325, 0.18181784449089708,
        0.15386754050617069, 0.13256885027259938, 0.13195773138790357);
    double T = 0.66666666666666663 + c, Tl = (0.66666666666666663 - T) + c + 3.7007434154171883e-17;
    double w = z * T, wl = fg_mul_err(z, T, w) + (z * Tl + zl * T);
    double v = s * w, vl = fg_mul_err(s, w, v) + (s * wl + sl * w);
    double h = 2 * s + v, l = ((2 * s - h) + v) + (2 * sl + vl);
    double kh = k * FG_LN2_HI, H = kh + h, b = H - kh;
    *low = ((kh - (H - b)) + (h - b)) + (l + k * FG_LN2_LO);
    return a == 0 ? -INFINITY : a == INFINITY ? INFINITY : a != a ? a : H;
}
/* x^y: log|x| and its product with y as unevaluated sums of two doubles */
FG_INLINE double fg_pow_f64(double x, double y) {
    double a = fabs(x), L, H = fg_log_parts_f64(a, &L), e = y * H, el = fg_mul_err(y, H, e) + y * L;
    return fg_pow_edges(x, y, a, fg_expk_f64(e, (fabs(e) < 1e4) & (fabs(y) < 1e290) ? el : 0, 0));
}
