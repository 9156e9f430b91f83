/* Weighted sums of rows under their codewords.
 *
 * A codeword's rows are added in their order, one after the other, whatever the threads: that fixes every bit. Rows are
 * cut into batches that stay in cache; within a batch, shares are sorted by codeword, so that a piece of a sum is read
 * and written once for all of them. Every thread adds up columns of its own.
 */

#define BATCH 1024    /* rows to a batch, */
#define OWN (1 << 19) /* or fewer, which take so many bytes: they stay in the cache of a core */

/* Rows to a batch. Where that would leave fewer than eight to a codeword, up to BATCH; two in any case. */
static int64_t batch_rows(int64_t K, int64_t k, int64_t d) {
    const int64_t own = OWN / (4 * d), eight = 8 * K / k, most = own > eight ? own : eight;
    return most < BATCH ? most : BATCH > eight / 4 ? BATCH : eight / 4;
}

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

/* Columns from .. to of the sums of some batches, one after the other for as long as their columns stay in cache. */
static void add_columns(const Settled *batches, int64_t count, int64_t d, double *total, int64_t from, int64_t to,
                        float *near) {
    const Settled *past = batches + count;
#define ADD(eights)                                                                                               \
    for (; from + 8 * eights <= to; from += 8 * eights)                                                               \
        for (const Settled *b = batches; b < past; b++)                                                               \
            add_eights(eights, b->x + from, b->n, d, b->share, b->end, total + from, near);
#if LANES == 16
    ADD(8)
#endif
    ADD(4)
    ADD(1)
    for (const Settled *b = batches; from < to && b < past; b++)
        for (const Share *share = b->share; share < b->end; share++)
            for (int64_t c = from; c < to; c++)
                total[share->code * d + c] += share->weight * (double)b->x[share->row * d + c];
}
