/* Arrays side by side as the columns of one, or as short pieces of its rows. */
#ifndef FG_INTERLEAVE_H
#define FG_INTERLEAVE_H
#include "movement.h"

#if defined(__AVX2__) && !defined(__AVX512F__)
#define FG_PIECES_BY_32 1                /* 64 bytes are two vectors: of two pieces each is as many vectors as it has, up to four */
#else
#define FG_PIECES_BY_32 0
#endif
enum { FG_PIECES_MOST = 16, FG_COLUMNS_BLOCK = 128, FG_PIECE_BYTES = 64 };

/* Of each array: where its first row begins, the bytes from row to row and of a row, and where in the rows of the result it goes. */
typedef struct {
    const char *src[FG_PIECES_MOST];
    int64_t step[FG_PIECES_MOST], width[FG_PIECES_MOST], at[FG_PIECES_MOST];
    char *dst;
    int64_t rows, row;                  /* of the result: how many, and bytes of one */
    int32_t n, item, columns;           /* columns: every piece is one item */
} FgSideJob;

/* True if the n plans copy short rows of theirs to pieces of the same rows, in turn: then the job is complete but for data pointers. */
static int fg_side_of(const FgCopyPlan *plans, int n, FgSideJob *job) {
    int64_t at = 0;
    int repeats = 0;                    /* columns of one number, as ones beside coordinates are */
    const int64_t longest = FG_PIECES_BY_32 && n == 2 ? 2 * FG_PIECE_BYTES : FG_PIECE_BYTES;
    if (n < 2 || n > FG_PIECES_MOST || plans->item > 8) return 0;
    job->columns = 1;
    job->rows = 0;
    for (int k = 0; k < n; k++) {
        const FgCopyPlan *p = &plans[k];
        int column = p->shape[0] == 1;               /* of one item a row, or pieces of several */
        if (p->units == 0 || p->nd != 2 || (!column && p->kind != FG_COPY_ROWS)) return 0;
        int64_t rows = p->shape[column], width = column ? p->item : p->shape[1] * p->item, row = p->ds[column];
        if (k == 0) { job->rows = rows; job->row = row; }
        if (rows != job->rows || row != job->row || p->doff != at || width > longest || (p->ss[column] < width && (!column || p->ss[column]))) return 0;
        repeats |= p->ss[column] == 0;
        job->step[k] = p->ss[column];
        job->width[k] = width;
        job->at[k] = at;
        job->columns &= column;
        at += width;
    }
    job->n = n;
    job->item = plans->item;
    return job->rows > 1 && at == job->row && (job->columns || !repeats);
}

/* Items `step` bytes apart, side by side. */
static void fg_column(char *d, const char *s, int64_t item, int64_t step, int64_t n) {
    if (step == item) { fg_copy_bytes(d, s, n * item); return; }
    if (step && step % item == 0 && fg_every(d, s, item, step / item, n)) return;
    #define FG_COLUMN_OF(T) for (int64_t i = 0; i < n; i++) ((T *)d)[i] = *(const T *)(s + i * step);
    switch (item) {
        case 1: FG_COLUMN_OF(fg_item1) break;
        case 2: FG_COLUMN_OF(fg_item2) break;
        case 4: FG_COLUMN_OF(fg_item4) break;
        default: FG_COLUMN_OF(fg_item8) break;
    }
    #undef FG_COLUMN_OF
}

/* Rows [begin, end) of columns: a block of each comes to the first cache, where they are turned. */
static void fg_interleave(const FgSideJob *job, int64_t begin, int64_t end) {
    const int64_t item = job->item, n = job->n;
    char block[FG_PIECES_MOST * FG_COLUMNS_BLOCK * 8] __attribute__((aligned(64)));
    for (int64_t r = begin; r < end; r += FG_COLUMNS_BLOCK) {
        int64_t m = fg_min64(FG_COLUMNS_BLOCK, end - r);
        char *dst = job->dst + r * n * item;
        for (int64_t k = 0; k < n; k++) fg_column(block + k * FG_COLUMNS_BLOCK * item, job->src[k] + r * job->step[k], item, job->step[k], m);
        switch (item) {
            case 1: fg_rows_1(dst, block, FG_COLUMNS_BLOCK, m, n); break;
            case 2: fg_rows_2(dst, block, FG_COLUMNS_BLOCK, m, n); break;
            case 4: fg_rows_4(dst, block, FG_COLUMNS_BLOCK, m, n); break;
            default: fg_rows_8(dst, block, FG_COLUMNS_BLOCK, m, n); break;
        }
    }
}

/* Rows [begin, end) of n pieces, the first copied as so many bytes, the others as `bytes`, of which those behind a piece's end are overwritten by what follows; the last rows,
 * where that would pass the end of the range or of an array, are copied as they are. */
static inline __attribute__((always_inline)) void fg_pieces(const FgSideJob *job, int64_t begin, int64_t end, int n, int64_t first, int64_t bytes) {
    int64_t r = begin, safe = end - ((first > bytes ? first : bytes) + job->row - 1) / job->row;
    char *dst = job->dst + begin * job->row;
    const char *src[FG_PIECES_MOST];                       /* copies: stores to dst might change the job, for all the compiler knows */
    int64_t step[FG_PIECES_MOST], at[FG_PIECES_MOST], row = job->row;
    for (int k = 0; k < n; k++) {
        int64_t behind = (k ? bytes : first) - job->width[k], rows = job->rows - (behind > 0 ? (behind + job->step[k] - 1) / job->step[k] : 0);
        safe = fg_min64(safe, rows);
        step[k] = job->step[k];
        at[k] = job->at[k];
        src[k] = job->src[k] + begin * step[k];
    }
    for (; r < safe; r++, dst += row)
        for (int k = 0; k < n; k++, src[k - 1] += step[k - 1]) memcpy(dst + at[k], src[k], k ? bytes : first);
    for (; r < end; r++, dst += row)
        for (int k = 0; k < n; k++, src[k - 1] += step[k - 1]) memcpy(dst + at[k], src[k], job->width[k]);
}

static void fg_side_by_side(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgSideJob *job = (const FgSideJob *)ctx;
    int64_t most = 0;
    (void)tid;
    if (job->columns) { fg_interleave(job, begin, end); return; }
    for (int k = 0; k < job->n; k++) most = fg_max64(most, job->width[k]);
    #define FG_PIECES(n) \
        if (most > 32) fg_pieces(job, begin, end, n, 64, 64); \
        else if (most > 16) fg_pieces(job, begin, end, n, 32, 32); \
        else if (most > 8) fg_pieces(job, begin, end, n, 16, 16); \
        else fg_pieces(job, begin, end, n, 8, 8); \
        return;
#if FG_PIECES_BY_32
    #define FG_TWO(first, bytes) case first / 8 + bytes / 32: fg_pieces(job, begin, end, 2, first, bytes); return;
    #define FG_TWO_AFTER(first) FG_TWO(first, 32) FG_TWO(first, 64) FG_TWO(first, 96) FG_TWO(first, 128)
    if (job->n == 2 && most > 32) switch ((job->width[0] + 31) / 32 * 4 + (job->width[1] + 31) / 32) {
        FG_TWO_AFTER(32) FG_TWO_AFTER(64) FG_TWO_AFTER(96) FG_TWO_AFTER(128)
    }
    #undef FG_TWO
    #undef FG_TWO_AFTER
#endif
    switch (job->n) {
        case 2: FG_PIECES(2)
        case 3: FG_PIECES(3)
        case 4: FG_PIECES(4)
        default: FG_PIECES(job->n)
    }
    #undef FG_PIECES
}
#endif
