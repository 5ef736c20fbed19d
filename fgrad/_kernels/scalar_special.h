/* Special functions of float32 values held in float64: branch-free, so that loops over them vectorise, and accurate to 2^-28 or so,
 * which leaves float32 results one rounding.  Polynomials are Chebyshev interpolants computed at 50 digits.
 *
 * Sources: DLMF 5.5 (reflection, recurrence), 5.11 (Stirling), 10.40 (Bessel), 25.11 (zeta). */
#ifndef FG_SCALAR_SPECIAL_H
#define FG_SCALAR_SPECIAL_H
#include "scalar_math.h"

/* log x for a positive normal x, to 2^-43 */
FG_INLINE double fg_logf_f64(double x) {
    double k, m = fg_split_f64(x, &k), s = (m - 1) / (m + 1), z = s * s;
    return k * 0.69314718055994530942 + s * FG_POLY(z, 1.9999999999999468, 0.66666666679637826, 0.39999994875889092,
        0.28572167664074586, 0.22174190918339937, 0.19608897761382228);
}
/* e^x, to 2^-37; constant beyond +-700, past which no float32 is left */
FG_INLINE double fg_expf_f64(double x) {
    x = x > 700 ? 700 : x;
    x = x < -700 ? -700 : x;
    double n = (x * FG_LOG2E + FG_MAGIC64) - FG_MAGIC64, r = x - n * 0.69314718055994530942;
    return FG_POLY(r, 1.0000000000000135, 0.99999999997978088, 0.49999999999438508, 0.16666666891074363, 0.041666667040585932,
        0.0083332660931895825, 0.001388880174512402, 0.00019915869191389535, 2.4884461638560361e-5) * fg_pow2i_f64(n);
}
/* sin(pi r) and cos(pi r) for |r| <= 1/2 */
FG_INLINE double fg_sinpi_f64(double r) {
    return r * FG_POLY(r * r, 3.1415926535897932, -5.1677127800499696, 2.5501640398773005, -0.599264529318946, 0.082145886573123556,
        -0.0073704305060932257, 0.00046629981702308815, -2.1903499125519212e-5, 7.6978472755902844e-7);
}
FG_INLINE double fg_cospi_f64(double r) {
    return FG_POLY(r * r, 1.0, -4.9348022005446768, 4.0587121264164973, -1.3352627688434559, 0.23533063012967061, -0.025806888738177581,
        0.0019295562780374169, -0.00010456656706174584, 4.1495780270571204e-6);
}

/* log Gamma(y), y >= 1/2, is *near - log(the value), a value that is 1 from 4 on.  y in [0.75, 2.25]: zeros at 1 and 2 times
 * a polynomial; else Stirling's formula at y or y + 4. */
FG_INLINE double fg_lgamma_parts_f64(double y, double *near) {
    int low = y < 4, mid = (y > 0.75) & (y < 2.25);
    double t = low ? y + 4 : y, v = mid ? y - 1.5 : 0, i = 1 / t;
    double q = FG_POLY(i * i, 0.083333333332591003, -0.0027777770146565108, 0.00079352426755010905, -0.00058777545094105416,
        0.00065458740090966467);
    double far = (t - 0.5) * fg_logf_f64(t) - t + 0.91893853320467274178 + q * i;
    double p = FG_POLY(v, 0.48312895050404093, -0.14595989881178463, 0.062911409346102354, -0.031308298891777696, 0.016796796082877874,
        -0.0094291524421001152, 0.0054506465151484726, -0.0031832240884469761, 0.0018947265808720995, -0.0012834464111739806,
        0.00081274914310165887, -0.00018358358951031289, 7.6826232834882918e-5, -0.00042317777112287047, 0.00028340195190123337);
    *near = mid ? (y - 1) * (y - 2) * p + 0.0 : far;   /* + 0.0: no -0 */
    return low & !mid ? y * (y + 1) * ((y + 2) * (y + 3)) : 1;
}
/* Of this and the next two functions, `mirrored` is 0 where no x of a loop is below 1/2: the same values without the reflection. */
FG_INLINE double fg_lgamma_of_f64(double x, const int mirrored) {
    int below = mirrored & (x < 0.5);
    double r = x - rint(x), s = mirrored ? fabs(fg_sinpi_f64(r)) : 1, g, p = fg_lgamma_parts_f64(below ? 1 - x : x, &g);
    double l = fg_logf_f64(below ? 3.14159265358979323846 * p / s : p), y = below ? l - g : g - l;
    return (fabs(x) == INFINITY) | (below & (r == 0)) ? INFINITY : y;
}
/* Gamma: an infinity of the zero's sign at 0, NaN at the negative integers. */
FG_INLINE double fg_gamma_of_f64(double x, const int mirrored) {
    int below = mirrored & (x < 0.5);
    double n = rint(x), r = x - n, g, p = fg_lgamma_parts_f64(below ? 1 - x : x, &g), e = p * fg_expf_f64(-g), s = mirrored ? fg_sinpi_f64(r) : 1;
    s = 0.5 * n == rint(0.5 * n) ? s : -s;                   /* sin(pi x) */
    double y = below ? 3.14159265358979323846 * e / s : 1 / e;
    return (x < 0) & ((r == 0) | (x == -INFINITY)) ? NAN : x == 0 ? copysign(INFINITY, x) : x == INFINITY ? x : y;
}

/* digamma by reflection below 1/2, with the sum of 1 / (y + k), k < 6, as one fraction; in full precision, for its positive zero */
FG_INLINE double fg_digamma_of_f64(double x, const int mirrored) {
    int below = mirrored & (x < 0.5);
    double n = rint(x), r = x - n, y = below ? 1 - x : x, low = y < 6 ? y : 0, t = y < 6 ? y + 6 : y;
    double p = FG_POLY(low, 120, 274, 225, 85, 15, 1), dp = FG_POLY(low, 274, 450, 255, 60, 5);  /* (y + 1) ... (y + 5) and derivative */
    double head = y < 6 ? 1 / y + dp / p : 0, i = 1 / t, z = i * i;
    double tail = z * FG_POLY(z, 0.083333333333333329, -0.0083333333333094632, 0.0039682539467657241, -0.0041666592597089479,
        0.0075744933000613655, -0.020973859958418521, 0.076945654708305687, -0.25083105161559146);
    double v = fg_log_f64(t) - (0.5 * i + tail) - head;
    if (mirrored) v = below ? v - 3.14159265358979323846 * fg_cospi_f64(r) / fg_sinpi_f64(r) : v;
    return (x == -INFINITY) | ((x < 0) & (r == 0)) ? NAN : x == 0 ? -copysign(INFINITY, x) : v;
}
FG_INLINE double fg_lgammaf_f64(double x) { return fg_lgamma_of_f64(x, 1); }
FG_INLINE double fg_gammaf_f64(double x) { return fg_gamma_of_f64(x, 1); }
FG_INLINE double fg_digammaf_f64(double x) { return fg_digamma_of_f64(x, 1); }

/* e^-|x| I_v(x): a polynomial up to 8, then one in 1 / |x| */
FG_INLINE double fg_bessel_i0ef_f64(double x) {
    double a = fabs(x), u = a < 8 ? a - 4 : 0, i = 1 / (a < 8 ? 8 : a);
    double p = FG_POLY(u, 0.20700192113010858, -0.028251081633614024, 0.005907227949874189, -0.0013913041718834842,
        0.00034118283263621119, -8.2971514798239617e-5, 1.9356194524448219e-5, -4.2447870635627623e-6, 8.6558972628603624e-7,
        -1.6386762902774418e-7, 2.8954159869951931e-8, -4.7150149515884536e-9, 6.886759756853586e-10, -9.841649975114277e-11,
        1.5531754710251431e-11, -1.9067386908150483e-12, 9.6077905129518355e-14, -1.1976770236036228e-14, 5.0732111447952016e-15,
        -4.9493747726776723e-16);
    double q = FG_POLY(i, 0.39894228036908788, 0.049867821138716557, 0.028044099370874322, 0.029662339387692526, 0.030339937931161538,
        0.33478169463149252, -1.8901138089883357, 8.487890271986296);
    return a < 8 ? p : x != x ? x : q * sqrt(i);
}
FG_INLINE double fg_bessel_i1ef_f64(double x) {
    double a = fabs(x), u = a < 8 ? a - 4 : 0, i = 1 / (a < 8 ? 8 : a);
    double p = FG_POLY(u, 0.044687709864187577, -0.015281084813799625, 0.0042536001363044146, -0.0010700395812205654,
        0.00024909112997553654, -5.3985656994139671e-5, 1.090710871514931e-5, -2.0545216593469492e-6, 3.6132726702211869e-7,
        -5.9563831292631202e-8, 9.1612877389595156e-9, -1.2939980804664427e-9, 1.7619156640472458e-10, -2.5311027685858945e-11,
        3.0264387808909533e-12, -1.8871071637993138e-13, 2.1785544431319894e-14, -7.199286467448537e-15, 6.9152646666567174e-16);
    double q = FG_POLY(i, 0.39894228044120642, -0.14960339879793717, -0.046743267292324057, -0.041428021568363563,
        -0.040791004798784363, -0.39143171784946089, 2.1422547728741925, -9.6031061452656559);
    return a < 8 ? x * p : x != x ? x : copysign(q * sqrt(i), x);
}

/* The same in full precision: e^-|x| I_v(x) by its even series below 2, polynomials in |x| - 5 up to 8, and in 16 / |x| - 1 beyond */
/* q / sqrt(a), corrected by the remainders of root and quotient; 0 at infinity */
FG_INLINE double fg_over_root_f64(double q, double a) {
    double b = a < 1e300 ? a : 1e300, r = sqrt(b), h = 1 / r, y = q * h, p = y * r, m = r * r;
    y += h * ((q - p) - fg_mul_err(y, r, p) + 0.5 * h * y * ((m - b) + fg_mul_err(r, r, m)));
    return a < INFINITY ? y : 0;
}
FG_INLINE double fg_bessel_i0e_f64(double x) {
    double a = fabs(x), near = a < 2 ? a : 0, z = near * near, u = a < 8 ? a - 5 : 0, s = 16 / (a < 8 ? 8 : a) - 1;
    double r = FG_POLY(z, 1.0, 0.25, 0.015624999999999938, 0.0004340277777779769, 6.7816840274543955e-06, 6.78168405793189e-08,
        4.709501086185397e-10, 2.4028675787778216e-12, 9.373259435491812e-15, 3.045242653561327e-17);
    double p = FG_POLY(u, 0.18354081260932836, -0.019568545664785997, 0.0031713189703317566, -0.0005802006097868085,
        0.00011285381550047037, -2.2584093995174697e-05, 4.520818067499383e-06, -8.836833358949381e-07, 1.6567029326838666e-07,
        -2.9447978286359002e-08, 4.931576168529906e-09, -7.760066466502021e-10, 1.1468856659081426e-10, -1.5935413840546013e-11,
        2.0851280105014643e-12, -2.574754737487101e-13, 3.0072460096338714e-14, -3.329226890389415e-15, 3.498470529949063e-16,
        -3.5040816986452616e-17, 3.3797563252655314e-18, -3.079566173860277e-19, 2.4765624541836202e-20, FG_POLY(u,
        -2.1018243270852084e-21, 2.527003249887811e-22, -1.9124722815071005e-23));
    double q = FG_POLY(s, 0.4021765094450081, 0.003360551983667854, 0.00013621607439232746, 1.1143033791556743e-05, 1.4838475473607391e-06,
        2.973598432479169e-07, 8.87225351128584e-08, 3.932602459703109e-08, 2.1545177650836005e-08, 7.553516470355896e-09,
        -6.729724111923548e-09, -1.3404241991980871e-08, -5.4685974495866e-09, 7.540601378890834e-09, 7.58022133915272e-09,
        -3.4857887470034955e-09, -6.188265090497361e-09, 1.497880830187091e-09, 3.881151253996067e-09, -5.562201990080394e-10,
        -1.7789375042917173e-09, 1.4672236659214398e-10, 5.181936971288284e-10, FG_POLY(s, -1.9216763724933513e-11, -7.06893851181878e-11));
    return a < 2 ? r * fg_exp_f64(-near) : a < 8 ? p : x != x ? x : fg_over_root_f64(q, a);
}
FG_INLINE double fg_bessel_i1e_f64(double x) {
    double a = fabs(x), near = a < 2 ? a : 0, z = near * near, u = a < 8 ? a - 5 : 0, s = 16 / (a < 8 ? 8 : a) - 1;
    double r = FG_POLY(z, 0.5, 0.062499999999999875, 0.0026041666666674814, 5.4253472220132724e-05, 6.781684054619206e-07,
        5.651401420587637e-09, 3.364012518066672e-11, 1.4997362179030207e-13, 5.481464855453059e-16);
    double p = FG_POLY(u, 0.03279445338890847, -0.00920407222260619, 0.002126957872715504, -0.00045114864410010616,
        9.021639792493991e-05, -1.7135116702950558e-05, 3.0940302838370454e-06, -5.304702548410384e-07, 8.62217487086792e-08,
        -1.327079294454137e-08, 1.933259196621305e-09, -2.666006772690584e-10, 3.4825775228492264e-11, -4.313853412124149e-12,
        5.073688060025824e-13, -5.674358937511634e-14, 6.044132227727773e-15, -6.140876044215468e-16, 5.95780439814809e-17,
        -5.534681113704917e-18, 4.959310391905505e-19, -4.231116070995139e-20, 3.25654985698772e-21, FG_POLY(u, -2.595408891195967e-22,
        2.815803207401136e-23, -2.0269826094620085e-24));
    double q = FG_POLY(s, 0.38939845902587233, -0.009749577193235728, -0.00021923576383430274, -1.5038547201176271e-05,
        -1.8349101134666435e-06, -3.483855609009937e-07, -1.0001323461066435e-07, -4.312935369971356e-08, -2.337059627111857e-08,
        -8.426622829598154e-09, 6.715795128085017e-09, 1.4029693589852716e-08, 6.040877342160988e-09, -7.630751970065577e-09,
        -8.044231276166508e-09, 3.406636130196794e-09, 6.4870195719816896e-09, -1.4171698018664596e-09, -4.047785403711858e-09,
        5.146498826087142e-10, 1.8513716745511988e-09, -1.342266320082222e-10, -5.388285995923524e-10,
        FG_POLY(s, 1.7502497778701306e-11, 7.347992441734663e-11));
    return a < 2 ? x * (r * fg_exp_f64(-near)) : a < 8 ? x * p : x != x ? x : copysign(fg_over_root_f64(q, a), x);
}

/* erf_inv(a) / a in t = w - 2.5 */
#define FG_ERF_INV_NEAR(t) FG_POLY(t, 1.5014093517282387, 0.24664027679468035, -0.0041773249219328826, -0.0012527081133215396, \
    0.00021826392314411754, -4.9958551035442982e-6, -3.4261759517491592e-6, 4.7863526154206978e-7, 1.6487176840838707e-8, \
    -1.0852875942166487e-8, 4.3511473069028145e-10, 1.2294079820302474e-10)
/* The normal quantile: with a = 1 - 2p, sqrt(2) erf_inv(a) by polynomials in w = -log(1 - a^2), or in its root in the tails */
FG_INLINE double fg_ndtrif_f64(double p) {
    double q = p < 0.5 ? p : 1 - p, a = 1 - 2 * q, w = -fg_logf_f64(4 * q * (1 - q)), t = w - 2.5, s = sqrt(w) - 6.268034;
    double near = a * FG_ERF_INV_NEAR(t);
    double tail = FG_POLY(s, 6.1304869374800734, 1.0093439329786037, -0.00049897805004942714, -2.3266305970377268e-5,
        1.5407730899253527e-5, -3.831542537098752e-6, 8.2176497151372126e-7, -1.5865763259194442e-7, 8.7477491780812617e-9,
        9.932215806385993e-10, 4.1106748863273959e-9, -1.1121875683622176e-9, -4.1417167562659706e-10, 1.1751815725012481e-10,
        3.1327715456088727e-11, -8.5681756499733155e-12, -1.1374259680917982e-12, 3.2343674769846576e-13, 1.4101768771043545e-14,
        -4.4597905979014842e-15);
    double x = q > 0 ? 1.41421356237309504880 * (w < 5 ? near : tail) : q == 0 ? INFINITY : NAN;
    return p < 0.5 ? -x : x;
}

/* log of the normal distribution function of a float32:
 * with a = |x| / sqrt(2), of e^(-a^2) P((a - 3) / (a + 3)) / (2 + 4a) below 0, of 1 less that above */
FG_INLINE double fg_log_ndtrf_f64(double x) {
    double b = fabs(x), i = 1 / ((b + 4.24264068711928514641) * (1 + 1.41421356237309504880 * b));
    b = b > 1e30 ? 1e30 : b;
    double u = (b - 4.24264068711928514641) * (1 + 1.41421356237309504880 * b) * i;
    double g = 0.5 * (b + 4.24264068711928514641) * i * FG_POLY(u, 1.2530080563677553, -0.1356210694002736, -0.047562156927520074,
        0.12964411434408139, -0.11927527528224089, 0.068316567771140853, -0.02376357643949504, 0.0024991168696069476,
        0.001875079123772353, -0.00072645367903404842, -9.254516686923966e-5, 7.7310242240768951e-5);
    double h = 0.5 * x * x, e = g * fg_expf_f64(-h), y = fg_logf_f64(x > 0 ? 1 - e : g);
    return x != x ? x : x > 0 ? (e < 1e-4 ? -e * (1 + e * (0.5 + e * 0.33333333333333333)) : y) : y - h;
}
/* with w = -log(1 - y^2): y times a polynomial in w, or one in its root towards 1 */
FG_INLINE double fg_erf_invf_f64(double y) {
    double a = fabs(y), w = -fg_logf_f64((1 - a) * (1 + a)), t = w - 2.5, s = sqrt(w) - 3.268034;
    double near = a * FG_ERF_INV_NEAR(t), tail = FG_POLY(s, 3.1019804931404887, 1.0056706685428243, 0.0045218947390070997,
        -0.0023846661183732627, 0.00083641515811010414, -0.00022031461965845024, 2.5648243379334354e-5, 1.7297931481842069e-5,
        -1.2927286826554975e-5, 3.0541333562181941e-6);
    return copysign(a < 1 ? w < 5 ? near : tail : a == 1 ? INFINITY : NAN, y);
}

#undef FG_ERF_INV_NEAR
/* The quantile to full precision: with z = x / sqrt(2), one Halley step on erf or erfc from the value of 2^-28 */
FG_INLINE int fg_ndtri_common(double p) { return (p > 1e-40) & (p < 1); }
FG_INLINE double fg_ndtri_fast_f64(double p) {
    const double root = 1.41421356237309504880, low = -9.6672933134529135e-17;
    double q = p < 0.5 ? p : 1 - p, a = 1 - 2 * q, al = (1 - a) - 2 * q, z = fabs(fg_ndtrif_f64(q)) * 0.70710678118654752440;
    int centre = a < 0.6;
    double c = centre ? z : 0, e = centre ? ((c - a) - al) + c * fg_erfp_f64(c * c) : 2 * q - fg_erfc_tail_f64(centre ? 1 : z, 0);
    double u = e / (1.12837916709551257390 * fg_exp_f64(-z * z)), d = u / (1 + z * u), x = z * root;
    x += fg_mul_err(z, root, x) + (z * low - d * root);
    return p < 0.5 ? -x : x;
}
/* log of the normal distribution function: of the function itself down to -1, and below of e^(x^2 / 2) times it */
FG_INLINE double fg_log_ndtr_f64(double x) {
    double b = fabs(x) < 1e300 ? fabs(x) : 1e300, a = b * 0.70710678118654752440, near = a < 27 ? a : 27, u = (near - 4) / (near + 4);
    double g = (1.2329951186255526 + u * FG_ERFC_TAIL(u)) / (1 + 2 * near), i = 0.5 / (a * a);
    double far = 0.56418958354775628695 / a * (1 - i * (1 - 3 * i * (1 - 5 * i * (1 - 7 * i))));
    double tail = 0.5 * (a < 27 ? g : far), t = fg_ndtr_f64(x > 0 ? -x : x > -1 ? x : -1);
    double above = fg_log1p_f64(-t), y = fg_log_f64(x > -1 ? t : tail), h = x * x, hl = fg_mul_err(x, x, h);
    double below = y - (0.5 * (fabs(x) < 1e150 ? hl : 0) + 0.5 * h);
    return x != x ? x : x > 0 ? above : x > -1 ? y : below;
}

/* Hurwitz zeta for s > 1 and q > 0: 9 terms, then Euler and Maclaurin. */
FG_INLINE double fg_zeta_term_f64(double s, double w) { return fg_expf_f64(-s * fg_logf_f64(w)); }
FG_INLINE double fg_zetaf_f64(double s, double q) {
#define T(k) fg_zeta_term_f64(s, q + (k))
    double w = q + 9, i = 1 / w, z = i * i, p = T(9), head = T(0) + (T(1) + (T(2) + (T(3) + (T(4) + (T(5) + (T(6) + (T(7) + T(8))))))));
#undef T
    double f2 = (s + 1) * (s + 2) * z, f4 = (s + 3) * (s + 4) * z, f6 = (s + 5) * (s + 6) * z, f8 = (s + 7) * (s + 8) * z;
    double tail = s * i * (1.0 / 12 + f2 * (-1.0 / 720 + f4 * (1.0 / 30240 + f6 * (-1.0 / 1209600 + f8 / 47900160))));
    return head + p * (w / (s - 1) + 0.5 + tail);
}
FG_INLINE double fg_rel_entrf_f64(double p, double q) {
    double r = p / q, y = fg_logf_f64(r);
    return (p > 0) & (q > 0) ? p * FG_LOG_EDGES(r, y) : (p == 0) & (q >= 0) ? 0 : INFINITY;
}
/* x 2^n for a whole n: exact in float64 but where float32 overflows or underflows in any case */
FG_INLINE double fg_ldexpf_f64(double x, double n) {
    n = n > 600 ? 600 : n;
    n = n < -600 ? -600 : n;
    return x * fg_pow2i_f64(n);
}
/* sqrt(x^2 + y^2), scaled by the larger one's power of two: exact, and neither square leaves the range but one that does not count */
FG_INLINE float fg_hypot_f32(float x, float y) {
    const int32_t a = (int32_t)fg_bits32(x) & INT32_MAX, b = (int32_t)fg_bits32(y) & INT32_MAX, inf = 0x7f800000, least = 0x00800000, most = 0x7e800000;
    const int32_t m = (a > b ? a : b) & inf, low = m > least ? m : least, e = low < most ? low : most;
    const float s = fg_float((uint32_t)(0x7f000000 - e)), u = fg_float((uint32_t)a) * s, v = fg_float((uint32_t)b) * s;
    return (a == inf) | (b == inf) ? INFINITY : sqrtf(u * u + v * v) * fg_float((uint32_t)e);
}

/* where zetaf and polygammaf hold */
FG_INLINE int fg_zeta_common(double s, double q) { return (s > 1) & (s < 1e4) & (q > 0) & (q < 1e30); }
FG_INLINE int fg_polygamma_common(double n, double x) { return (n >= 1) & (n <= 100) & (n == rint(n)) & (x > 0) & (x < 1e30); }
FG_INLINE double fg_polygammaf_f64(double n, double x) {
    double y = fg_gammaf_f64(n + 1) * fg_zetaf_f64(n + 1, x);
    return 0.5 * n == rint(0.5 * n) ? -y : y;
}
#endif
