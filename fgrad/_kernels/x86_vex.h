/* Machine code of x86-64 with AVX2: instructions on vectors of 32 bytes by the shorter prefixes. Part of the encoder in x86.h, whose forms it takes:
 * a length of 0 is 16 bytes, any other one 32. */
#ifndef FG_X86_VEX_H
#define FG_X86_VEX_H
#include "x86.h"

/* Prefix and opcode: of two bytes where no register but `reg` or `v` is one of the upper eight. */
static void x86_ymm_begin(FgX86 *x, int form, int reg, int v, int index, int base) {
    const int map = form >> 8 & 15, w = form >> 16 & 1, length = (form >> 20 & 3) != 0, prefix = form >> 12 & 15;
    const int tail = (~v & 15) << 3 | length << 2 | prefix;
    if (map == 1 && !w && index < 8 && base < 8) {
        x86_1(x, 0xc5);
        x86_1(x, (~reg >> 3 & 1) << 7 | tail);
    } else {
        x86_1(x, 0xc4);
        x86_1(x, (~reg >> 3 & 1) << 7 | (~index >> 3 & 1) << 6 | (~base >> 3 & 1) << 5 | map);
        x86_1(x, w << 7 | tail);
    }
    x86_1(x, form & 255);
}
/* reg = v op rm */
static void x86_ymm(FgX86 *x, int form, int reg, int v, int rm) {
    x86_ymm_begin(x, form, reg, v, 0, rm);
    x86_1(x, 0xc0 | (reg & 7) << 3 | (rm & 7));
}
/* The distance takes one byte, or none, where that is enough. */
static void x86_ymm_at(FgX86 *x, int form, int reg, int v, FgX86At m) {
    const int sib = m.index >= 0 || (m.base & 7) == 4, none = !m.disp && (m.base & 7) != 5, near = m.disp >= -128 && m.disp < 128;
    x86_ymm_begin(x, form, reg, v, m.index >= 0 ? m.index : 0, m.base);
    x86_1(x, (none ? 0 : near ? 0x40 : 0x80) | (reg & 7) << 3 | (sib ? 4 : m.base & 7));
    if (sib) x86_1(x, (m.index >= 0 ? m.index & 7 : 4) << 3 | (m.base & 7));
    if (none) return;
    if (near) x86_1(x, m.disp & 255); else x86_4(x, m.disp);
}
#endif
