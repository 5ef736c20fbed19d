/* Machine code of flat code's 16-bit floats: what is rounded to them stays in a register, as the float32 that it is. See flat_native.h. */
#ifndef FG_FLAT_NATIVE_HALF_H
#define FG_FLAT_NATIVE_HALF_H
#include "flat_native_fold.h"
#include "flat_vex_fold.h"
#if FG_MACHINE_CODE

/* x rounded to 16 bits, as fg_f32_to_bf16 and fg_f32_to_f16 do it, to a register. */
static int nat_rounded(FgNat *n, int half, int one, int x) {
    int d = nat_new_of(n, one ? NAT_F32 : NAT_V), length = one ? 0 : 2;
    if (half) {
        nat_v_by(n, X86_FORM(3, 1, 0, length, 0x1d), x, 0, 0, 0, 0);         /* vcvtps2ph */
        nat_v(n, X86_FORM(2, 1, 0, length, 0x13), d, 0, 0, 0);
        return d;
    }
    nat_v_by(n, X86_FORM(1, 1, 0, length, 0x72), 2, d, x, 0, 16);            /* vpsrld */
    nat_v_at(n, X86_FORM(1, 1, 0, length, 0xdb), d, d, nat_number(n, NAT_LAST_BIT), 0);
    nat_v_at(n, X86_FORM(1, 1, 0, length, 0xfe), 0, x, nat_number(n, NAT_CARRY), 0);
    nat_v_by(n, X86_FORM(1, 0, 0, length, 0xc2), 1, x, x, 0, 3);
    nat_v(n, X86_FORM(1, 1, 0, length, 0xfe), d, d, 0, 0);
    nat_or_by_mask(n, length, d, x, nat_number(n, NAT_QUIET));
    nat_v_at(n, X86_FORM(1, 1, 0, length, 0xdb), d, d, nat_number(n, NAT_KEPT), 0);
    return d;
}
static void nat_round(FgNat *n, const FgFlatOp *o, int form, int half, int t) {
    int d = nat_rounded(n, half, t == NAT_f32, form ? nat_last(n, t) : nat_read(n, nat_kind[t], o->a, NAT_FIELD(a)));
    nat_write(n, nat_kind[t], o->d, NAT_FIELD(d), d);
    n->last[t] = n->dry ? -1 : d;
}
/* The kind of an op: of bfloat16 or float16, of vectors or single numbers. */
static int nat_half_kind(int op) { return NAT_BF16V + (op - FLAT_widen_bf16) % 4; }
static void nat_half(FgNat *n, const FgFlatOp *o, int op) {
    const int kind = nat_half_kind(op), one = kind >= NAT_BF16, t = one ? NAT_f32 : NAT_v32;
    if (op >= FLAT_narrow_bf16) {
        nat_write(n, kind, o->d, NAT_FIELD(d), nat_rounded(n, kind == NAT_F16 || kind == NAT_F16V, one, nat_read(n, nat_kind[t], o->a, NAT_FIELD(a))));
        return;
    }
    int d = nat_read(n, kind, o->a, NAT_FIELD(a));
    nat_write(n, nat_kind[t], o->d, NAT_FIELD(d), d);
    n->last[t] = n->dry ? -1 : n->pinned >> d & 1 ? nat_find(n, nat_kind[t], o->d) : d;
}
/* The kind of 16-bit floats, as many as n bytes, that is held of what lies at addr; 0 if there is none. */
static int nat_held_half(const FgNat *n, const char *addr, int64_t bytes) {
    for (int kind = bytes == 2 ? NAT_BF16 : NAT_BF16V; bytes <= 32 && kind <= (bytes == 2 ? NAT_F16 : NAT_F16V); kind++) if (nat_find(n, kind, addr) >= 0) return kind;
    return 0;
}
#endif
#endif
