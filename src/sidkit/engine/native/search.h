/* The k best codewords of every row on a desk: screen, shortlist, settle. */

#define MAXIMA 32 /* running maxima kept per row: the k-th largest of them bounds the k-th best score from below */

typedef struct { /* a thread's own memory, for a block of rows */
    int64_t row_stride, byte_stride;
    float *rows;      /* (block, row_stride), zero beyond d */
    double *wide;     /* (d,) one row in float64 */
    int8_t *bytes;    /* (block, byte_stride): a row is about step * bytes */
    int32_t *correct; /* (block,) -128 * sum of bytes, which undoes the codebook's +128 */
    float *inverse;   /* (block,) 1 / step */
    float *bound;     /* (block,) 2 B of the screen, over step; or HARD, or ZERO */
    float *close;     /* (block,) 2 B of float32 scores */
    float *scores;    /* (block / TILE, panels, TILE, WIDE), over step */
    float *maxima;    /* (block, MAXIMA) */
    int32_t *found;   /* (K,) a shortlist */
    float *some;      /* (K + MAXIMA,) its float32 scores */
    int32_t *index;   /* (block, MAX_K) the answers */
    double *best;     /* (block, MAX_K) */
    int64_t rescored, swept, rest;
} Desk;

enum { HARD = -1, ZERO = -2 }; /* no bound holds: score everything. A zero row: the answer is known */

/* ---------------------------------------------------------------- screens */

/* |x| from above, and the largest |x_i|. A NaN shows in the length alone. */
INLINE float measure(const float *x, int64_t padded, float *length) {
    vf square = SET(0), top = SET(0);
    for (int64_t i = 0; i < padded; i += LANES) {
        vf v = LOAD(x + i);
        square = FMA(v, v, square);
        top = MAX(ABS(v), top);
    }
    *length = sqrtf(SUM(square)) * 1.0001f;
    return TOP(top);
}

INLINE void keep_scores(float *scores, float *maxima, vf a, vf b) {
    STORE(scores, a);
    STORE(scores + LANES, b);
    STORE(maxima, MAX(a, LOAD(maxima)));
    STORE(maxima + LANES, MAX(b, LOAD(maxima + LANES)));
}

#if INT8
/* One row as signed bytes; returns |x - step * bytes| from above. */
INLINE float quantise(const float *x, int64_t padded, float step, int8_t *bytes, int32_t *correct) {
    vf inverse = SET(1 / step), minus = SET(-step), square = SET(0);
    vi sum = ISET(0);
    for (int64_t i = 0; i < padded; i += LANES) {
        vf v = LOAD(x + i);
        vi q = TO_INT(MUL(v, inverse));
        vf left = FMA(TO_FLOAT(q), minus, v);
        square = FMA(left, left, square);
        sum = IADD(sum, q);
        STORE_INT8(bytes + i, q);
    }
    *correct = -128 * ISUM(sum);
    return sqrtf(SUM(square)) * 1.0001f;
}

INLINE void tile_int8(const int rows, const Desk *desk, int64_t r, const Book *book, int64_t p, float *scores,
                      float *maxima) {
    const int64_t steps = (book->d + 3) / 4, stride = desk->byte_stride;
    const uint8_t *panel = book->bytes + p * steps * WIDE * 4;
    const int8_t *x = desk->bytes + r * stride;
    vi a[TILE], b[TILE];
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) a[i] = b[i] = ISET(desk->correct[r + i]);
    for (int64_t t = 0; t < steps; t++, panel += WIDE * 4) {
        vi left = ILOAD(panel), right = ILOAD(panel + LANES * 4);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            int32_t four;
            memcpy(&four, x + i * stride + 4 * t, 4);
            vi v = ISET(four);
            a[i] = DOT4(a[i], left, v);
            b[i] = DOT4(b[i], right, v);
        }
    }
    vf sa = LOAD(book->scale + p * WIDE), sb = LOAD(book->scale + p * WIDE + LANES);
    vf oa = LOAD(book->shift + p * WIDE), ob = LOAD(book->shift + p * WIDE + LANES);
    if (book->plain[p]) {
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++)
            keep_scores(scores + i * WIDE, maxima + i * MAXIMA, MUL(TO_FLOAT(a[i]), sa), MUL(TO_FLOAT(b[i]), sb));
    } else {
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            vf inverse = SET(desk->inverse[r + i]);
            keep_scores(scores + i * WIDE, maxima + i * MAXIMA, FMA(TO_FLOAT(a[i]), sa, MUL(oa, inverse)),
                        FMA(TO_FLOAT(b[i]), sb, MUL(ob, inverse)));
        }
    }
}
#endif

INLINE void tile_float(const int rows, const Desk *desk, int64_t r, const Book *book, int64_t p, float *scores,
                       float *maxima) {
    const int64_t d = book->d, stride = desk->row_stride;
    const float *panel = book->rows + p * d * WIDE, *x = desk->rows + r * stride;
    vf a[TILE], b[TILE];
    vf oa = LOAD(book->shift + p * WIDE), ob = LOAD(book->shift + p * WIDE + LANES);
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) a[i] = oa, b[i] = ob;
    for (int64_t t = 0; t < d; t++, panel += WIDE) {
        vf left = LOAD(panel), right = LOAD(panel + LANES);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            vf v = SET(x[i * stride + t]);
            a[i] = FMA(left, v, a[i]);
            b[i] = FMA(right, v, b[i]);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) keep_scores(scores + i * WIDE, maxima + i * MAXIMA, a[i], b[i]);
}

/* Scores of all rows on the desk, TILE rows by one panel at a time; a lone row has its own kernel. */
#define SWEEP(NAME, KERNEL)                                                                                       \
    static void NAME(Desk *desk, int64_t n, const Book *book) {                                                   \
        for (int64_t p = 0; p < book->panels; p++)                                                                \
            for (int64_t r = 0; r < n; r += TILE) {                                                               \
                float *scores = desk->scores + (r / TILE * book->panels + p) * TILE * WIDE;                       \
                float *maxima = desk->maxima + r * MAXIMA + p % (MAXIMA / WIDE) * WIDE;                           \
                if (n == 1) KERNEL(1, desk, r, book, p, scores, maxima);                                          \
                else KERNEL(TILE, desk, r, book, p, scores, maxima);                                              \
            }                                                                                                     \
    }
SWEEP(sweep_float, tile_float)
#if INT8
SWEEP(sweep_int8, tile_int8)
#endif

/* Bounds, and bytes where the screen is of bytes, for n rows.
 *
 * float32: a sum of d products is off by at most d eps (|x||c| + |offset|) (classical), and c by its own rounding.
 * int8: x.c - step q.scale p = (x - step q).c + step q.(c - scale p), and Cauchy-Schwarz.
 */
static void prepare(Desk *desk, int64_t n, const Book *book, int int8) {
    for (int64_t r = 0; r < n; r++) {
        const float *x = desk->rows + r * desk->row_stride;
        float length, top = measure(x, book->padded, &length);
        float size = (float)(length * book->reach + book->slack), tiny = 16 * FLT_EPSILON * size;
        int fine = book->usable && top >= 1e-15f && top <= 1e15f && top * book->reach >= 1e-30
                   && length * book->reach <= 1e30 && 1e3 * book->slack <= 1e30 * top;
        desk->close[r] = 2 * ((float)(book->d + 4) * FLT_EPSILON * size + tiny);
        desk->bound[r] = fine ? desk->close[r] : HARD;
#if INT8
        if (int8) {
            int8_t *bytes = desk->bytes + r * desk->byte_stride;
            float step = fine ? top / 127 : 1;
            desk->inverse[r] = 1 / step;
            if (fine) {
                float error = quantise(x, book->padded, step, bytes, desk->correct + r);
                desk->bound[r] = 2.001f * (float)(error * book->reach + (length + error) * book->slip + tiny) / step;
            } else {
                memset(bytes, 0, (size_t)desk->byte_stride), desk->correct[r] = 0;
            }
        }
#else
        (void)int8;
#endif
        if (length == 0) desk->bound[r] = ZERO;
        for (int64_t i = 0; length == 0 && i < book->d; i++)
            if (x[i] != 0) desk->bound[r] = HARD; /* so small that its square is zero */
        for (int64_t i = 0; i < MAXIMA; i++) desk->maxima[r * MAXIMA + i] = -INFINITY;
    }
    for (int64_t r = n; n > 1 && r % TILE; r++) { /* idle rows of the last tile */
        memset(desk->rows + r * desk->row_stride, 0, (size_t)desk->row_stride * sizeof(float));
        memset(desk->bytes + r * desk->byte_stride, 0, (size_t)desk->byte_stride);
        desk->correct[r] = 0, desk->inverse[r] = 1;
    }
}

/* ---------------------------------------------------------------- shortlists */

/* The k-th largest of MAXIMA numbers, or less. */
INLINE float kth(const float *maxima, int64_t k) {
#if LANES == 16
    vf a = LOAD(maxima), b = LOAD(maxima + 16), low = SET(-INFINITY);
    float top = TOP(MAX(a, b));
    while (--k > 0) {
        a = _mm512_mask_mov_ps(a, _mm512_cmp_ps_mask(a, SET(top), _CMP_EQ_OQ), low);
        b = _mm512_mask_mov_ps(b, _mm512_cmp_ps_mask(b, SET(top), _CMP_EQ_OQ), low);
        top = TOP(MAX(a, b));
    }
    return top;
#else
    float best[MAX_K];
    for (int64_t i = 0; i < k; i++) best[i] = -INFINITY;
    for (int64_t i = 0; i < MAXIMA; i++) {
        int64_t at = k - 1;
        if (!(maxima[i] > best[at])) continue;
        for (; at > 0 && maxima[i] > best[at - 1]; at--) best[at] = best[at - 1];
        best[at] = maxima[i];
    }
    return best[k - 1];
#endif
}

/* Codewords of row r that the screen cannot rule out, in rising order. */
INLINE int64_t shortlist(Desk *desk, int64_t r, const Book *book, int64_t k) {
    const float *scores = desk->scores + (r / TILE * book->panels * TILE + r % TILE) * WIDE;
    vf least = SET(kth(desk->maxima + r * MAXIMA, k) - desk->bound[r]);
    int64_t count = 0;
    for (int64_t first = 0; first < book->panels; first += 64) { /* mark, then visit: few branches to mispredict */
        int64_t panels = book->panels - first < 64 ? book->panels - first : 64;
        uint32_t hits[64];
        uint64_t marked = 0;
        for (int64_t p = 0; p < panels; p++, scores += TILE * WIDE) {
            hits[p] = REACHES(LOAD(scores), least) | REACHES(LOAD(scores + LANES), least) << LANES;
            marked |= (uint64_t)(hits[p] != 0) << p;
        }
        for (; marked; marked &= marked - 1) {
            int p = __builtin_ctzll(marked);
            uint32_t some = hits[p];
            do desk->found[count++] = (int32_t)((first + p) * WIDE + __builtin_ctz(some));
            while (some &= some - 1);
        }
    }
    while (count > 0 && desk->found[count - 1] >= book->size) count--; /* padding */
    return count;
}

/* A shortlist made shorter by float32 scores. */
static int64_t narrow(Desk *desk, int64_t r, const Book *book, int64_t k, int64_t count) {
    const int64_t padded = book->padded;
    const float *x = desk->rows + r * desk->row_stride;
    float *score = desk->some, most[MAXIMA];
    for (int64_t c = 0; c < count; c += 4) {
        const float *row[4];
        for (int64_t i = 0; i < 4; i++) row[i] = book->flat + desk->found[c + i < count ? c + i : c] * padded;
        vf p = SET(0), q = p, s = p, t = p;
        for (int64_t i = 0; i < padded; i += LANES) {
            vf v = LOAD(x + i);
            p = FMA(LOAD(row[0] + i), v, p), q = FMA(LOAD(row[1] + i), v, q);
            s = FMA(LOAD(row[2] + i), v, s), t = FMA(LOAD(row[3] + i), v, t);
        }
        score[c] = SUM(p), score[c + 1] = SUM(q), score[c + 2] = SUM(s), score[c + 3] = SUM(t);
    }
    for (int64_t c = 0; c < count; c++) score[c] += book->shift[desk->found[c]];
    for (int64_t c = count; c < MAXIMA; c++) score[c] = -INFINITY;
    memcpy(most, score, sizeof most);
    for (int64_t c = MAXIMA; c < count; c++)
        most[c % MAXIMA] = score[c] > most[c % MAXIMA] ? score[c] : most[c % MAXIMA];
    float least = kth(most, k) - desk->close[r];
    int64_t kept = 0;
    for (int64_t c = 0; c < count; c++) {
        desk->found[kept] = desk->found[c];
        kept += score[c] >= least;
    }
    return kept;
}

/* The exact scores of a shortlist, the k best kept: best first, ties to the lowest index. */
static void settle(Desk *desk, int64_t r, const Book *book, int64_t k, int64_t count) {
    const int64_t d = book->d;
    int32_t *index = desk->index + r * MAX_K;
    double *best = desk->best + r * MAX_K;
    for (int64_t i = 0; i < d; i++) desk->wide[i] = desk->rows[r * desk->row_stride + i];
    int64_t kept = 0;
    for (int64_t c = 0; c < count; c += 4) {
        const int64_t some = count - c < 4 ? count - c : 4;
        double score[4];
        if (some == 1) {
            score[0] = dot_double(book->exact + desk->found[c] * d, desk->wide, d);
        } else {
            const double *row[4];
            for (int64_t i = 0; i < 4; i++) row[i] = book->exact + desk->found[c + (i < some ? i : 0)] * d;
            four_dots(row, 0, desk->wide, d, score);
        }
        for (int64_t i = 0; i < some; i++) {
            double v = score[i] + book->offset[desk->found[c + i]];
            if (kept == k && !(v > best[k - 1])) continue;
            int64_t at = kept < k ? kept++ : k - 1;
            for (; at > 0 && v > best[at - 1]; at--) best[at] = best[at - 1], index[at] = index[at - 1];
            best[at] = v, index[at] = desk->found[c + i];
        }
    }
}

/* ---------------------------------------------------------------- all three */

static void find(Desk *desk, int64_t n, const Book *book, int64_t k, int want_scores, int screen) {
    const int int8 = INT8 && screen && desk->rest == 0 && book->d <= 32768; /* beyond, sums would overflow */
    const int64_t before = desk->rescored;
    prepare(desk, n, book, int8);
#if INT8
    if (int8) sweep_int8(desk, n, book);
#endif
    if (!int8) sweep_float(desk, n, book);
    for (int64_t r = 0; r < n; r++) {
        int32_t *index = desk->index + r * MAX_K;
        int64_t count = 0;
        if (desk->bound[r] == ZERO) {
            for (int64_t i = 0; i < k; i++) {
                index[i] = book->zero[i];
                desk->best[r * MAX_K + i] = book->offset[index[i]];
            }
            continue;
        }
        if (desk->bound[r] == HARD) {
            for (; count < book->size; count++) desk->found[count] = (int32_t)count;
        } else {
            count = shortlist(desk, r, book, k);
            if (int8 && count > k) desk->rescored += count, count = narrow(desk, r, book, k, count);
        }
        if (count == 1 && !want_scores) index[0] = desk->found[0];
        else settle(desk, r, book, k, count), desk->rescored += count;
    }
    desk->swept += int8 ? n : 0;
    /* Where int8 decides too little, float32 is cheaper: use it for a while, then look again. */
    if (int8 && desk->rescored - before > n * (2 * k + book->size / 8)) desk->rest = 16;
    else if (desk->rest > 0) desk->rest--;
}
