/* The contract between the executor and the kernels: what a tensor, an instruction and a kernel are.
 *
 * A program is a table of slots (FgTensor) and a list of instructions (FgInst).  Shapes, strides and dtypes are
 * fixed when the program is built; only the `data` pointers change from run to run.  Every kernel is a pair
 *
 *     int check(FgInst *inst, const FgTensor *slots, char *msg)      once, when the program is built
 *     int run(const FgInst *inst, FgTensor *slots)                   at every run, without the GIL
 *
 * `check` sees shapes, strides, dtypes and parameters but no data.  It returns 0, or writes a message of at most
 * FG_MSG - 1 characters to `msg` and returns -1.  What `run` relies on must be tested there.  It may hang one
 * malloc'ed block on inst->extra for precomputed loop plans: the program frees it with free(), and it must not
 * hold data pointers, since several threads may run one program at the same time, each with slots of its own.
 * `run` returns 0, or an FG_E* code for faults that only data can show.
 */
#ifndef FG_H
#define FG_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FG_MAXDIM 16
#define FG_MSG 256

enum {
    FG_BOOL = 0, FG_I8, FG_I16, FG_I32, FG_I64, FG_U8, FG_U16, FG_U32, FG_U64,
    FG_F16, FG_BF16, FG_F32, FG_F64, FG_C64, FG_C128, FG_NDTYPES
};

enum { FG_OK = 0, FG_EMEM = 1, FG_EPYTHON = 2, FG_EDATA = 3 };

typedef struct {
    char *data;
    int32_t dtype;
    int32_t ndim;
    int64_t size;                 /* number of elements: product of shape */
    int64_t shape[FG_MAXDIM];
    int64_t strides[FG_MAXDIM];   /* in elements; 0 on a broadcast axis, negative after rev */
} FgTensor;

typedef struct FgInst FgInst;
typedef int (*FgRun)(const FgInst *inst, FgTensor *slots);
typedef int (*FgCheck)(FgInst *inst, const FgTensor *slots, char *msg);

struct FgInst {
    FgRun run;
    int32_t kind;                 /* 0: kernel; others belong to the executor */
    int32_t n_in, n_out, n_ip, n_fp, n_child;
    int32_t machine;              /* may run as machine code that is made when it is run often */
    int32_t *args;                /* slot numbers: n_in inputs, then n_out outputs (workspace is an output) */
    int64_t *ip;                  /* integer parameters */
    double *fp;                   /* float parameters */
    void *extra;
    void *object;                 /* borrowed PyObject of a callback; NULL otherwise */
};

#define FG_IN(inst, slots, i) (&(slots)[(inst)->args[i]])
#define FG_OUT(inst, slots, i) (&(slots)[(inst)->args[(inst)->n_in + (i)]])

static const int fg_itemsize_table[FG_NDTYPES] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
static inline int64_t fg_itemsize(int dtype) { return fg_itemsize_table[dtype]; }

static inline int fg_is_contiguous(const FgTensor *t) {
    int64_t expect = 1;
    if (t->size == 0) return 1;
    for (int d = t->ndim - 1; d >= 0; d--) {
        if (t->shape[d] != 1 && t->strides[d] != expect) return 0;
        expect *= t->shape[d];
    }
    return 1;
}

static inline int fg_same_shape(const FgTensor *a, const FgTensor *b) {
    if (a->ndim != b->ndim) return 0;
    for (int d = 0; d < a->ndim; d++) if (a->shape[d] != b->shape[d]) return 0;
    return 1;
}

/* 16-bit floats are storage only: arithmetic is float32. */
static inline float fg_bf16_to_f32(uint16_t h) {
    uint32_t u = (uint32_t)h << 16; float f; memcpy(&f, &u, 4); return f;
}
static inline uint16_t fg_f32_to_bf16(float f) {
    uint32_t u; memcpy(&u, &f, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
static inline float fg_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, em = h & 0x7fffu, u;
    if (em >= 0x7c00u) u = sign | 0x7f800000u | ((em & 0x3ffu) << 13);
    else if (em >= 0x0400u) u = sign | ((em << 13) + 0x38000000u);
    else { float f = (float)em * 5.9604644775390625e-8f; memcpy(&u, &f, 4); u |= sign; }
    float r; memcpy(&r, &u, 4); return r;
}
static inline uint16_t fg_f32_to_f16(float f) {
    uint32_t u; memcpy(&u, &f, 4);
    uint32_t sign = (u >> 16) & 0x8000u; u &= 0x7fffffffu;
    if (u > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((u >> 13) & 0x3ffu));
    if (u >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    if (u < 0x38800000u) {            /* subnormal or zero: round by adding 2^-1 ulp in float */
        float a; memcpy(&a, &u, 4); a += 0.5f; memcpy(&u, &a, 4);
        return (uint16_t)(sign | (u - 0x3f000000u));
    }
    return (uint16_t)(sign | ((u - 0x38000000u + 0xfffu + ((u >> 13) & 1u)) >> 13));
}
#endif
