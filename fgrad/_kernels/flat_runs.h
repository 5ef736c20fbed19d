/* Bytes from all over as a vector, by AVX2: runs of bytes, each of which one load brings to its places; included by flat_emit.h. */
#ifndef FG_FLAT_RUNS_H
#define FG_FLAT_RUNS_H
/* Bytes, each at[i] away from `from`, to a whole vector as runs of bytes, each a load that has them in their places; 0 where those are many. d: NULL to ask only. */
static int fg_flat_pieces_to(FgFlat *f, char *d, const char *from, const int32_t *places, int64_t n, int64_t item) {
    enum { FEW = 4 };
    FgFlatRun runs[2 * FEW];
    int64_t count = 0, base = FG_FLAT_MEMORY, reach = 0;
    for (int64_t i = 0; i < n * item; i++) {
        const int upper = i >= 32, lane = (int)i % 32;
        const int64_t at = from + places[i / item] * item + i % item - f->memory;
        int64_t k = 0, of_half = 0;
        if (at < lane || at - lane + 64 > FG_FLAT_MEMORY) return 0;
        for (; k < count; k++) {
            FgFlatRun *run = &runs[k];
            if (run->upper != upper) continue;
            of_half++;
            if (run->same ? run->offset == at : run->offset == at - lane) break;
            if (run->same || run->offset + run->first != at) continue;
            run->same = 1;                              /* so far that one alone, unless others follow it */
            for (int j = 0; j < 32; j++) if (j != run->first && run->mask[j]) run->same = 0;
            if (!run->same) continue;
            run->offset = (int32_t)at;
            break;
        }
        if (k == count) {
            if (of_half == FEW) return 0;
            runs[count++] = (FgFlatRun){.offset = (int32_t)(at - lane), .first = lane, .upper = upper};
        }
        runs[k].mask[lane] = 255;
    }
    if (!d) return 1;
    char *room = fg_flat_room(f, count, sizeof(FgFlatRun));
    if (f->failed) return 1;
    for (int64_t k = 0; k < count; k++) if (runs[k].offset < base) base = runs[k].offset;
    for (int64_t k = 0; k < count; k++) if ((runs[k].offset -= (int32_t)base) + 32 > reach) reach = runs[k].offset + 32;
    memcpy(room, runs, count * sizeof(FgFlatRun));
    fg_flat_op(f, FLAT_bytes, d, f->memory + base, room, 0, count, 0)->g = (const char *)(intptr_t)reach;
    return 1;
}
#endif
