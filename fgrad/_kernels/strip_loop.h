/* The code of a strip around its steps, and what is kept of it. Part of strip_machine.h. */
#ifndef FG_STRIP_LOOP_H
#define FG_STRIP_LOOP_H

/* How many values lie in registers at a time, at most. */
static int sm_most_live(const SmProgram *m, int masks, int memory) {
    int most = 0;
    for (int k = 0; k < m->n_steps; k++) {
        int live = 0;
        for (int v = 0; v < m->n_values; v++) {
            const SmValue *x = &m->values[v];
            live += (SM_MASKS ? x->mask : 0) == masks && (x->from == SM_MADE || (memory && x->from == SM_MEMORY && x->reads > 1)) && x->first <= k && x->last >= k;
        }
        most = live > most ? live : most;
    }
    return most;
}
/* How many steps in a row wait for each other, at most. */
static int sm_depth(const SmProgram *m) {
    int16_t depth[SM_VALUES] = {0};
    int most = 0;
    for (int k = 0; k < m->n_steps; k++) {
        const SmStep *s = &m->steps[k];
        int d = 0;
        for (int j = 0; j < 3; j++) if (s->s[j] >= 0 && depth[s->s[j]] > d) d = depth[s->s[j]];
        if (s->d >= 0) depth[s->d] = (int16_t)(d + 1);
        if (d + 1 > most) most = d + 1;
    }
    return most;
}
/* The entries of tiles that are used first have their addresses in registers. */
static void sm_find_bases(SmCode *c) {
    const SmProgram *m = c->m;
    for (int k = 0; k < m->n_steps; k++) {
        const SmStep *s = &m->steps[k];
        for (int j = 0; j < 4; j++) {
            int32_t entry = j == 3 ? (s->what >= SM_GET_BOOL ? s->entry : -1) : s->s[j] >= 0 && m->values[s->s[j]].from == SM_MEMORY ? m->values[s->s[j]].entry : -1;
            int b = 0;
            while (b < c->n_bases && c->base[b] != entry) b++;
            if (entry >= 0 && b == c->n_bases && b < c->most_bases) c->base[c->n_bases++] = entry;
        }
    }
}
/* Numbers, in all lanes of a register each, or on the stack. */
static void sm_load_numbers(SmCode *c, int room) {
    SmProgram *m = c->m;
    FgX86 *x = &c->x;
    const int wide = sm_wide(c);
    for (;;) {
        int best = -1;
        for (int v = 0; v < m->n_values; v++) {
            if (!sm_constant(c, v) || m->values[v].first < 0 || c->reg[v][0] >= 0 || c->slot[v][0] >= 0) continue;
            if (best < 0 || m->values[v].reads > m->values[best].reads) best = v;
        }
        if (best < 0) return;
        const SmValue *n = &m->values[best];
        const int pins = room > 0, reg = pins ? --c->pinned : 0;
        room--;
        if (n->from == SM_ONE) {
            x86_op_at(x, 1, X86_MOV, X86_AX, (FgX86At){SM_ADDRESSES, -1, n->entry * 8});
            sm_v_at(c, X86_FORM(2, 1, SM_MASKS && wide, 2, wide ? 0x59 : 0x58), reg, 0, (FgX86At){X86_AX, -1, 0});
        } else if (n->bits) {
            x86_set(x, X86_AX, wide ? n->bits : (int64_t)(uint32_t)n->bits);
            sm_spread(c, reg, X86_AX);
        } else sm_v(c, X86_FORM(1, 1, 0, 2, 0xef), reg, reg, reg);
        if (pins) sm_hold(c, best, 0, reg);
        else {
            c->slot[best][0] = (int16_t)c->n_slots++;
            sm_store(c, 0, sm_stack(c->slot[best][0]));
        }
    }
}

/* Fetch what the turns will read of the inputs, which come first in the table, where they lie. */
static void sm_fetch(SmCode *c) {
    const SmProgram *m = c->m;
    int32_t fetched[FG_NEAR_INPUTS];
    int n = 0;
    for (int k = 0; k < m->n_values + m->n_steps && n < FG_NEAR_INPUTS; k++) {
        const SmValue *v = &m->values[k];
        const SmStep *s = &m->steps[k - m->n_values];
        const int step = k >= m->n_values, get = step && (s->what == SM_GET_BOOL || s->what == SM_GET_NARROW || s->what == SM_GET_HALF);
        const int32_t e = get ? s->entry : !step && v->from == SM_MEMORY ? v->entry : -1;
        const int bytes = !get ? m->lane : s->what == SM_GET_HALF ? 2 : s->what == SM_GET_BOOL ? 1 : (int)fg_itemsize(s->type);
        int j = 0;
        while (j < n && fetched[j] != e) j++;
        if (e < 0 || e >= c->near || j < n) continue;
        fetched[n++] = e;
        for (int u = 0; u < c->turns; u += m->lane / bytes * (64 / FG_VEC)) {
            FgX86At at = sm_place(c, e, u, bytes);
            at.disp += FG_NEAR;
            x86_op_at(&c->x, 0, X86_FETCH, 1, at);
        }
    }
}
/* The steps for so many vectors, which begin with nothing in registers but numbers. */
static void sm_body(SmCode *c, int bytes, int halves) {
    const SmProgram *m = c->m;
    FgX86 *x = &c->x;
    for (int r = 0; r < c->pinned; r++) if (c->holds[r] != SM_PARTIAL) c->holds[r] = -1;
    for (int v = 0; v < m->n_values; v++)
        for (int u = 0; u < SM_TURNS; u++) {
            if (c->reg[v][u] >= 0 && (!sm_constant(c, v) || c->reg[v][u] < c->pinned)) c->reg[v][u] = -1;
            if (!sm_constant(c, v)) c->slot[v][u] = -1;
        }
    if (bytes) { x86_op(x, 1, X86_MOV, SM_AT_BYTES, SM_AT); x86_shift(x, 1, 5, SM_AT_BYTES, sm_wide(c) ? 3 : 2); }
    if (halves) { x86_op(x, 1, X86_MOV, SM_AT_HALVES, SM_AT); x86_shift(x, 1, 5, SM_AT_HALVES, 1); }
    if (c->near && !c->part) sm_fetch(c);
    int fold = 0;
    for (c->step = 0; c->step < m->n_steps && !c->failed && !x->failed; c->step++) {
        sm_code_step(c, &m->steps[c->step], fold);
        fold += m->steps[c->step].what == SM_FOLD;
    }
}
static void sm_end(SmCode *c, const uint8_t *saved, uint8_t *frame) {
    FgX86 *x = &c->x;
    const int32_t size = c->n_slots * FG_VEC + 64;
    if (!SM_MASKS) x86_clear_upper(x);
    x86_op_at(x, 1, X86_LEA, X86_SP, (FgX86At){X86_BP, -1, -40});
    for (int i = 4; i >= 0; i--) x86_pop(x, saved[i]);
    x86_pop(x, X86_BP);
    x86_1(x, 0xc3);
    if (!x->failed) memcpy(frame, &size, 4);
}
/* Entries of the table of pointers that move from row to row, those of numbers only where they do, but for those that registers hold. */
static void sm_move_on(SmCode *c, int moves) {
    const SmProgram *m = c->m;
    FgX86 *x = &c->x;
    int32_t moved[SM_VALUES + SM_STEPS];
    int n = 0;
    for (int k = 0; k < m->n_values + m->n_steps; k++) {
        const SmStep *s = &m->steps[k < m->n_values ? 0 : k - m->n_values];
        const int32_t e = k >= m->n_values ? (s->what >= SM_GET_BOOL ? s->entry : -1) : m->values[k].from == SM_MEMORY || (moves && m->values[k].from == SM_ONE) ? m->values[k].entry : -1;
        int j = 0, b = 0;
        while (j < n && moved[j] != e) j++;
        while (b < c->n_bases && c->base[b] != e) b++;
        if (e < 0 || j < n) continue;
        moved[n++] = e;
        const FgX86At step = {SM_ADDRESSES, -1, (FG_ROWS_STEPS + e) * 8};
        if (b < c->n_bases) { x86_op_at(x, 1, X86_ADD, sm_bases[b], step); continue; }
        x86_op_at(x, 1, X86_MOV, X86_AX, step);
        x86_op_at(x, 1, 0x01, X86_AX, (FgX86At){SM_ADDRESSES, -1, e * 8});
    }
}
/* Rows of `len` elements, as many as `at` says: pointers move on by what the table has for each. All vectors of a row but those of a loop over it are
 * written out, so that rows cost no more than their elements do. */
static void sm_rows(SmCode *c, int64_t len, int bytes, int halves, int room, int moves, int apart) {
    FgX86 *x = &c->x;
    const int64_t per = FG_VEC / c->m->lane, vectors = len / per, rest = len % per;
    const FgX86At left = {SM_ADDRESSES, -1, FG_ROWS_LEFT * 8};
    c->turns = c->turns > vectors && vectors ? (int)vectors : c->turns;
    const int64_t groups = vectors / c->turns, more = vectors % c->turns;
    x86_op_at(x, 1, X86_STORE, SM_AT, left);
    /* Without masks the last vector is a whole one that begins before what is left, whose first lanes go nowhere; not where it would wait for what has
     * just been written there. */
    const int64_t back = !SM_MASKS && apart && rest && vectors && !bytes && !halves && !c->m->folds ? FG_VEC - rest * c->m->lane : 0;
    if (SM_MASKS || (rest && !back)) sm_part_of(c, (int)rest);
    if (!moves) sm_load_numbers(c, room);
    while ((x->at - x->begin) % 32) x86_1(x, 0x90);
    const int64_t row = x->at - x->begin;
    if (moves) sm_load_numbers(c, room);
    x86_set(x, SM_AT, 0);
    if (groups) {
        const int64_t top = x->at - x->begin;
        sm_body(c, bytes, halves);
        if (groups > 1) {
            x86_number(x, 1, 0, SM_AT, c->turns * FG_VEC);
            x86_number(x, 1, 7, SM_AT, (int32_t)(groups * c->turns * FG_VEC));
            x86_lead(x, x86_jump(x, X86_L), top);
        } else c->vector = c->turns;
    }
    if (more) {
        c->turns = (int)more;
        sm_body(c, bytes, halves);
        c->vector += (int)more;
    }
    if (rest) {
        c->turns = c->part = 1;
        c->words = (int)rest * c->m->lane / 4;
        c->back = (int)back;
        sm_body(c, bytes, halves);
    }
    sm_move_on(c, moves);
    x86_op_at(x, 1, 0x83, 5, left); x86_1(x, 1);            /* sub, 1 */
    x86_lead(x, x86_jump(x, X86_NE), row);
}
/* What no turn of the loop has done: vectors one by one. With AVX2 whole ones come first, whose stores need no mask. */
static void sm_last(SmCode *c, int bytes, int halves) {
    FgX86 *x = &c->x;
    int64_t top, done = -1;
    if (!SM_MASKS && c->turns > 1) {
        x86_op_at(x, 1, X86_LEA, X86_AX, (FgX86At){SM_AT, -1, FG_VEC});
        x86_op(x, 1, X86_CMP, X86_AX, SM_END_AT);
        const int64_t few = x86_jump(x, X86_G);
        c->turns = 1;
        top = x->at - x->begin;
        sm_body(c, bytes, halves);
        x86_number(x, 1, 0, SM_AT, FG_VEC);
        x86_op_at(x, 1, X86_LEA, X86_AX, (FgX86At){SM_AT, -1, FG_VEC});
        x86_op(x, 1, X86_CMP, X86_AX, SM_END_AT);
        x86_lead(x, x86_jump(x, X86_LE), top);
        x86_land(x, few);
        x86_op(x, 1, X86_CMP, SM_AT, SM_END_AT);
        done = x86_jump(x, X86_GE);
    }
    c->turns = c->part = 1;
    top = x->at - x->begin;             /* vectors of which mask 7 has what there is */
    sm_part_here(c);
    sm_body(c, bytes, halves);
    x86_number(x, 1, 0, SM_AT, FG_VEC);
    x86_op(x, 1, X86_CMP, SM_AT, SM_END_AT);
    x86_lead(x, x86_jump(x, X86_L), top);
    if (done >= 0) x86_land(x, done);
}
/* AVX2, of few registers: most vectors at once that fit, where need be without what memory has, which instructions take from there. Where a chain takes
 * long, more of them, and two although values wait on the stack. */
enum { SM_TURNS_USUAL = 4, SM_TURNS_DEEP = 6, SM_TURNS_WAIT = 2 };
static void sm_choose_turns(SmCode *c, int registers, int live, int numbers) {
    static const int turns[] = {SM_TURNS_DEEP, SM_TURNS_USUAL, 3, 2};
    const SmProgram *m = c->m;
    const int made = sm_most_live(m, 0, 0), folds = 3 * m->folds, deep = !m->folds && sm_depth(m) >= SM_DEEP;
    for (int k = !deep; k < 4; k++) {
        c->turns = turns[k];
        if (m->folds && 8 % c->turns) continue;
        if (c->turns * live + folds + numbers <= registers) return;
        c->lean = c->turns * (made + 1) + folds <= registers || (deep && c->turns <= SM_TURNS_WAIT);
        if (c->lean) return;
    }
    c->turns = 1;
}
static int sm_code(SmCode *c, int64_t len, int moves, int apart) {
    static const uint8_t saved[] = {X86_BX, X86_12, X86_13, X86_14, X86_15};
    SmProgram *m = c->m;
    FgX86 *x = &c->x;
    int numbers = 0, bytes = 0, halves = 0;
    const int live = sm_most_live(m, 0, 1), masks = sm_most_live(m, 1, 1), registers = SM_REGISTERS - SM_FIRST - 1;
    const int waits = !m->folds && sm_depth(m) >= SM_DEEP;              /* two vectors that do not fit are faster than one whose chain takes so long */
    memset(c->reg, -1, sizeof c->reg);
    memset(c->slot, -1, sizeof c->slot);
    for (int r = 0; r < 32; r++) c->holds[r] = -1;
    for (int k = 0; k < 8; k++) c->masks[k] = -1;
    c->pinned = SM_REGISTERS;
    c->n_slots = SM_SLOTS;
    for (int v = 0; v < m->n_values; v++) numbers += sm_constant(c, v) && m->values[v].first >= 0;
    for (int k = 0; k < m->n_steps; k++) {
        const SmStep *s = &m->steps[k];
        const int narrow = s->what == SM_GET_NARROW ? (int)fg_itemsize(s->type) : s->what == SM_GET_HALF || s->what == SM_PUT_HALF ? 2 : 0;
        bytes |= s->what == SM_GET_BOOL || s->what == SM_PUT_BOOL || s->what == SM_BOX || narrow == 1;
        halves |= narrow == 2;
        if (narrow && sm_wide(c)) return 0;
    }
    if (m->folds > SM_FOLDS) return 0;
    c->most_bases = SM_MASKS || !(bytes || halves) ? SM_BASES : SM_BASES - 2;       /* the others copy narrow lanes */
    if (!SM_MASKS) sm_choose_turns(c, registers, live, numbers < SM_NUMBERS_HELD ? numbers : SM_NUMBERS_HELD);
    else for (c->turns = m->n_steps > 64 ? 2 : SM_TURNS; c->turns > 1; c->turns /= 2)
        if ((c->turns * live + 3 * m->folds + (numbers < SM_NUMBERS_HELD ? numbers : SM_NUMBERS_HELD) <= registers || (c->turns == 2 && waits)) && c->turns * masks <= SM_PART - SM_FIRST_MASK) break;
    sm_find_bases(c);
    x86_4(x, 0xfa1e0ff3);               /* endbr64 */
    x86_push(x, X86_BP);
    x86_op(x, 1, X86_MOV, X86_BP, X86_SP);
    for (int i = 0; i < 5; i++) x86_push(x, saved[i]);
    x86_number(x, 1, 5, X86_SP, 0);
    uint8_t *frame = x->at - 4;
    x86_number(x, 1, 4, X86_SP, -64);
    for (int b = 0; b < c->n_bases; b++) x86_op_at(x, 1, X86_MOV, sm_bases[b], (FgX86At){SM_ADDRESSES, -1, c->base[b] * 8});
    if (len) {
        sm_rows(c, len, bytes, halves, registers - c->turns * live, moves, apart);
        sm_end(c, saved, frame);
        return !m->folds && !c->failed && !x->failed && c->n_slots <= 256;
    }
    sm_load_numbers(c, registers - c->turns * live - 3 * m->folds);
    if (m->folds) {                     /* whole strips, which rows begin with */
        memset(c->partial, -1, sizeof c->partial);
        const int64_t strip = x->at - x->begin;
        for (c->vector = 0; c->vector < 8; c->vector += c->turns) sm_body(c, bytes, halves);
        x86_number(x, 1, 0, SM_AT, FG_STRIP);
        x86_op(x, 1, X86_CMP, SM_AT, SM_END_AT);
        x86_lead(x, x86_jump(x, X86_L), strip);
        sm_end(c, saved, frame);
        return !c->failed && !x->failed && c->n_slots <= 256;
    }
    x86_op_at(x, 1, X86_LEA, X86_AX, (FgX86At){SM_AT, -1, c->turns * FG_VEC});
    x86_op(x, 1, X86_CMP, X86_AX, SM_END_AT);
    const int64_t few = x86_jump(x, X86_G);
    while ((x->at - x->begin) % 32) x86_1(x, 0x90);
    int64_t top = x->at - x->begin;
    sm_body(c, bytes, halves);
    x86_number(x, 1, 0, SM_AT, c->turns * FG_VEC);
    x86_op_at(x, 1, X86_LEA, X86_AX, (FgX86At){SM_AT, -1, c->turns * FG_VEC});
    x86_op(x, 1, X86_CMP, X86_AX, SM_END_AT);
    x86_lead(x, x86_jump(x, X86_LE), top);
    x86_land(x, few);
    x86_op(x, 1, X86_CMP, SM_AT, SM_END_AT);
    const int64_t done = x86_jump(x, X86_GE);
    sm_last(c, bytes, halves);
    x86_land(x, done);
    sm_end(c, saved, frame);
    return !c->failed && !x->failed && c->n_slots <= 256;
}

/* ---- what is kept */

#ifdef __AVX512F__
enum { SM_QUOTIENTS = 0 };
#else
enum { SM_QUOTIENTS = 1 };
#endif
enum { SM_CODES = 4096 };               /* codes at most, a page each */
typedef struct { uint64_t hash; int n; FgStage *stages; FgStripCode code; } SmKept;
static SmKept sm_kept[2 * SM_CODES];
static int sm_n_kept;
static pthread_mutex_t sm_lock = PTHREAD_MUTEX_INITIALIZER;

/* How many strips' stages have been looked at, and how many of them have code. */
static void fg_strip_count(int *seen, int *made) {
    *seen = sm_n_kept;
    *made = 0;
    for (int k = 0; k < 2 * SM_CODES; k++) *made += sm_kept[k].code != NULL;
}
/* What a strip's code is made with; one thread at a time is at it. */
static SmProgram sm_program;
static SmCode sm_coding;
static uint8_t sm_room[SM_ROOM];
static FgStripCode sm_make(const FgVmPlan *p, const FgVmStrip *s, int first, int64_t len, int moves, int apart, int near) {
    size_t bytes;
    memset(&sm_program, 0, sizeof sm_program);
    if (!sm_read(&sm_program, p, s, first, s->stage_end - s->stage)) return NULL;
    memset(&sm_coding, 0, sizeof sm_coding);
    sm_coding.m = &sm_program;
    sm_coding.near = near;
    sm_coding.x.begin = sm_coding.x.at = sm_room;
    sm_coding.x.end = sm_room + SM_ROOM;
    return sm_code(&sm_coding, len, moves, apart) ? (FgStripCode)fg_code_keep(sm_room, (size_t)(sm_coding.x.at - sm_room), &bytes) : NULL;
}
/* The machine code of a strip, of its stages for what is no whole strip, or of rows; NULL if it has none. 0 if that can't be told: another thread is at
 * work on some, or there is no memory. */
static int fg_strip_code(const FgVmPlan *p, const FgVmStrip *s, int which, FgStripCode *code) {
    const int n = s->stage_end - s->stage, first = which == FG_CODE_SOME ? s->some : s->stage;
    const int64_t len = which >= FG_CODE_ROWS ? p->shape[p->ndim - 1] : 0;
    int near = 0, moves = 0;                      /* near: it fetches by itself; moves: a row has a number of its own */
    for (int i = 0; i < p->n_in && len; i++) moves |= p->in[i].access == FG_ACC_ROW;
    for (int i = 0; i < p->n_parts && which == FG_CODE_WHOLE && p->nears; i++) {
        const FgVmPart *part = &p->parts[i];
        if (part->op <= s->op && s->op < part->op_end && fg_vm_is_alone(p, part)) near = p->n_in;
    }
    uint64_t hash = 1469598103934665603u;
    if (pthread_mutex_trylock(&sm_lock)) return 0;
    FgStage *key = (FgStage *)calloc(n + 1, sizeof(FgStage));
    if (!key) { pthread_mutex_unlock(&sm_lock); return 0; }
    if (!sm_n_kept) { sm_fill_table(); }
    for (int k = 0; k < n; k++) {       /* without what lies between the fields */
        const FgStage *x = &p->stages[first + k];
        key[k].fn = x->fn; key[k].a = x->a; key[k].b = x->b; key[k].c = x->c; key[k].d = x->d; key[k].e = x->e; key[k].f = x->f;
        key[k].move_a = x->move_a; key[k].move_b = x->move_b; key[k].move_c = x->move_c;
        if (SM_QUOTIENTS && x->fn == fg_stages[FG_I32][FG_OP_div][FG_FORM_KNOWN]) key[k].b = (int32_t)fg_vm_const_value(p, x->a);       /* code has its inverse */
    }
    key[n].a = p->n_regs + p->n_boxes;
    key[n].b = s->lane;
    key[n].c = (int32_t)len;
    key[n].d = moves;
    key[n].e = near;
    key[n].f = which == FG_CODE_ROWS_APART;
    for (size_t i = 0; i < (n + 1) * sizeof(FgStage); i += 8) {
        uint64_t w;
        memcpy(&w, (const char *)key + i, 8);
        hash = (hash ^ w) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    uint64_t at = hash % (2 * SM_CODES);
    SmKept *x = &sm_kept[at];
    while (x->stages && !(x->hash == hash && x->n == n && !memcmp(x->stages, key, (n + 1) * sizeof(FgStage)))) x = &sm_kept[at = (at + 1) % (2 * SM_CODES)];
    if (!x->stages && sm_n_kept < SM_CODES) {
        *x = (SmKept){hash, n, key, sm_make(p, s, first, len, moves, which == FG_CODE_ROWS_APART, near)};
        sm_n_kept++;
        key = NULL;
    }
    *code = x->code;
    pthread_mutex_unlock(&sm_lock);
    free(key);
    return 1;
}
#endif
