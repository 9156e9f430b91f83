/* Sums of rows by codes that are known. */

typedef struct { /* field by field as in sums.py */
    const float *x;      /* (n, d) */
    const float *mean;   /* (d,) taken away from each row first, or NULL */
    int64_t n, d, k;
    const int32_t *code; /* (n, k), below size */
    double *total;       /* (size, d), added to */
    int64_t size, block, threads; /* block: rows that are added up before they are added to the total */
} Addition;

/* Columns that one thread adds up, in the order of the rows; its memory has the sums of a block. */
#define STRIP 32
static int add_strip(const void *argument, void *memory, int64_t number) {
    const Addition *job = argument;
    const int64_t d = job->d, from = number * STRIP, wide = d - from < STRIP ? d - from : STRIP;
    double *part = memory;
    float zero[STRIP] = {0};
    const float *mean = job->mean ? job->mean + from : zero;
    for (int64_t first = 0; first < job->n; first += job->block) {
        const int64_t end = first + job->block < job->n ? first + job->block : job->n;
        memset(part, 0, (size_t)(job->size * STRIP) * sizeof(double));
        for (int64_t r = first; r < end; r++) {
            const float *row = job->x + r * d + from;
            for (int64_t i = 0; i < job->k; i++) {
                double *restrict sum = part + job->code[r * job->k + i] * STRIP;
                if (wide == STRIP)
                    for (int64_t c = 0; c < STRIP; c++) sum[c] += (double)(row[c] - mean[c]);
                else
                    for (int64_t c = 0; c < wide; c++) sum[c] += (double)(row[c] - mean[c]);
            }
        }
        for (int64_t j = 0; j < job->size; j++)
            for (int64_t c = 0; c < wide; c++) job->total[j * d + from + c] += part[j * STRIP + c];
    }
    return 0;
}

/* Rows added to the totals of their codes. 0, or 1 when memory is short. */
int sidkit_add(const Addition *job) {
    Crew crew = {add_strip, job, (job->d + STRIP - 1) / STRIP, job->size * STRIP * 8};
    return run_crew(&crew, job->threads);
}
