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
    int64_t count;                  /* images that src and dst hold */
    int threads, shared, far, out_of_memory;      /* far: what is read and written does not lie in the thread's own cache */
} FftJob;
typedef struct { const char *p; int64_t bytes; } FftAhead;          /* what will be read or written next */
typedef struct { FftJob *job; const FftRow *row; int second, sw; double scale; const void *src; void *dst, *tmp, *x; FftAhead *ahead; } FftStep;

/* Ask for what the next tile or row reads and writes, while this one is computed: its lanes are too far apart for the machine to see it. */
enum { FFT_AHEAD = 1 << 16 };
FG_INLINE void fft_ahead_by(FftAhead *a, int64_t blocks) {
    for (int i = 0; i < 2; i++) {
        int64_t bytes = (a[i].bytes / blocks + 63) & ~(int64_t)63;
        for (int64_t k = 0; k < bytes; k += 64) __builtin_prefetch(a[i].p + k, 0, 2);
        a[i].p += bytes; a[i].bytes -= bytes;
    }
}
static void fft_ahead(const void *src, int64_t read, const void *dst, int64_t written) {
    if (read > FFT_AHEAD || written > FFT_AHEAD) return;
    for (int64_t i = 0; i < read; i += 64) __builtin_prefetch((const char *)src + i, 0);
    for (int64_t i = 0; i < written; i += 64) __builtin_prefetch((const char *)dst + i, 1);
}

#define T float
#define N(name) name##_f32
#include "fft_tile.h"
#include "fft_lanes.h"
#include "fft_run.h"
#undef T
#undef N
#define T double
#define N(name) name##_f64
#include "fft_tile.h"
#include "fft_lanes.h"
#include "fft_run.h"
#undef T
#undef N

static void fft_transform_chirp(FftArena *a, const FftLanes *lanes, const FftRow *row, void *spectrum) {
    a->failed |= a->dtype == FG_C64 ? fft_spectrum_f32(lanes, row, (float *)spectrum) != 0
                                    : fft_spectrum_f64(lanes, row, (double *)spectrum) != 0;
}

/* Axis d of x, whose transform has out's shape there and x's elsewhere; images lie along the axes before `first`. */
static void fft_describe(FftAxis *a, const FgTensor *x, const FgTensor *out, int d, int first, int kind, int inverse) {
    memset(a, 0, sizeof *a);
    a->kind = kind; a->inverse = inverse;
    a->outer = a->inner = 1;
    for (int e = first; e < x->ndim; e++) if (e < d) a->outer *= x->shape[e]; else if (e > d) a->inner *= x->shape[e];
    a->n_in = x->shape[d]; a->n_out = out->shape[d];
}

/* The plan of an instruction, in the order in which its axes are transformed: a real axis, which is the last of those listed, comes
 * first on the way to frequencies and last on the way back. */
static FftPlan *fft_build(FftArena *a, const FgInst *inst, const FgTensor *x, const FgTensor *out) {
    FftPlan local, *p = (FftPlan *)fft_take(a, sizeof local);
    const int kind = (int)inst->ip[0], inverse = (int)inst->ip[1], n = inst->n_ip - 2;
    const FgTensor *wide = kind == FFT_R2C ? out : x;
    if (!p) p = &local;
    memset(p, 0, sizeof *p);
    p->n_axis = n; p->dtype = a->dtype;
    int first = x->ndim;
    for (int i = 0; i < n; i++) if (inst->ip[2 + i] < first) first = (int)inst->ip[2 + i];
    p->images = 1;
    for (int e = 0; e < first; e++) p->images *= x->shape[e];
    const int64_t bytes = wide->size / p->images * fg_itemsize(wide->dtype);
    p->group = n == 1 || bytes > FFT_IMAGE || bytes * p->images <= FFT_CLOSE ? p->images : bytes < FFT_GROUP ? FFT_GROUP / bytes : 1;
    if (p->group > p->images) p->group = p->images;
    p->axis = (FftAxis *)fft_take(a, n * (int64_t)sizeof(FftAxis));
    for (int i = 0; i < n; i++) {
        FftAxis one;
        const int last = kind == FFT_C2R ? i == n - 1 : i == 0, d = (int)inst->ip[kind == FFT_C2R ? 2 + i : 1 + n - i];
        if (last && kind != FFT_C2C) fft_describe(&one, x, out, d, first, kind, inverse);
        else fft_describe(&one, wide, wide, d, first, FFT_C2C, inverse);
        fft_make_axis(a, &one, p->group);
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

/* All axes of the images at src; scratch: of x's size, where the last axis becomes real after others. */
static void fft_image(FftJob *j, const FftPlan *p, const char *src, char *dst, char *scratch) {
    for (int i = 0; i < p->n_axis && !j->out_of_memory; i++) {
        j->axis = &p->axis[i];
        j->src = i == 0 ? src : scratch ? scratch : dst;
        j->dst = scratch && i < p->n_axis - 1 ? scratch : dst;
        if (p->dtype == FG_C64) fft_axis_f32(j); else fft_axis_f64(j);
    }
}
typedef struct { FftJob *job; const FftPlan *plan; const FgTensor *x, *out; int to_real; } FftImages;

/* Groups begin to end. */
static void fft_images(const FftImages *s, FftJob *j, int64_t begin, int64_t end) {
    const FftPlan *p = s->plan;
    const int64_t in = s->x->size / p->images * fg_itemsize(s->x->dtype), out = s->out->size / p->images * fg_itemsize(s->out->dtype);
    char *scratch = NULL;
    if (s->to_real && p->n_axis > 1 && !(scratch = j->alloc(p->group * in))) { j->out_of_memory = 1; return; }
    for (int64_t u = begin; u < end && !j->out_of_memory; u++) {
        const int64_t at = u * p->group;
        j->count = p->images - at < p->group ? p->images - at : p->group;
        fft_image(j, p, (const char *)s->x->data + at * in, (char *)s->out->data + at * out, scratch);
    }
    if (scratch) j->release(scratch);
}
static void fft_alone(int64_t n, int64_t grain, FftBody body, void *ctx) { body(ctx, 0, n, 0); }
static void fft_share(void *ctx, int64_t begin, int64_t end, int tid) {
    const FftImages *s = (const FftImages *)ctx;
    FftJob own = *s->job;
    own.parallel = fft_alone;
    fft_images(s, &own, begin, end);
    if (own.out_of_memory) s->job->out_of_memory = 1;
}

/* Images that fit into a core's cache go through all axes before the next ones, each thread with its own. */
static int fft_run_all(const FgInst *inst, FgTensor *slots, FftJob *j) {
    FgTensor *x = FG_IN(inst, slots, 0), *out = FG_OUT(inst, slots, 0);
    const FftPlan *p = (const FftPlan *)inst->extra;
    if (!out->size) return FG_OK;
    if (!x->size) { memset(out->data, 0, (size_t)(out->size * fg_itemsize(out->dtype))); return FG_OK; }
    j->far = x->size * fg_itemsize(x->dtype) + out->size * fg_itemsize(out->dtype) > FFT_CLOSE
           || (p->n_axis > 1 && j->threads > 1);          /* of images, columns went through other threads */
    FftImages s = {j, p, x, out, inst->ip[0] == FFT_C2R};
    const int64_t groups = (p->images + p->group - 1) / p->group;
    if (groups > 1 && groups >= j->threads) j->parallel(groups, 1, fft_share, &s); else fft_images(&s, j, 0, groups);
    return j->out_of_memory ? FG_EMEM : FG_OK;
}
#endif
