/* A thread's memory, and approximate scores of its rows with a bound on their error. */

#define FINER 254 /* a second byte counts in so many parts of the first, and reaches from half of it down to half up */
#define MAXIMA 32 /* running maxima kept per row: the k-th largest of them bounds the k-th best score from below */

#define SPARE 64 /* numbers between two lists, which may be written too far */

typedef struct { /* a row's shortlist: where it starts, how long it is; and its parts that are scored again */
    int64_t at, count, some, more, row;
} List;

typedef struct { /* the memory of one thread, for a block of rows */
    int64_t row_stride, byte_stride;
    float *rows;      /* (block, row_stride), zero beyond d: copies, or the job's own */
    float *copies;
    const char *soon, *past; /* rows of the next block that are still to be called for */
    double *wide;     /* (d,) one row in float64 */
    int8_t *bytes;    /* (block, byte_stride): a row is about step * bytes */
    int8_t *finer;    /* (block, byte_stride): and what they leave about step / FINER * finer */
    int32_t *correct; /* (block,) -LIFT * sum of bytes, which undoes the lift of the codebook */
    int32_t *correct_finer; /* (block,) the same for finer */
    float *inverse;   /* (block,) 1 / step */
    float *bound;     /* (block,) 2 B of the screen, over step; or HARD, or ZERO */
    float *close;     /* (block,) 2 B of scores by both bytes, over step */
    float *scores;    /* (block / TILE, panels, TILE, WIDE), over step */
    float *maxima;    /* (block, MAXIMA) */
    float *ahead;     /* (block,) the k-th of them */
    List *all, *lists; /* (block,) shortlists of all rows, and the long ones */
    int32_t *candidates, *chosen; /* (block, K + SPARE) codewords in shortlists, and in shorter ones */
    float *rough, *fine; /* (block, K + SPARE) their scores by the screen, and by both bytes */
    double *sharp;    /* (K + 4,) exact scores */
    int32_t *index;   /* (block, MAX_K) the answers */
    double *best;     /* (block, MAX_K) */
    double *square;   /* (block,) |x|^2 */
    int64_t rescored, swept, rest; /* scores computed again; rows screened in int8; blocks until int8 is tried again */
} Desk;

enum { HARD = -1, ZERO = -2 }; /* no bound holds: score everything. A zero row: the answer is known */

/* ---------------------------------------------------------------- screens */

/* An upper bound of |x|, and the largest |x_i|. A NaN shows in the length only. */
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
/* Row r as two signed bytes a number; upper bounds of |x - step * bytes| and of the same with both bytes. */
INLINE float quantise(Desk *desk, int64_t r, int64_t padded, float step, float *with_both) {
    const float *x = desk->rows + r * desk->row_stride;
    int8_t *bytes = desk->bytes + r * desk->byte_stride, *finer = desk->finer + r * desk->byte_stride;
    vf inverse = SET(1 / step), minus = SET(-step), square = SET(0);
    vf finer_inverse = SET(FINER / step), finer_minus = SET(-step / FINER), finer_square = SET(0);
    vi sum = ISET(0), finer_sum = ISET(0);
    for (int64_t i = 0; i < padded; i += LANES) {
        vf v = LOAD(x + i);
        vi q = TO_INT(MUL(v, inverse));
        v = FMA(TO_FLOAT(q), minus, v);
        square = FMA(v, v, square);
        sum = IADD(sum, q);
        STORE_INT8(bytes + i, q);
        q = TO_INT(MUL(v, finer_inverse));
        v = FMA(TO_FLOAT(q), finer_minus, v);
        finer_square = FMA(v, v, finer_square);
        finer_sum = IADD(finer_sum, q);
        STORE_INT8(finer + i, q);
    }
    desk->correct[r] = -LIFT * ISUM(sum), desk->correct_finer[r] = -LIFT * ISUM(finer_sum);
    *with_both = sqrtf(SUM(finer_square)) * 1.0001f;
    return sqrtf(SUM(square)) * 1.0001f;
}

INLINE void tile_int8(const int rows, const Desk *desk, int64_t r, const Codebook *book, int64_t p, float *scores,
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

INLINE void tile_float(const int rows, const Desk *desk, int64_t r, const Codebook *book, int64_t p, float *scores,
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

/* Call for some more of the next block's rows. */
INLINE void call_soon(Desk *desk, int64_t lines) {
    for (; lines > 0 && desk->soon < desk->past; lines--, desk->soon += 64) __builtin_prefetch(desk->soon);
}

/* Scores of all rows on the desk, TILE rows by one panel at a time, while the next block's rows are called for; a single
 * row has a kernel for one row. */
#define SWEEP(NAME, KERNEL)                                                                                       \
    static void NAME(Desk *desk, int64_t n, const Codebook *book) {                                                   \
        const int64_t calls = book->panels * ((n + TILE - 1) / TILE);                                             \
        const int64_t lines = (desk->past - desk->soon) / 64 / calls + 1;                                         \
        for (int64_t p = 0; p < book->panels; p++)                                                                \
            for (int64_t r = 0; r < n; r += TILE) {                                                               \
                call_soon(desk, lines);                                                                           \
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

/* The bound of row r, and its bytes where the screen is of bytes; length: at least |x|, top: the largest |x_i|.
 *
 * float32: a sum of d products is off by at most d eps (|x||c| + |offset|) (classical), and c by its rounding.
 * int8: x.c - step q.scale p = (x - step q).c + step q.(c - scale p), and Cauchy-Schwarz.
 * Two bytes: the same with finer q and p, without the product of their second bytes, which is bounded by
 * Cauchy-Schwarz too.
 */
INLINE void bound_row(Desk *desk, int64_t r, const Codebook *book, int int8, float length, float top) {
    const float *x = desk->rows + r * desk->row_stride;
    float size = (float)(length * book->reach + book->slack), tiny = 16 * FLT_EPSILON * size;
    int fine = book->usable && top >= 1e-15f && top <= 1e15f && top * book->reach >= 1e-30
               && length * book->reach <= 1e30 && 1e3 * book->slack <= 1e30 * top;
    desk->bound[r] = fine ? 2 * ((float)(book->d + 4) * FLT_EPSILON * size + tiny) : HARD;
#if INT8
    if (int8) {
        float step = fine ? top / 127 : 1, less;
        desk->inverse[r] = 1 / step;
        if (fine) {
            const float error = quantise(desk, r, book->padded, step, &less);
            const double seconds = (error + less) * (book->slip + book->skid);
            desk->bound[r] = 2.001f * (float)(error * book->reach + (length + error) * book->slip + tiny) / step;
            desk->close[r] =
                2.001f * (float)(less * book->reach + (length + less) * book->skid + seconds + tiny) / step;
        } else {
            memset(desk->bytes + r * desk->byte_stride, 0, (size_t)desk->byte_stride), desk->correct[r] = 0;
        }
    }
#else
    (void)int8;
#endif
    if (length == 0) desk->bound[r] = ZERO;
    for (int64_t i = 0; length == 0 && i < book->d; i++)
        if (x[i] != 0) desk->bound[r] = HARD; /* so small that its square is zero */
}

/* Bounds and bytes of n rows. Eight are measured before their bytes are written: then no row waits for another. */
static void prepare(Desk *desk, int64_t n, const Codebook *book, int int8) {
    float length[8], top[8];
    for (int64_t first = 0; first < n; first += 8) {
        const int64_t past = first + 8 < n ? first + 8 : n;
        for (int64_t r = first; r < past; r++)
            top[r - first] = measure(desk->rows + r * desk->row_stride, book->padded, length + r - first);
        for (int64_t r = first; r < past; r++) bound_row(desk, r, book, int8, length[r - first], top[r - first]);
    }
    for (int64_t i = 0; i < n * MAXIMA; i++) desk->maxima[i] = -INFINITY;
    for (int64_t r = n; n > 1 && r % TILE; r++) { /* idle rows of the last tile */
        memset(desk->rows + r * desk->row_stride, 0, (size_t)desk->row_stride * sizeof(float));
        memset(desk->bytes + r * desk->byte_stride, 0, (size_t)desk->byte_stride);
        desk->correct[r] = 0, desk->inverse[r] = 1;
    }
}
