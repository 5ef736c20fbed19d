/* The Fourier kernel: lanes and rows for float and double, and the check that makes the plan. */
#ifndef FG_FFT_H
#define FG_FFT_H
#include "vec.h"
#include "vec_order.h"
#include "fft_plan.h"

typedef void (*FftBody)(void *ctx, int64_t begin, int64_t end, int tid);
typedef struct {
    const FftAxis *axis;
    const void *src;
    void *dst;
    void (*parallel)(int64_t n, int64_t grain, FftBody body, void *ctx);
    char *(*alloc)(int64_t bytes);
    void (*release)(char *p);
    int shared, out_of_memory;
} FftJob;
typedef struct { FftJob *job; const FftRow *row; int second, sw; double scale; const void *src; void *dst, *x; } FftStep;

/* Ask for what the next tile or row reads and writes, while this one is computed: its lanes are too far apart for the machine to see it. */
enum { FFT_AHEAD = 1 << 16 };
static void fft_ahead(const void *src, int64_t read, const void *dst, int64_t written) {
    if (read > FFT_AHEAD || written > FFT_AHEAD) return;
    for (int64_t i = 0; i < read; i += 64) __builtin_prefetch((const char *)src + i, 0);
    for (int64_t i = 0; i < written; i += 64) __builtin_prefetch((const char *)dst + i, 1);
}

#define T float
#define N(name) name##_f32
#include "fft_lanes.h"
#include "fft_tile.h"
#include "fft_run.h"
#undef T
#undef N
#define T double
#define N(name) name##_f64
#include "fft_lanes.h"
#include "fft_tile.h"
#include "fft_run.h"
#undef T
#undef N

static void fft_transform_chirp(FftArena *a, const FftLanes *lanes, const FftRow *row, void *spectrum) {
    a->failed |= a->dtype == FG_C64 ? fft_spectrum_f32(lanes, row, (float *)spectrum) != 0
                                    : fft_spectrum_f64(lanes, row, (double *)spectrum) != 0;
}

/* Axis d of x, whose transform has out's shape there and x's elsewhere. */
static void fft_describe(FftAxis *a, const FgTensor *x, const FgTensor *out, int d, int kind, int inverse) {
    memset(a, 0, sizeof *a);
    a->kind = kind; a->inverse = inverse;
    a->outer = a->inner = 1;
    for (int e = 0; e < x->ndim; e++) if (e < d) a->outer *= x->shape[e]; else if (e > d) a->inner *= x->shape[e];
    a->n_in = x->shape[d]; a->n_out = out->shape[d];
}

/* The plan of an instruction, in the order in which its axes are transformed: a real axis, which is the last of those listed, comes
 * first on the way to frequencies and last on the way back. */
static FftPlan *fft_build(FftArena *a, const FgInst *inst, const FgTensor *x, const FgTensor *out) {
    FftPlan local, *p = (FftPlan *)fft_take(a, sizeof local);
    const int kind = (int)inst->ip[0], inverse = (int)inst->ip[1], n = inst->n_ip - 2;
    if (!p) p = &local;
    memset(p, 0, sizeof *p);
    p->n_axis = n; p->dtype = a->dtype;
    p->axis = (FftAxis *)fft_take(a, n * (int64_t)sizeof(FftAxis));
    for (int i = 0; i < n; i++) {
        FftAxis one;
        const int last = kind == FFT_C2R ? i == n - 1 : i == 0, d = (int)inst->ip[kind == FFT_C2R ? 2 + i : 1 + n - i];
        const FgTensor *whole = kind == FFT_R2C ? out : x;
        if (last && kind != FFT_C2C) fft_describe(&one, x, out, d, kind, inverse);
        else fft_describe(&one, whole, whole, d, FFT_C2C, inverse);
        fft_make_axis(a, &one);
        if (a->base) p->axis[i] = one;
    }
    return p;
}

/* ip: kind, inverse, axes. */
static int fft_check_shapes(const FgInst *inst, const FgTensor *x, const FgTensor *out, char *msg) {
    const int kind = (int)inst->ip[0], n = inst->n_ip - 2;
    const FgTensor *wide = kind == FFT_R2C ? out : x, *narrow = kind == FFT_R2C ? x : out;
    int fits = x->ndim == out->ndim, seen[FG_MAXDIM] = {0};
    for (int i = 0; i < n; i++) {
        int64_t d = inst->ip[2 + i];
        if (d < 0 || d >= x->ndim || seen[d]++)
            return fg_fail(msg, "fft: axis %lld of shape %s is out of range or repeated", (long long)d, fg_shape_text(x));
    }
    for (int d = 0; fits && d < x->ndim; d++)
        fits = kind != FFT_C2C && d == inst->ip[1 + n] 
            ? wide->shape[d] == narrow->shape[d] / 2 + 1 || (kind == FFT_R2C && x->shape[d] == out->shape[d])
                                                        : x->shape[d] == out->shape[d];
    if (!fits) return fg_fail(msg, "fft: x has shape %s, which does not give an output of shape %s", fg_shape_text(x), fg_shape_text(out));
    return 0;
}

static int fft_check_all(FgInst *inst, const FgTensor *slots, char *msg) {
    if (inst->n_in != 1 || inst->n_out != 1 || inst->n_ip < 3 || inst->n_ip > 2 + FG_MAXDIM)
        return fg_fail(msg, "fft: got %d inputs, %d outputs, %d integers; expected 1, 1, and a kind, a direction and axes", inst->n_in,
                       inst->n_out, inst->n_ip);
    const FgTensor *x = FG_IN(inst, slots, 0), *out = FG_OUT(inst, slots, 0);
    const int64_t kind = inst->ip[0], inverse = inst->ip[1];
    if (kind < FFT_C2C || kind > FFT_C2R || inverse != (kind == FFT_C2C ? inverse & 1 : kind == FFT_C2R))
        return fg_fail(msg, "fft: kind %lld, direction %lld: expected 0 complex, 1 from real, 2 to real, and 1 for the inverse",
                       (long long)kind, (long long)inverse);
    const FgTensor *cx = kind == FFT_R2C ? out : x, *other = kind == FFT_R2C ? x : out;
    if ((cx->dtype != FG_C64 && cx->dtype != FG_C128)
        || other->dtype != (kind == FFT_C2C ? cx->dtype : cx->dtype == FG_C64 ? FG_F32 : FG_F64))
        return fg_fail(msg, "fft: kind %lld does not take %s to %s", (long long)kind, fg_dtype_name(x->dtype), fg_dtype_name(out->dtype));
    if (!fg_is_contiguous(x) || !fg_is_contiguous(out)) return fg_fail(msg, "fft: x and the output must be contiguous");
    if (fft_check_shapes(inst, x, out, msg)) return -1;
    if (!x->size || !out->size) return 0;
    FftArena a = {NULL, 0, cx->dtype, FG_VEC / (cx->dtype == FG_C64 ? 4 : 8), 0};
    fft_build(&a, inst, x, out);
    void *block = NULL;
    if (posix_memalign(&block, 64, (size_t)a.used)) return fg_fail(msg, "fft: no memory for a plan of %lld bytes", (long long)a.used);
    inst->extra = a.base = (char *)block;
    a.used = 0;
    fft_build(&a, inst, x, out);
    return a.failed ? fg_fail(msg, "fft: no memory for a plan") : 0;
}

static int fft_run_all(const FgInst *inst, FgTensor *slots, FftJob *j) {
    FgTensor *x = FG_IN(inst, slots, 0), *out = FG_OUT(inst, slots, 0);
    const FftPlan *p = (const FftPlan *)inst->extra;
    char *scratch = NULL;
    if (!out->size) return FG_OK;
    if (!x->size) { memset(out->data, 0, (size_t)(out->size * fg_itemsize(out->dtype))); return FG_OK; }
    if (inst->ip[0] == FFT_C2R && p->n_axis > 1 && !(scratch = j->alloc(x->size * fg_itemsize(x->dtype)))) return FG_EMEM;
    for (int i = 0; i < p->n_axis && !j->out_of_memory; i++) {
        j->axis = &p->axis[i];
        j->src = i == 0 ? x->data : scratch ? scratch : out->data;
        j->dst = scratch && i < p->n_axis - 1 ? scratch : out->data;
        if (p->dtype == FG_C64) fft_axis_f32(j); else fft_axis_f64(j);
    }
    if (scratch) j->release(scratch);
    return j->out_of_memory ? FG_EMEM : FG_OK;
}
#endif
