/* Weighted sums of rows under their codewords.
 *
 * A codeword's rows are added in their order, one after the other, whatever the threads: that fixes every bit. A span is
 * cut into batches of rows that stay in cache; within a batch, shares are sorted by codeword, so that a piece of a sum is
 * read and written once for all of them. Every thread adds up columns of its own.
 */

#define BATCH 512 /* rows to a batch; more where codebooks are large, so that a codeword has two on average */

static int64_t batch_rows(int64_t K, int64_t k) {
    const int64_t least = 2 * K / k;
    return BATCH > least ? BATCH : least;
}

/* The shares of n rows by codeword, and by row under one codeword. counts: (K,) to work with. */
static void sort_shares(const int32_t *index, const double *weight, int64_t n, int64_t k, int64_t K, int32_t *counts,
                        Share *shares) {
    memset(counts, 0, (size_t)K * sizeof *counts);
    for (int64_t i = 0; i < n * k; i++) counts[index[i]]++;
    int32_t before = 0;
    for (int64_t j = 0; j < K; j++) {
        const int32_t here = counts[j];
        counts[j] = before, before += here;
    }
    for (int64_t r = 0; r < n; r++)
        for (int64_t i = r * k; i < (r + 1) * k; i++)
            shares[counts[index[i]]++] = (Share){weight[i], (int32_t)r, index[i]};
}

#if LANES == 16
#define TO_DOUBLE(v) ((d8)_mm512_cvtps_pd((__m256)(v))) /* gcc makes five instructions of the other */
#else
#define TO_DOUBLE(v) __builtin_convertvector(v, d8)
#endif

/* 8 x `eights` columns of the sums of a batch of n rows; x and total start at the first of them. near: (n, 8 eights).
 * Columns that follow are called for, because rows are far apart. */
INLINE void add_eights(const int eights, const float *x, int64_t n, int64_t d, const Share *share, const Share *end,
                       double *total, float *near) {
    for (int64_t r = 0; r < n; r++)
#pragma GCC unroll 8
        for (int i = 0; i < eights; i++) {
            ((f8 *)(near + r * 8 * eights))[i] = ((const f8 *)(x + r * d))[i];
            if (i % 2 == 0) __builtin_prefetch(x + r * d + 8 * (eights + i));
        }
    while (share < end) {
        const int32_t code = share->code;
        double *sum = total + code * d;
        d8 at[8];
#pragma GCC unroll 8
        for (int i = 0; i < eights; i++) at[i] = ((const d8 *)sum)[i];
        do {
            const f8 *row = (const f8 *)(near + share->row * 8 * eights);
            const double w = share->weight;
#pragma GCC unroll 8
            for (int i = 0; i < eights; i++) at[i] += TO_DOUBLE(row[i]) * w;
        } while (++share < end && share->code == code);
#pragma GCC unroll 8
        for (int i = 0; i < eights; i++) ((d8 *)sum)[i] = at[i];
    }
}

/* Columns from .. to of the sums of a batch. */
static void add_columns(const float *x, int64_t n, int64_t d, const Share *share, const Share *end, double *total,
                        int64_t from, int64_t to, float *near) {
#if LANES == 16
    for (; from + 64 <= to; from += 64) add_eights(8, x + from, n, d, share, end, total + from, near);
#endif
    for (; from + 32 <= to; from += 32) add_eights(4, x + from, n, d, share, end, total + from, near);
    for (; from + 8 <= to; from += 8) add_eights(1, x + from, n, d, share, end, total + from, near);
    for (; from < to && share < end; share++)
        for (int64_t c = from; c < to; c++) total[share->code * d + c] += share->weight * (double)x[share->row * d + c];
}
