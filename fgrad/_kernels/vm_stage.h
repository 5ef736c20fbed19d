/* Programs of stages (vm_strip.h): what they are made of, and how they run. */
#ifndef FG_VM_STAGE_H
#define FG_VM_STAGE_H
#include "vec.h"

#define FG_LANES_TYPE(t, T, B) \
    typedef T fg_w_##t __attribute__((vector_size(FG_VEC))); typedef B fg_m_##t __attribute__((vector_size(FG_VEC))); \
    typedef B fg_1_##t __attribute__((may_alias)); \
    typedef T fg_p_##t __attribute__((vector_size(FG_VEC), aligned(sizeof(T)), may_alias));
FG_LANES_TYPE(f32, float, int32_t) FG_LANES_TYPE(f64, double, int64_t) FG_LANES_TYPE(i32, int32_t, int32_t)
FG_LANES_TYPE(i64, int64_t, int64_t) FG_LANES_TYPE(u32, uint32_t, int32_t) FG_LANES_TYPE(u64, uint64_t, int64_t)

enum { FG_STRIP = 8 * FG_VEC };                  /* bytes */
typedef struct FgStage FgStage;
#define FG_STAGE_ARGS const FgStage *s, char *const *ptr, int64_t at, fg_m_i32 r0, fg_m_i32 r1, fg_m_i32 r2, fg_m_i32 r3, \
    fg_m_i32 r4, fg_m_i32 r5, fg_m_i32 r6, fg_m_i32 r7
typedef void (*FgStageFn)(FG_STAGE_ARGS);
/* operands: entries of the table of pointers; of the first three, whether they move on from strip to strip (-1) or stay (0): the others
 * are single values */
struct FgStage { FgStageFn fn; int32_t a, b, c, d, e, f; int8_t move_a, move_b, move_c; };

/* What the table of pointers has for a box: its tile's marks, a byte an element of all bits inside and none outside, or one of these. */
#define FG_BOX_INSIDE ((char *)0)                /* all of the tile */
#define FG_BOX_OUTSIDE ((char *)1)

/* A program's machine code: of bytes [at, end) of each operand, whatever they are. */
typedef void (*FgStripCode)(char *const *ptr, int64_t at, int64_t end);
/* Code of whole rows gets their number as `at`, and a table of pointers of its own, which it moves on: from STEPS on by how much, LEFT is its counter. */
enum { FG_ROWS_STEPS = 128, FG_ROWS_LEFT = 256 };

/* Run a program over bytes [at, end) of each operand, a whole number of strips. */
static void fg_run_stages(const FgStage *s, char *const *ptr, int64_t at, int64_t end) {
    const fg_m_i32 z = {0};
    for (; at < end; at += FG_STRIP) s->fn(s, ptr, at, z, z, z, z, z, z, z, z);
}
#endif
