/* Machine code of x86-64 with AVX-512: one function for each way that an instruction is encoded. */
#ifndef FG_X86_H
#define FG_X86_H
#include <stdint.h>
#include <string.h>

typedef struct { uint8_t *begin, *at, *end; int off, failed; } FgX86;       /* off: nothing is written */
typedef struct { int base, index; int32_t disp; } FgX86At;                  /* the place [base + index + disp]; index < 0: none */
enum { X86_AX, X86_CX, X86_DX, X86_BX, X86_SP, X86_BP, X86_SI, X86_DI, X86_8, X86_9, X86_10, X86_11, X86_12, X86_13, X86_14, X86_15 };
enum { X86_MOV = 0x8b, X86_STORE = 0x89, X86_STORE1 = 0x88, X86_LEA = 0x8d, X86_ADD = 0x03, X86_OR = 0x0b, X86_AND = 0x23, X86_SUB = 0x2b, X86_XOR = 0x33,
    X86_CMP = 0x3b, X86_TEST = 0x85, X86_IMUL = 0xfaf, X86_MOVZX1 = 0xfb6, X86_MOVZX2 = 0xfb7, X86_MOVSX1 = 0xfbe, X86_MOVSX2 = 0xfbf, X86_MOVSXD = 0x63, X86_CMOV = 0xf40, X86_SET = 0xf90, X86_FETCH = 0xf18 };
/* conditions; the lowest bit negates */
enum { X86_B = 2, X86_AE = 3, X86_E = 4, X86_NE = 5, X86_BE = 6, X86_A = 7, X86_S = 8, X86_L = 12, X86_GE = 13, X86_LE = 14, X86_G = 15, X86_ALWAYS = 16 };

static void x86_1(FgX86 *x, int byte) {
    if (x->off) return;
    if (x->at < x->end) *x->at++ = (uint8_t)byte; else x->failed = 1;
}
static void x86_4(FgX86 *x, int64_t v) { for (int i = 0; i < 4; i++) x86_1(x, (int)(v >> 8 * i & 255)); }
static void x86_8(FgX86 *x, int64_t v) { x86_4(x, v); x86_4(x, v >> 32); }

static void x86_place(FgX86 *x, int reg, FgX86At m) {
    const int sib = m.index >= 0 || (m.base & 7) == 4;
    x86_1(x, 0x80 | (reg & 7) << 3 | (sib ? 4 : m.base & 7));
    if (sib) x86_1(x, (m.index >= 0 ? m.index & 7 : 4) << 3 | (m.base & 7));
    x86_4(x, m.disp);
}
static void x86_code(FgX86 *x, int op) { if (op > 255) x86_1(x, 0x0f); x86_1(x, op & 255); }
/* An instruction on general registers; wide: of 64 bits. */
static void x86_op(FgX86 *x, int wide, int op, int reg, int rm) {
    x86_1(x, 0x40 | wide << 3 | (reg >> 3) << 2 | rm >> 3);
    x86_code(x, op);
    x86_1(x, 0xc0 | (reg & 7) << 3 | (rm & 7));
}
static void x86_op_at(FgX86 *x, int wide, int op, int reg, FgX86At m) {
    x86_1(x, 0x40 | wide << 3 | (reg >> 3) << 2 | (m.index >= 0 ? m.index >> 3 : 0) << 1 | m.base >> 3);
    x86_code(x, op);
    x86_place(x, reg, m);
}
/* add (0), or (1), and (4), sub (5), xor (6), cmp (7) of a number of 32 bits */
static void x86_number(FgX86 *x, int wide, int how, int rm, int32_t v) { x86_op(x, wide, 0x81, how, rm); x86_4(x, v); }
/* shl (4), shr (5), sar (7) by a number */
static void x86_shift(FgX86 *x, int wide, int how, int rm, int by) { x86_op(x, wide, 0xc1, how, rm); x86_1(x, by); }
static void x86_set(FgX86 *x, int reg, int64_t v) {
    if (v >= 0 && v <= INT32_MAX) { x86_1(x, 0x40 | reg >> 3); x86_1(x, 0xb8 | (reg & 7)); x86_4(x, v); return; }
    x86_1(x, 0x48 | reg >> 3); x86_1(x, 0xb8 | (reg & 7)); x86_8(x, v);
}
static void x86_push(FgX86 *x, int reg) { x86_1(x, 0x40 | reg >> 3); x86_1(x, 0x50 | (reg & 7)); }
static void x86_pop(FgX86 *x, int reg) { x86_1(x, 0x40 | reg >> 3); x86_1(x, 0x58 | (reg & 7)); }
static void x86_call(FgX86 *x, const void *to) { x86_set(x, X86_AX, (int64_t)(intptr_t)to); x86_1(x, 0xff); x86_1(x, 0xd0); }

/* A jump; returns where its distance stands, for x86_land. */
static int64_t x86_jump(FgX86 *x, int condition) {
    if (condition == X86_ALWAYS) x86_1(x, 0xe9); else { x86_1(x, 0x0f); x86_1(x, 0x80 | condition); }
    x86_4(x, 0);
    return x->at - x->begin - 4;
}
static void x86_lead(FgX86 *x, int64_t jump, int64_t to) {
    const int32_t by = (int32_t)(to - jump - 4);
    if (!x->off && !x->failed) memcpy(x->begin + jump, &by, 4);
}
static void x86_land(FgX86 *x, int64_t jump) { x86_lead(x, jump, x->at - x->begin); }

/* An encoding of a vector instruction: opcode, map (1: 0F, 2: 0F38, 3: 0F3A), prefix (1: 66, 2: F3, 3: F2), W, length (0: 16 bytes, 2: 64). */
#define X86_FORM(map, prefix, w, length, op) ((op) | (map) << 8 | (prefix) << 12 | (w) << 16 | (length) << 20)
static void x86_evex(FgX86 *x, int form, int reg, int v, int rm, int high, int k) {
    x86_1(x, 0x62);
    x86_1(x, (~reg >> 3 & 1) << 7 | (~high & 1) << 6 | (~rm >> 3 & 1) << 5 | (~reg >> 4 & 1) << 4 | (form >> 8 & 15));
    x86_1(x, (form >> 16 & 1) << 7 | (~v & 15) << 3 | 4 | (form >> 12 & 15));
    x86_1(x, (k >> 3 & 1) << 7 | (form >> 20 & 3) << 5 | (~v >> 4 & 1) << 3 | (k & 7));
    x86_1(x, form & 255);
}
/* reg = v op rm; k: a mask, + 8: with zeros where it has no bit */
static void x86_v(FgX86 *x, int form, int reg, int v, int rm, int k) {
    x86_evex(x, form, reg, v, rm, rm >> 4, k);
    x86_1(x, 0xc0 | (reg & 7) << 3 | (rm & 7));
}
static void x86_v_at(FgX86 *x, int form, int reg, int v, FgX86At m, int k) {
    x86_evex(x, form, reg, v, m.base, m.index >= 0 ? m.index >> 3 : 0, k);
    x86_place(x, reg, m);
}
/* Of general registers and masks, by the shorter prefix. */
static void x86_vex(FgX86 *x, int form, int reg, int v, int rm) {
    x86_1(x, 0xc4);
    x86_1(x, (~reg >> 3 & 1) << 7 | 1 << 6 | (~rm >> 3 & 1) << 5 | (form >> 8 & 15));
    x86_1(x, (form >> 16 & 1) << 7 | (~v & 15) << 3 | (form >> 12 & 15));
    x86_1(x, form & 255);
    x86_1(x, 0xc0 | (reg & 7) << 3 | (rm & 7));
}
static void x86_vex_at(FgX86 *x, int form, int reg, int v, FgX86At m) {
    x86_1(x, 0xc4);
    x86_1(x, (~reg >> 3 & 1) << 7 | (~(m.index >= 0 ? m.index >> 3 : 0) & 1) << 6 | (~m.base >> 3 & 1) << 5 | (form >> 8 & 15));
    x86_1(x, (form >> 16 & 1) << 7 | (~v & 15) << 3 | (form >> 12 & 15));
    x86_1(x, form & 255);
    x86_place(x, reg, m);
}
enum { X86_TO_MASK = X86_FORM(1, 0, 0, 0, 0x92), X86_FROM_MASK = X86_FORM(1, 0, 0, 0, 0x93),
    X86_SHLX = X86_FORM(2, 1, 0, 0, 0xf7), X86_SARX = X86_FORM(2, 2, 0, 0, 0xf7), X86_SHRX = X86_FORM(2, 3, 0, 0, 0xf7) };
static void x86_clear_upper(FgX86 *x) { x86_1(x, 0xc5); x86_1(x, 0xf8); x86_1(x, 0x77); }
#endif
