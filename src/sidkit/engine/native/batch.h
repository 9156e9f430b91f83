/* A batch of rows that wait to be added up: exact scores of their candidates, their weights, and shares for adding.h.
 *
 * Candidates are scored codeword by codeword, and a few columns at a time: a codebook in float64 is larger than the
 * cache of a core, and so each codeword is read once for all rows of a batch that may be near it. The score is that
 * of search.h, to the bit.
 */

#define LEAF 128 /* numbers that the pairwise order adds up without halving */

typedef struct { /* a row and a codeword to be compared */
    int32_t row, code, place; /* place: of the score */
} Pair;

typedef struct { /* a row's share in a codeword */
    double weight;
    int32_t row, code;
} Share;

typedef struct { /* what is known of rows on their way to the sums; a span: how many there are */
    float *rows;      /* (span, d), where the rows went through steps */
    int32_t *listed;  /* (span, MAX_K) candidates */
    uint8_t *count;   /* (span,) how many; 0: the first k are the answer, best first */
    double *best;     /* (span,) the similarity of the best codeword */
    Share *shares;    /* (span, k) in the order of adding.h */
} Span;

typedef struct { /* a batch that waits to be added up */
    const float *x;   /* (n, d) */
    int64_t n;
    const Share *share, *end;
} Settled;

typedef struct { /* the memory of one thread for a batch */
    Pair *pairs;      /* (batch * MAX_K + 4,) by codeword, and by row under one codeword */
    int32_t *counts;  /* (K,) */
    float *near;      /* (batch, LEAF) some columns of the rows */
    double *sums;     /* (halvings + 1, batch * (MAX_K + 1) + 8) products of rows with themselves, then of pairs */
    double *score;    /* (MAX_K, batch) scores of a row, in rising order of the codewords; then weights, or DROPPED */
    double *square, *best; /* (batch,) |x|^2, and the similarity of the best codeword */
    uint8_t *filled;  /* (batch,) how many scores a row has */
    int32_t *dropped; /* (batch * MAX_K,) places of scores that are not among the k best of a row */
    Settled *settled; /* (slots,) batches that are added up together */
    int64_t batch;    /* rows, rounded up to a multiple of 8 */
} Tray;

#define DROPPED -1.0

/* The candidates of n rows by codeword, and by row under one codeword; how many. Filled up to a multiple of four. */
static int64_t sort_pairs(const Tray *tray, const int32_t *listed, const uint8_t *count, int64_t n, int64_t k,
                          int64_t K) {
    int32_t *counts = tray->counts, before = 0;
    memset(counts, 0, (size_t)K * sizeof *counts);
    for (int64_t r = 0; r < n; r++)
        for (int64_t i = 0, many = count[r] ? count[r] : k; i < many; i++) counts[listed[r * MAX_K + i]]++;
    for (int64_t j = 0; j < K; j++) {
        const int32_t here = counts[j];
        counts[j] = before, before += here;
    }
    for (int64_t r = 0; r < n; r++)
        for (int64_t i = 0, many = count[r] ? count[r] : k; i < many; i++) {
            const int32_t code = listed[r * MAX_K + i];
            tray->pairs[counts[code]++] = (Pair){(int32_t)r, code, 0};
        }
    for (int64_t p = before; p % 4; p++) tray->pairs[p] = tray->pairs[before - 1];
    return before;
}

/* Sums of n products of four codewords, or of the rows themselves, with four rows: those of dot_double. */
INLINE void four_products(const int itself, const double *const c[4], const float *const x[4], int64_t n,
                          double sum[4]) {
#define EIGHT(j) TO_DOUBLE(*(const f8 *)(x[j] + i))
#define TIMES(j, v) (v * (itself ? v : *(const d8 *)(c[j] + i)))
    int64_t i = 0;
    sum[0] = sum[1] = sum[2] = sum[3] = 0;
    if (n >= 8) {
        d8 a = EIGHT(0), b = EIGHT(1), e = EIGHT(2), f = EIGHT(3);
        d8 p = TIMES(0, a), q = TIMES(1, b), r = TIMES(2, e), s = TIMES(3, f);
        for (i = 8; i + 8 <= n; i += 8) {
            a = EIGHT(0), b = EIGHT(1), e = EIGHT(2), f = EIGHT(3);
            p += TIMES(0, a), q += TIMES(1, b), r += TIMES(2, e), s += TIMES(3, f);
        }
        four_trees(p, q, r, s, sum);
    }
    for (; i < n; i++)
        for (int64_t j = 0; j < 4; j++) sum[j] += (double)x[j][i] * (itself ? (double)x[j][i] : c[j][i]);
}

/* Products of n rows with themselves, and then of pairs, over the columns from .. from + width of d. */
static void score_columns(const Tray *tray, const Codebook *book, const float *x, int64_t n, int64_t pairs,
                          int64_t from, int64_t width, double *sum) {
    const int64_t all = (n + 3) / 4 * 4 + (pairs + 3) / 4 * 4;
    if (width > LEAF) {
        const int64_t half = half_of(width);
        score_columns(tray, book, x, n, pairs, from, half, sum);
        score_columns(tray, book, x, n, pairs, from + half, width - half, sum + all);
        for (int64_t i = 0; i < all; i++) sum[i] += sum[all + i];
        return;
    }
    const float *row[4];
    for (int64_t r = 0; r < n; r += 4, sum += 4) {
        for (int64_t i = 0; i < 4; i++) {
            row[i] = tray->near + (r + i) * LEAF;
            memcpy(tray->near + (r + i) * LEAF, x + (r + i < n ? r + i : r) * book->d + from, (size_t)width * 4);
        }
        four_products(1, NULL, row, width, sum);
    }
    for (const Pair *pair = tray->pairs, *end = pair + pairs; pair < end; pair += 4, sum += 4) {
        const double *c[4];
        for (int64_t i = 0; i < 4; i++)
            c[i] = book->exact + pair[i].code * book->d + from, row[i] = tray->near + pair[i].row * LEAF;
        four_products(0, c, row, width, sum);
    }
}

/* Scores of pairs to their rows, where they come in rising order of the codewords; -INFINITY where a row has fewer than
 * others. */
static void hand_out(const Tray *tray, const Codebook *book, const double *sum, int64_t pairs) {
    int64_t most = 0;
    memset(tray->filled, 0, (size_t)tray->batch);
    for (int64_t p = 0; p < pairs; p++) {
        Pair *pair = tray->pairs + p;
        const int64_t rank = tray->filled[pair->row]++;
        pair->place = (int32_t)(rank * tray->batch + pair->row);
        if (rank == most)
            for (int64_t i = most++ * tray->batch; i < most * tray->batch; i++) tray->score[i] = -INFINITY;
        tray->score[pair->place] = sum[p] + book->offset[pair->code];
    }
}

/* All but the k best scores of row r become -INFINITY; the places of these after `count` others, and how many then. */
static int64_t drop(const Tray *tray, int64_t r, int64_t k, int64_t count) {
    int32_t places[MAX_K], which[MAX_K];
    double scores[MAX_K], best[MAX_K];
    uint32_t kept = 0;
    for (int64_t i = 0; i < tray->filled[r]; i++)
        places[i] = (int32_t)i, scores[i] = tray->score[i * tray->batch + r];
    rank(scores, places, tray->filled[r], k, best, which, 0);
    for (int64_t i = 0; i < k; i++) kept |= 1u << which[i];
    for (int64_t i = 0; i < tray->filled[r]; i++)
        if (!(kept >> i & 1)) {
            tray->dropped[count++] = (int32_t)(i * tray->batch + r);
            tray->score[i * tray->batch + r] = -INFINITY;
        }
    return count;
}

/* exp(t) of numbers that are not above zero, by the same operations on any vector unit; 0 below -708. */
INLINE d8 exp_each(d8 t) {
    static const double factor[] = {1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
                                    1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 1.0 / 2, 1.0, 1.0};
    const double whole = 0x1.8p52; /* what is added to it is rounded, and its last bits are the number */
    const l8 none = t < -708.0;
    const d8 lifted = t * 0x1.71547652b82fep0 + whole, power = lifted - whole;
    const d8 rest = (t - power * 0x1.62e42fefa3800p-1) - power * 0x1.ef35793c76730p-45;
    d8 sum = rest * (1.0 / 6227020800) + factor[0];
#pragma GCC unroll 12
    for (int i = 1; i < 13; i++) sum = sum * rest + factor[i];
    return (d8)(((l8)sum + ((l8)lifted << 52)) & ~none);
}

/* Scores of eight rows from r on to soft weights that sum to one; the best similarities. */
INLINE void weigh(const Job *job, const Tray *tray, int64_t r) {
    const d8 square = *(const d8 *)(tray->square + r);
    d8 length, top, sum = {0};
    d8 *score = (d8 *)(tray->score + r);
    const int64_t next = tray->batch / 8;
    int64_t most = 0;
    for (int i = 0; i < 8; i++) most = tray->filled[r + i] > most ? tray->filled[r + i] : most;
    length = SQUARE_ROOTS(square);
    length += (d8)((l8)(d8){1, 1, 1, 1, 1, 1, 1, 1} & (length == 0));
    for (int64_t i = 0; i < most; i++) {
        const d8 one = score[i * next];
        score[i * next] = job->scale < 0 ? one / length : 2 * job->scale * (one - 0.5 * square);
    }
    top = score[0];
    for (int64_t i = 1; i < most; i++) {
        const d8 one = score[i * next];
        const l8 more = one > top;
        top = (d8)(((l8)one & more) | ((l8)top & ~more));
    }
    *(d8 *)(tray->best + r) = top;
    if (job->k == 1) { /* weighs 1 */
        for (int64_t i = 0; i < most; i++) score[i * next] = (d8){1, 1, 1, 1, 1, 1, 1, 1};
        return;
    }
    for (int64_t i = 0; i < most; i++) sum += score[i * next] = exp_each(job->beta * (score[i * next] - top));
    for (int64_t i = 0; i < most; i++) score[i * next] /= sum;
}

/* Settle and weigh n rows x of a span, `first` rows from its start; their shares. */
static void settle_batch(const Job *job, const Tray *tray, const Span *span, const float *x, int64_t first, int64_t n) {
    const Codebook *book = job->book;
    const int64_t k = job->k;
    const int64_t pairs = sort_pairs(tray, span->listed + first * MAX_K, span->count + first, n, k, book->size);
    score_columns(tray, book, x, n, pairs, 0, book->d, tray->sums);
    memcpy(tray->square, tray->sums, (size_t)n * sizeof(double));
    hand_out(tray, book, tray->sums + (n + 3) / 4 * 4, pairs);
    int64_t dropped = 0;
    for (int64_t r = 0; r < n; r++)
        if (tray->filled[r] > k) dropped = drop(tray, r, k, dropped);
    for (int64_t r = 0; r < n; r += 8) weigh(job, tray, r);
    memcpy(span->best + first, tray->best, (size_t)n * sizeof(double));
    for (int64_t i = 0; i < dropped; i++) tray->score[tray->dropped[i]] = DROPPED;
    Share *share = span->shares + first * k, *end = share + n * k;
    for (int64_t p = 0; p < pairs; p++) {
        const double weight = tray->score[tray->pairs[p].place];
        if (weight != DROPPED) *share++ = (Share){weight, tray->pairs[p].row, tray->pairs[p].code};
    }
    for (; share < end; share++) *share = (Share){0}; /* where codewords are not numbers */
}
