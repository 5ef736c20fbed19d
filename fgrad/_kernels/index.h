/* Gather and scatter.  Both walk one geometry between a `big` tensor (operand, or the scatter's output) and a `small` one
 * (the gather's output, or the updates).  Batch axes run over index vectors, window axes over what one vector selects:
 *
 *     small[s0 + batch . bs + window . ws]   <->   big[b0 + batch . bb + index vector . kb + window . wb]
 *
 * Index vectors are turned into offsets chunk by chunk; then, for every position p of the outer window axes, a run of
 * `run` items is moved for each offset of the chunk.  All strides are in items. */
#ifndef FG_INDEX_H
#define FG_INDEX_H
#include "index_plan.h"
#include "movement.h"

#ifndef FG_SIMD
#define FG_SIMD _Pragma("omp simd")
#endif

/* One index component of n vectors `di` apart: add what it moves to their offsets, or mark those that miss. */
#define FG_COMPONENT(I) \
static inline void fg_component_##I(const I *restrict index, int64_t di, int64_t n, int64_t top, int64_t k, int drop, int64_t wrap, \
                                    int64_t lo, int64_t hi, int64_t *restrict big) { \
    for (int64_t i = 0; i < n; i++) { \
        int64_t given = index[i * di], v = given + ((given >> 63) & wrap), in = v < 0 ? 0 : v > top ? top : v, off = big[i]; \
        int miss = (drop & (in != v)) | (in < lo) | (in >= hi) | (off == FG_MISS); \
        big[i] = miss ? FG_MISS : off + in * k; \
    } \
}
FG_COMPONENT(int32_t)
FG_COMPONENT(int64_t)

/* A few vectors one by one, all components of each: what lies in front of a short axis would cost more in vector loops. */
enum { FG_SHORT = 32 };
#define FG_FEW(I) \
static inline void fg_few_##I(const FgIndexPlan *g, const I *indices, int64_t nk, int64_t di, int64_t first, int64_t db, int64_t n, \
                              int64_t *restrict big) { \
    int64_t lo = g->lo, hi = g->hi, only = g->only; \
    int drop = g->drop; \
    for (int64_t i = 0; i < n; i++) { \
        int64_t off = first + i * db; \
        int ok = 1; \
        for (int64_t c = 0; c < nk; c++) { \
            int64_t given = indices[i * di + c * g->ki], v = given + ((given >> 63) & g->wrap), top = g->top[c]; \
            int64_t in = v < 0 ? 0 : v > top ? top : v; \
            ok &= !drop | (in == v); \
            ok &= (c != only) | ((in >= lo) & (in < hi)); \
            off += in * g->kb[c]; \
        } \
        big[i] = ok ? off : FG_MISS; \
    } \
}
FG_FEW(int32_t)
FG_FEW(int64_t)

/* Offsets of n vectors of one component, one after the other, without those that miss or lie outside of [lo, hi): vectors compress
 * where there is an instruction for it or for an order of lanes, else every vector is written and the next one overwrites what is left out. */
static inline int fg_packed_one(int64_t v, int64_t top, int64_t k, int drop, int64_t lo, int64_t hi, int64_t b, int64_t s, int64_t *big, int64_t *small) {
    const int64_t in = v < 0 ? 0 : v > top ? top : v;
    *big = b + in * k;
    *small = s;
    return !(drop & (in != v)) & (in >= lo) & (in < hi);
}
#define FG_PACKED(I) \
static int64_t fg_packed_##I(const FgIndexPlan *g, const I *restrict index, int64_t n, int64_t lo, int64_t hi, int64_t bb, int64_t db, \
                             int64_t bs, int64_t ds, int64_t *restrict big, int64_t *restrict small) { \
    int64_t m = 0, i = 0, top = g->top[0], k = g->kb[0]; \
    int drop = g->drop; \
    FG_COMPRESS_##I \
    for (; i < n; i++) m += fg_packed_one(index[i], top, k, drop, lo, hi, bb + i * db, bs + i * ds, big + m, small + m); \
    return m; \
}
#ifdef __AVX512DQ__
#include <immintrin.h>
#define FG_COMPRESS_int32_t if (top < INT32_MAX) { \
    const int narrow = fg_abs64(k) < INT32_MAX && fg_abs64(ds) < INT32_MAX; \
    __m512i zero = _mm512_setzero_si512(), most = _mm512_set1_epi32((int)top), from = _mm512_set1_epi32((int)lo); \
    __m512i last = _mm512_set1_epi32((int)(fg_min64(hi, top + 1) - 1)), sixteen = _mm512_set1_epi32(16); \
    __m512i at = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); \
    __m512i k8 = _mm512_set1_epi64(k), db8 = _mm512_set1_epi64(db), ds8 = _mm512_set1_epi64(ds); \
    __m512i bb8 = _mm512_set1_epi64(bb), bs8 = _mm512_set1_epi64(bs); \
    for (; i + 16 <= n; i += 16, at = _mm512_add_epi32(at, sixteen)) { \
        __m512i v = _mm512_loadu_si512(index + i), in = _mm512_min_epi32(_mm512_max_epi32(v, zero), most); \
        __mmask16 keep = _mm512_cmpge_epi32_mask(in, from) & _mm512_cmple_epi32_mask(in, last); \
        if (drop) keep &= _mm512_cmpeq_epi32_mask(in, v); \
        __m512i p = in, q = at; \
        if (keep != 0xffff) { p = _mm512_maskz_compress_epi32(keep, in); q = _mm512_maskz_compress_epi32(keep, at); } \
        for (int h = 0; h < 2; h++) { \
            __m512i pw = _mm512_cvtepi32_epi64(h ? _mm512_extracti64x4_epi64(p, 1) : _mm512_castsi512_si256(p)); \
            __m512i qw = _mm512_cvtepi32_epi64(h ? _mm512_extracti64x4_epi64(q, 1) : _mm512_castsi512_si256(q)); \
            pw = narrow ? _mm512_mul_epi32(pw, k8) : _mm512_mullo_epi64(pw, k8); \
            if (db) pw = _mm512_add_epi64(pw, _mm512_mullo_epi64(qw, db8)); \
            qw = narrow ? _mm512_mul_epi32(qw, ds8) : _mm512_mullo_epi64(qw, ds8); \
            _mm512_storeu_si512(big + m + 8 * h, _mm512_add_epi64(bb8, pw)); \
            _mm512_storeu_si512(small + m + 8 * h, _mm512_add_epi64(bs8, qw)); \
        } \
        m += __builtin_popcount(keep); \
    } \
}
#elif defined(__AVX2__)
#include "lanes.h"
/* Eight vectors at a time, of which mostly none misses. */
#define FG_COMPRESS_int32_t if (top < INT32_MAX && lo <= top && fg_abs64(k) < INT32_MAX) { \
    const __m256i from = _mm256_set1_epi32((int)lo), last = _mm256_set1_epi32((int)(fg_min64(hi, top + 1) - 1)); \
    const __m256i most = _mm256_set1_epi32((int)top), all = _mm256_set1_epi32(drop ? 0 : -1); \
    const __m256i k4 = _mm256_set1_epi64x(k), db8 = _mm256_set1_epi64x(8 * db), ds8 = _mm256_set1_epi64x(8 * ds); \
    __m256i b0 = _mm256_setr_epi64x(bb, bb + db, bb + 2 * db, bb + 3 * db), b1 = _mm256_add_epi64(b0, _mm256_set1_epi64x(4 * db)); \
    __m256i s0 = _mm256_setr_epi64x(bs, bs + ds, bs + 2 * ds, bs + 3 * ds), s1 = _mm256_add_epi64(s0, _mm256_set1_epi64x(4 * ds)); \
    for (; i + 8 <= n; i += 8) { \
        const __m256i v = _mm256_loadu_si256((const __m256i *)(index + i)); \
        if (_mm256_testz_si256(_mm256_or_si256(_mm256_cmpgt_epi32(from, v), _mm256_cmpgt_epi32(v, last)), _mm256_set1_epi32(-1))) { \
            const __m256i p0 = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(v)), p1 = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(v, 1)); \
            _mm256_storeu_si256((__m256i *)(big + m), _mm256_add_epi64(b0, _mm256_mul_epi32(p0, k4))); \
            _mm256_storeu_si256((__m256i *)(big + m + 4), _mm256_add_epi64(b1, _mm256_mul_epi32(p1, k4))); \
            _mm256_storeu_si256((__m256i *)(small + m), s0); \
            _mm256_storeu_si256((__m256i *)(small + m + 4), s1); \
            m += 8; \
        } else { \
            const __m256i in = _mm256_min_epi32(_mm256_max_epi32(v, _mm256_setzero_si256()), most); \
            const __m256i out = _mm256_or_si256(_mm256_cmpgt_epi32(from, in), _mm256_cmpgt_epi32(in, last)); \
            const __m256i keep = _mm256_andnot_si256(out, _mm256_or_si256(all, _mm256_cmpeq_epi32(in, v))); \
            const int m8 = _mm256_movemask_ps(_mm256_castsi256_ps(keep)); \
            const __m256i p0 = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(in)), p1 = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(in, 1)); \
            const __m256i l0 = _mm256_cvtepu8_epi32(FG_LANES(fg_halves_of, m8 & 15)), l1 = _mm256_cvtepu8_epi32(FG_LANES(fg_halves_of, m8 >> 4)); \
            FG_STORE_256(big + m, _mm256_permutevar8x32_epi32(_mm256_add_epi64(b0, _mm256_mul_epi32(p0, k4)), l0)); \
            FG_STORE_256(small + m, _mm256_permutevar8x32_epi32(s0, l0)); \
            m += __builtin_popcount(m8 & 15); \
            FG_STORE_256(big + m, _mm256_permutevar8x32_epi32(_mm256_add_epi64(b1, _mm256_mul_epi32(p1, k4)), l1)); \
            FG_STORE_256(small + m, _mm256_permutevar8x32_epi32(s1, l1)); \
            m += __builtin_popcount(m8 >> 4); \
        } \
        b0 = _mm256_add_epi64(b0, db8); b1 = _mm256_add_epi64(b1, db8); s0 = _mm256_add_epi64(s0, ds8); s1 = _mm256_add_epi64(s1, ds8); \
    } \
}
#else
#define FG_COMPRESS_int32_t
#endif
#define FG_COMPRESS_int64_t
FG_PACKED(int32_t)
FG_PACKED(int64_t)

/* Offsets of vectors [first, first + n) into both tensors; returns how many it wrote.  With `pack` vectors that miss are
 * left out (no branch for the scatter loops to mispredict), else their offset is FG_MISS. */
#define FG_OFFSETS(I) \
static int64_t fg_offsets_##I(const FgIndexPlan *g, const I *indices, int64_t first, int64_t n, int pack, int64_t *big, int64_t *small) { \
    int64_t at[FG_MAXDIM], u = first, bi = g->i0, bb = g->b0, bs = g->s0, m = 0, last = g->nb - 1; \
    int64_t inner = last < 0 ? 1 : g->shape[last], di = last < 0 ? 0 : g->bi[last], db = last < 0 ? 0 : g->bb[last]; \
    int64_t dsm = last < 0 ? 0 : g->bs[last], left = n; \
    for (int64_t d = last; d >= 0; d--) { \
        at[d] = u % g->shape[d]; u /= g->shape[d]; \
        bi += at[d] * g->bi[d]; bb += at[d] * g->bb[d]; bs += at[d] * g->bs[d]; \
    } \
    while (left > 0) { \
        int64_t todo = fg_min64(left, inner - (last < 0 ? 0 : at[last])), *b = big + m, *s = small + m, k = 0; \
        if (pack && todo >= FG_SHORT && g->nk == 1 && di == 1) \
            k = fg_packed_##I(g, indices + bi, todo, g->only < 0 ? 0 : g->lo, g->only < 0 ? INT64_MAX : g->hi, bb, db, bs, dsm, b, s); \
        else { \
            for (int64_t i = 0; i < todo; i++) s[i] = bs + i * dsm; \
            if (todo < FG_SHORT && g->nk == 1) fg_few_##I(g, indices + bi, 1, di, bb, db, todo, b); \
            else if (todo < FG_SHORT) fg_few_##I(g, indices + bi, g->nk, di, bb, db, todo, b); \
            else for (int64_t i = 0; i < todo; i++) b[i] = bb + i * db; \
            for (int c = 0; todo >= FG_SHORT && c < g->nk; c++) { \
                const I *index = indices + bi + c * g->ki; \
                int64_t lo = c == g->only ? g->lo : 0, hi = c == g->only ? g->hi : INT64_MAX; \
                if (di == 1) fg_component_##I(index, 1, todo, g->top[c], g->kb[c], g->drop, g->wrap, lo, hi, b); \
                else fg_component_##I(index, di, todo, g->top[c], g->kb[c], g->drop, g->wrap, lo, hi, b); \
            } \
            if (pack) for (int64_t i = 0; i < todo; i++) { \
                int64_t off = b[i]; \
                b[k] = off; s[k] = s[i]; k += off != FG_MISS; \
            } \
        } \
        m += pack ? k : todo; \
        left -= todo; \
        bi += (todo - 1) * di; bb += (todo - 1) * db; bs += (todo - 1) * dsm; \
        if (last >= 0) at[last] += todo - 1; \
        for (int64_t d = last; d >= 0; d--) { \
            bi += g->bi[d]; bb += g->bb[d]; bs += g->bs[d]; \
            if (++at[d] < g->shape[d]) break; \
            bi -= at[d] * g->bi[d]; bb -= at[d] * g->bb[d]; bs -= at[d] * g->bs[d]; \
            at[d] = 0; \
        } \
    } \
    return m; \
}
FG_OFFSETS(int32_t)
FG_OFFSETS(int64_t)

static int64_t fg_index_offsets(const FgIndexPlan *g, const char *indices, int64_t first, int64_t n, int pack,
                                int64_t *big, int64_t *small) {
    if (g->wide) return fg_offsets_int64_t(g, (const int64_t *)indices, first, n, pack, big, small);
    return fg_offsets_int32_t(g, (const int32_t *)indices, first, n, pack, big, small);
}

static inline void fg_window_offset(const FgIndexPlan *g, int64_t p, int64_t *big, int64_t *small) {
    *big = *small = 0;
    for (int d = g->nw - 1; d >= 0; d--) {
        int64_t k = p % g->wshape[d]; p /= g->wshape[d];
        *big += k * g->wb[d]; *small += k * g->ws[d];
    }
}

/* Runs of a few bytes, each as two copies that overlap, their length a constant of the loop, or of some hundred in vectors: a call of
 * memcpy costs more than it copies. */
#define FG_GATHER_RUNS(T, COPY) { \
    for (int64_t i = 0; i < n; i++) { \
        char *restrict d = (char *)(small + so[i]); \
        const char *restrict s = (const char *)(big + bo[i]); \
        if (bo[i] == FG_MISS) for (int64_t j = 0; j < w; j++) ((T *)d)[j] = fill; \
        else { COPY } \
    } \
    return; \
}
#define FG_GATHER_SHORT(T, N) if (bytes >= N) FG_GATHER_RUNS(T, memcpy(d, s, N); memcpy(d + bytes - N, s + bytes - N, N);)
/* Rows of some hundred bytes of what a second cache of 512 KB does not hold are asked for in advance: too few lines lie side by side for the machine to. */
enum { FG_ROWS_AHEAD = 4, FG_ROWS_NEAR = 1 << 19 };
static int fg_rows_far(const FgIndexPlan *g, int64_t bytes) {
#if defined(__AVX2__) && !defined(__AVX512F__)
    return bytes > 256 && g->nk > 0 && g->top[0] * g->kb[0] * g->item > FG_ROWS_NEAR;
#else
    (void)g; (void)bytes;
    return 0;
#endif
}
#define FG_GATHER(T) \
static void fg_gather_##T(const FgIndexPlan *g, const T *restrict big, T *restrict small, const int64_t *bo, const int64_t *so, \
                            int64_t n) { \
    int64_t w = g->run, bytes = w * (int64_t)sizeof(T); \
    T fill = *(const T *)g->value; \
    if (w == 1) { \
        if (g->drop) for (int64_t i = 0; i < n; i++) small[so[i]] = bo[i] == FG_MISS ? fill : big[bo[i]]; \
        else for (int64_t i = 0; i < n; i++) small[so[i]] = big[bo[i]]; \
        return; \
    } \
    if (bytes > 1024) FG_GATHER_RUNS(T, fg_copy_bytes(d, s, bytes);) \
    if (fg_rows_far(g, bytes)) \
        FG_GATHER_RUNS(T, const char *next = (const char *)((uintptr_t)big + (uintptr_t)bo[i + FG_ROWS_AHEAD < n ? i + FG_ROWS_AHEAD : i] * sizeof(T)); \
                       int64_t k = 0; \
                       for (; k + 64 < bytes; k += 64) { __builtin_prefetch(next + k); memcpy(d + k, s + k, 64); } \
                       __builtin_prefetch(next + k); \
                       memcpy(d + bytes - 64, s + bytes - 64, 64);) \
    if (bytes >= 64) FG_GATHER_RUNS(T, for (int64_t k = 0; k + 64 < bytes; k += 64) memcpy(d + k, s + k, 64); \
                                    memcpy(d + bytes - 64, s + bytes - 64, 64);) \
    FG_GATHER_SHORT(T, 32) FG_GATHER_SHORT(T, 16) FG_GATHER_SHORT(T, 8) FG_GATHER_SHORT(T, 4) FG_GATHER_SHORT(T, 2) \
    FG_GATHER_SHORT(T, 1) \
}
FG_GATHER(fg_item1)
FG_GATHER(fg_item2)
FG_GATHER(fg_item4)
FG_GATHER(fg_item8)
FG_GATHER(fg_item16)

typedef struct { const FgIndexPlan *plan; const char *indices; const char *in; char *out; int64_t splits; int32_t split, axis; } FgIndexJob;

/* Units are (chunk, outer window position). */
static void fg_gather_units(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgIndexJob *job = (const FgIndexJob *)ctx;
    const FgIndexPlan *g = job->plan;
    int64_t bo[FG_CHUNK], so[FG_CHUNK], chunk = -1, n = 0, wb, ws;
    (void)tid;
    for (int64_t u = begin; u < end; u++) {
        if (u / g->p != chunk) {
            chunk = u / g->p;
            n = fg_min64(g->chunk, g->n - chunk * g->chunk);
            fg_index_offsets(g, job->indices, chunk * g->chunk, n, 0, bo, so);
        }
        fg_window_offset(g, u % g->p, &wb, &ws);
        const char *big = job->in + wb * g->item;
        char *small = job->out + ws * g->item;
        switch (g->item) {
            case 1: fg_gather_fg_item1(g, (const fg_item1 *)big, (fg_item1 *)small, bo, so, n); break;
            case 2: fg_gather_fg_item2(g, (const fg_item2 *)big, (fg_item2 *)small, bo, so, n); break;
            case 4: fg_gather_fg_item4(g, (const fg_item4 *)big, (fg_item4 *)small, bo, so, n); break;
            case 8: fg_gather_fg_item8(g, (const fg_item8 *)big, (fg_item8 *)small, bo, so, n); break;
            default: fg_gather_fg_item16(g, (const fg_item16 *)big, (fg_item16 *)small, bo, so, n); break;
        }
    }
}

/* Few large windows: each is a strided copy.  Units are (vector, block of the window). */
static void fg_gather_windows(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgIndexJob *job = (const FgIndexJob *)ctx;
    const FgIndexPlan *g = job->plan;
    for (int64_t u = begin; u < end; ) {
        int64_t per = g->copy.units, b = u / per, stop = fg_min64(end, (b + 1) * per), big, small;
        fg_index_offsets(g, job->indices, b, 1, 0, &big, &small);
        FgCopyJob copy = {&g->copy, job->in + big * g->item, job->out + small * g->item};
        if (big == FG_MISS) {
            copy.plan = &g->fill; copy.src = g->value;
            int64_t all = g->fill.units;                  /* the fill plan may be cut differently */
            fg_copy_units(&copy, (u - b * per) * all / per, (stop - b * per) * all / per, tid);
        } else fg_copy_units(&copy, u - b * per, stop - b * per, tid);
        u = stop;
    }
}

/* One chunk at one outer window position: big[...] = OP(old a, update b). */
typedef void (*FgScatter)(const FgIndexPlan *g, char *big, const char *small, const int64_t *bo, const int64_t *so, int64_t n);
/* Single items of updates `ds` apart, all or those named by `at`. */
typedef void (*FgScatterEach)(char *big, const char *small, int64_t ds, const int32_t *off, const int32_t *at, int64_t n);
typedef struct { FgScatter runs; FgScatterEach each; } FgScatterOps;

/* Whether items mostly go where the one before went, as in sums over sorted segments: then what is combined waits in a register, since a load
 * of what has just been stored takes twice an addition's time. Of indices in no order a branch on that would be mispredicted. */
static inline int fg_each_repeats(const int32_t *off, int64_t n) {
    int32_t changes = 0;
    _Pragma("omp simd reduction(+:changes)") for (int64_t i = 1; i < n; i++) changes += off[i] != off[i - 1];
    return 8 * changes <= n;
}
static inline int fg_runs_repeat(const int64_t *bo, int64_t n) {
    int64_t changes = 0;
    _Pragma("omp simd reduction(+:changes)") for (int64_t i = 1; i < n; i++) changes += bo[i] != bo[i - 1];
    return 8 * changes <= n;
}
#define FG_EACH_RUNS(T, ONE, AT) \
    for (int64_t i = 0; i < n;) { \
        const int32_t o = off[i]; \
        T *d = (T *)big + o, a = *d; \
        do { T b = s[(AT) * ds]; (void)a; a = ONE; } while (++i < n && off[i] == o); \
        *d = a; \
    }

/* Rows of w items that follow each other on both sides, as vectors of L, the last of which reaches back into the one before: it is read before
 * that is written. No vector is longer than a register, since compilers compare longer ones item by item, and of shorter ones a row has two.
 * Of rows that go where the one before went, vectors
 * wait in registers, as single items do. VECTOR: what a and b of the type V become. */
#ifdef __AVX512F__
enum { FG_ROWS_VEC = 64 };
#elif defined(__AVX2__)
enum { FG_ROWS_VEC = 32 };
#else
enum { FG_ROWS_VEC = 16 };
#endif
#define FG_SCATTER_ROWS(NAME, T, VECTOR, L) \
static void fg_rows##L##_##NAME(T *restrict big, const T *restrict small, int64_t w, const int64_t *restrict bo, const int64_t *restrict so, \
                                int64_t n) { \
    typedef T V __attribute__((vector_size((L) * sizeof(T)), aligned(1), may_alias)); \
    const int64_t all = (L) * sizeof(T) < FG_ROWS_VEC ? (L) : w / (L) * (L), rest = w - (L); \
    const int tail = w % (L) != 0; \
    if (fg_runs_repeat(bo, n)) { \
        for (int64_t i = 0, end; i < n; i = end) { \
            T *d = big + bo[i]; \
            V a, b, last = *(const V *)(d + rest); \
            for (end = i + 1; end < n && bo[end] == bo[i];) end++; \
            if (tail) for (int64_t q = i; q < end; q++) { a = last; b = *(const V *)(small + so[q] + rest); (void)a; last = VECTOR; } \
            for (int64_t c = 0; c < all; c += (L)) { \
                a = *(const V *)(d + c); \
                for (int64_t q = i; q < end; q++) { b = *(const V *)(small + so[q] + c); (void)a; a = VECTOR; } \
                *(V *)(d + c) = a; \
            } \
            if (tail) *(V *)(d + rest) = last; \
        } \
    } else if (!tail) for (int64_t i = 0; i < n; i++) { \
        T *d = big + bo[i]; const T *s = small + so[i]; \
        for (int64_t c = 0; c < all; c += (L)) { V a = *(const V *)(d + c), b = *(const V *)(s + c); (void)a; *(V *)(d + c) = VECTOR; } \
    } else for (int64_t i = 0; i < n; i++) { \
        T *d = big + bo[i]; const T *s = small + so[i]; \
        V a = *(const V *)(d + rest), b = *(const V *)(s + rest), last = VECTOR; \
        (void)a; \
        for (int64_t c = 0; c < all; c += (L)) { a = *(const V *)(d + c); b = *(const V *)(s + c); (void)a; *(V *)(d + c) = VECTOR; } \
        *(V *)(d + rest) = last; \
    } \
}
/* b where the mask m says so, else a; a loop over the items of a and b. */
#define FG_VECTOR_PICK(m) ({ __typeof__(a < b) take = (m); (V)(((__typeof__(take))b & take) | ((__typeof__(take))a & ~take)); })
#define FG_VECTOR_LOOP(T, EXPR) ({ \
    T x[sizeof(V) / sizeof(T)], y[sizeof(V) / sizeof(T)]; \
    V r; \
    memcpy(x, &a, sizeof x); memcpy(y, &b, sizeof y); \
    FG_SIMD for (size_t j = 0; j < sizeof x / sizeof(T); j++) { T a = x[j], b = y[j]; x[j] = EXPR; } \
    memcpy(&r, x, sizeof x); \
    r; })
#define FG_ROWS_CASE(NAME, T, L) \
    if ((L) * sizeof(T) <= FG_ROWS_VEC && w >= (L)) { fg_rows##L##_##NAME((T *)big, (const T *)small, w, bo, so, n); return 1; }
#define FG_SCATTER_DENSE(NAME, T, VECTOR) \
FG_SCATTER_ROWS(NAME, T, VECTOR, 2) FG_SCATTER_ROWS(NAME, T, VECTOR, 4) FG_SCATTER_ROWS(NAME, T, VECTOR, 8) \
FG_SCATTER_ROWS(NAME, T, VECTOR, 16) FG_SCATTER_ROWS(NAME, T, VECTOR, 32) FG_SCATTER_ROWS(NAME, T, VECTOR, 64) \
static int fg_dense_##NAME(char *big, const char *small, int64_t w, const int64_t *bo, const int64_t *so, int64_t n) { \
    FG_ROWS_CASE(NAME, T, 64) FG_ROWS_CASE(NAME, T, 32) FG_ROWS_CASE(NAME, T, 16) FG_ROWS_CASE(NAME, T, 8) FG_ROWS_CASE(NAME, T, 4) \
    FG_ROWS_CASE(NAME, T, 2) \
    return 0; \
}
/* Of 16 bits that are widened: a few of them are not worth vectors. */
#define FG_HALF_DENSE(NAME, T, VECTOR) \
FG_SCATTER_ROWS(NAME, T, VECTOR, 8) FG_SCATTER_ROWS(NAME, T, VECTOR, 16) FG_SCATTER_ROWS(NAME, T, VECTOR, 32) \
static int fg_dense_##NAME(char *big, const char *small, int64_t w, const int64_t *bo, const int64_t *so, int64_t n) { \
    FG_ROWS_CASE(NAME, T, 32) FG_ROWS_CASE(NAME, T, 16) FG_ROWS_CASE(NAME, T, 8) \
    return 0; \
}
#define FG_SCATTER_SPARSE(NAME) \
static int fg_dense_##NAME(char *big, const char *small, int64_t w, const int64_t *bo, const int64_t *so, int64_t n) { \
    (void)big; (void)small; (void)w; (void)bo; (void)so; (void)n; \
    return 0; \
}
#define FG_SCATTER(NAME, T, EXPR, ONE) \
static void fg_scatter_##NAME(const FgIndexPlan *g, char *big, const char *small, const int64_t *bo, const int64_t *so, int64_t n) { \
    int64_t w = g->run, db = g->run_b, ds = g->run_s; \
    if (w == 1) { \
        for (int64_t i = 0; i < n; i++) { T *d = (T *)big + bo[i], a = *d, b = ((const T *)small)[so[i]]; (void)a; *d = ONE; } \
        return; \
    } \
    if (db == 1 && ds == 1 && fg_dense_##NAME(big, small, w, bo, so, n)) return; \
    for (int64_t i = 0; i < n; i++) { \
        T *restrict d = (T *)big + bo[i]; const T *restrict s = (const T *)small + so[i]; \
        for (int64_t j = 0; j < w; j++) { T a = d[j * db], b = s[j * ds]; (void)a; d[j * db] = EXPR; } \
    } \
} \
static void fg_each_##NAME(char *big, const char *small, int64_t ds, const int32_t *off, const int32_t *at, int64_t n) { \
    const T *s = (const T *)small; \
    if (fg_each_repeats(off, n)) { if (at) FG_EACH_RUNS(T, ONE, at[i]) else FG_EACH_RUNS(T, ONE, i) } \
    else if (at) for (int64_t i = 0; i < n; i++) { T *d = (T *)big + off[i], a = *d, b = s[at[i] * ds]; (void)a; *d = ONE; } \
    else for (int64_t i = 0; i < n; i++) { T *d = (T *)big + off[i], a = *d, b = s[i * ds]; (void)a; *d = ONE; } \
}
#define FG_SCATTERS(T, U, ADD, MUL, MIN, MAX, LEAST, MOST) \
    FG_SCATTER(T##_1, U, ADD, ADD) FG_SCATTER(T##_2, U, MUL, MUL) FG_SCATTER(T##_3, U, MIN, LEAST) FG_SCATTER(T##_4, U, MAX, MOST)
#define FG_DENSE(T, U, ADD, MUL, MIN, MAX) \
    FG_SCATTER_DENSE(T##_1, U, ADD) FG_SCATTER_DENSE(T##_2, U, MUL) FG_SCATTER_DENSE(T##_3, U, MIN) FG_SCATTER_DENSE(T##_4, U, MAX)
/* b where `take`, else a, without a branch that random updates would mispredict. */
#define FG_PICK(T, I) \
static inline T fg_pick_##T(int take, T b, T a) { \
    return (T)(((I)b & (I)-(I)take) | ((I)a & (I)((I)take - 1))); \
}
FG_PICK(int8_t, uint8_t) FG_PICK(int16_t, uint16_t) FG_PICK(int32_t, uint32_t) FG_PICK(int64_t, uint64_t)
FG_PICK(uint8_t, uint8_t) FG_PICK(uint16_t, uint16_t) FG_PICK(uint32_t, uint32_t) FG_PICK(uint64_t, uint64_t)
/* The same of floats, which stay in vector registers: NaN where either is. */
#ifdef __SSE2__
#define FG_EXTREMUM(T, NAME, OP, x, y) FG_EXTREMUM_##NAME##_##T(x, y)
#define FG_EXTREMUM_least_float(x, y) __builtin_ia32_minps(x, y)        /* y where x is not less */
#define FG_EXTREMUM_most_float(x, y) __builtin_ia32_maxps(x, y)
#define FG_EXTREMUM_least_double(x, y) __builtin_ia32_minpd(x, y)
#define FG_EXTREMUM_most_double(x, y) __builtin_ia32_maxpd(x, y)
#else
#define FG_EXTREMUM(T, NAME, OP, x, y) (V)(((M)x & (M)(x OP y)) | ((M)y & ~(M)(x OP y)))
#endif
#define FG_PICK_FLOAT(T, I, NAME, OP) \
static inline T fg_##NAME##_##T(T b, T a) { \
    typedef T V __attribute__((vector_size(16))); typedef I M __attribute__((vector_size(16))); \
    V x = {b}, y = {a}, z = FG_EXTREMUM(T, NAME, OP, x, y); \
    M take = (M)(x != x); \
    V r = (V)(((M)x & take) | ((M)z & ~take)); \
    return r[0]; \
}
FG_PICK_FLOAT(float, int32_t, least, <) FG_PICK_FLOAT(float, int32_t, most, >)
FG_PICK_FLOAT(double, int64_t, least, <) FG_PICK_FLOAT(double, int64_t, most, >)

#define FG_SCATTERS_INT(T, U) \
    FG_DENSE(T, U, a + b, a * b, FG_VECTOR_PICK(b < a), FG_VECTOR_PICK(b > a)) \
    FG_SCATTERS(T, U, (U)(a + b), (U)(a * b), b < a ? b : a, b > a ? b : a, b < a ? b : a, b > a ? b : a)
/* The same of vectors: instructions for it where they are whole ones. */
#ifdef __AVX512F__
#define FG_VECTOR_EXTREMUM(NAME, P, X, OP) ({ \
    V r; \
    if (sizeof(V) == 64) { \
        X x, y; \
        memcpy(&x, &b, sizeof(V)); memcpy(&y, &a, sizeof(V)); \
        x = _mm512_mask_mov_##P(_mm512_##NAME##_##P(x, y), _mm512_cmp_##P##_mask(x, x, _CMP_UNORD_Q), x); \
        memcpy(&r, &x, sizeof(V)); \
    } else r = FG_VECTOR_PICK((b OP a) | (b != b)); \
    r; })
#else
#define FG_VECTOR_EXTREMUM(NAME, P, X, OP) FG_VECTOR_PICK((b OP a) | (b != b))
#endif
#define FG_SCATTERS_FLOAT(T, P, X) \
    FG_DENSE(T, T, a + b, a * b, FG_VECTOR_EXTREMUM(min, P, X, <), FG_VECTOR_EXTREMUM(max, P, X, >)) \
    FG_SCATTERS(T, T, a + b, a * b, (b < a) | (b != b) ? b : a, (b > a) | (b != b) ? b : a, fg_least_##T(b, a), fg_most_##T(b, a))
#define FG_HALVES(T, ADD, MUL, MIN, MAX) \
    FG_HALF_DENSE(T##_1, uint16_t, FG_VECTOR_LOOP(uint16_t, ADD)) FG_HALF_DENSE(T##_2, uint16_t, FG_VECTOR_LOOP(uint16_t, MUL)) \
    FG_HALF_DENSE(T##_3, uint16_t, FG_VECTOR_LOOP(uint16_t, MIN)) FG_HALF_DENSE(T##_4, uint16_t, FG_VECTOR_LOOP(uint16_t, MAX)) \
    FG_SCATTERS(T, uint16_t, ADD, MUL, MIN, MAX, MIN, MAX)
#define FG_SCATTERS_HALF(T, UP, DOWN) FG_HALVES(T, DOWN(UP(a) + UP(b)), DOWN(UP(a) * UP(b)), \
    fg_pick_uint16_t((UP(b) < UP(a)) | (UP(b) != UP(b)), b, a), fg_pick_uint16_t((UP(b) > UP(a)) | (UP(b) != UP(b)), b, a))
/* Complex products in vectors would round otherwise than one by one: some compilers fuse them though told not to. */
#define FG_SCATTERS_COMPLEX(T) FG_SCATTER_SPARSE(T##_1) FG_SCATTER_SPARSE(T##_2) FG_SCATTER_SPARSE(T##_3) FG_SCATTER_SPARSE(T##_4) \
    FG_SCATTERS_BY(T, fg_##T, ((fg_##T){a.re + b.re, a.im + b.im}), \
    ((fg_##T){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}), \
    (a.re == b.re ? a.im < b.im : a.re < b.re) ? a : b, (a.re == b.re ? a.im > b.im : a.re > b.re) ? a : b)
#define FG_SCATTERS_BY(T, U, ADD, MUL, MIN, MAX) FG_SCATTERS(T, U, ADD, MUL, MIN, MAX, MIN, MAX)
FG_SCATTER_DENSE(item1, uint8_t, b) FG_SCATTER(item1, fg_item1, b, b)
FG_SCATTER_DENSE(item2, uint16_t, b) FG_SCATTER(item2, fg_item2, b, b)
FG_SCATTER_DENSE(item4, uint32_t, b) FG_SCATTER(item4, fg_item4, b, b)
FG_SCATTER_DENSE(item8, uint64_t, b) FG_SCATTER(item8, fg_item8, b, b)
FG_SCATTER_SPARSE(item16) FG_SCATTER(item16, fg_item16, b, b)
FG_DENSE(bool, uint8_t, a | b, a & b, a & b, a | b)
FG_SCATTERS(bool, uint8_t, a | b, a & b, a & b, a | b, a & b, a | b)
FG_SCATTERS_INT(i8, int8_t)
FG_SCATTERS_INT(i16, int16_t)
FG_SCATTERS_INT(i32, int32_t)
FG_SCATTERS_INT(i64, int64_t)
FG_SCATTERS_INT(u8, uint8_t)
FG_SCATTERS_INT(u16, uint16_t)
FG_SCATTERS_INT(u32, uint32_t)
FG_SCATTERS_INT(u64, uint64_t)
FG_SCATTERS_HALF(f16, fg_f16_to_f32, fg_f32_to_f16)
FG_SCATTERS_HALF(bf16, fg_bf16_to_f32, fg_f32_to_bf16)
FG_SCATTERS_FLOAT(float, ps, __m512)
FG_SCATTERS_FLOAT(double, pd, __m512d)
FG_SCATTERS_COMPLEX(c64)
FG_SCATTERS_COMPLEX(c128)

#define FG_SCATTER_OPS(T) {fg_scatter_##T, fg_each_##T}
#define FG_SCATTER_ROW(T) {FG_SCATTER_OPS(T##_1), FG_SCATTER_OPS(T##_2), FG_SCATTER_OPS(T##_3), FG_SCATTER_OPS(T##_4)}
static const FgScatterOps fg_scatter_ops[FG_NDTYPES][4] = {
    FG_SCATTER_ROW(bool), FG_SCATTER_ROW(i8), FG_SCATTER_ROW(i16), FG_SCATTER_ROW(i32), FG_SCATTER_ROW(i64), FG_SCATTER_ROW(u8),
    FG_SCATTER_ROW(u16), FG_SCATTER_ROW(u32), FG_SCATTER_ROW(u64), FG_SCATTER_ROW(f16), FG_SCATTER_ROW(bf16), FG_SCATTER_ROW(float),
    FG_SCATTER_ROW(double), FG_SCATTER_ROW(c64), FG_SCATTER_ROW(c128)};
static const FgScatterOps fg_scatter_sets[5] = {
    FG_SCATTER_OPS(item1), FG_SCATTER_OPS(item2), FG_SCATTER_OPS(item4), FG_SCATTER_OPS(item8), FG_SCATTER_OPS(item16)};

static const FgScatterOps *fg_scatter_for(const FgIndexPlan *g) {
    return g->kind == FG_SET ? &fg_scatter_sets[__builtin_ctz((unsigned)g->item)] : &fg_scatter_ops[g->dtype][g->kind - 1];
}
#endif
