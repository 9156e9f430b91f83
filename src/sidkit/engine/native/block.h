/* One block of rows, from raw rows to results. */

static void pass_through(const Job *job, Desk *desk, const Step *step, int64_t first, int64_t n) {
    const int64_t d = job->d;
    int32_t *codes = step->column < 0 ? NULL : job->codes + first * job->width + step->column;
    if (step->book) {
        find(desk, n, step->book, 1, 0, (int)job->screen);
        for (int64_t r = 0; r < n; r++) codes[r * job->width] = desk->index[r * MAX_K];
    }
    for (int64_t r = 0; r < n && !step->last; r++) {
        float *x = desk->rows + r * desk->row_stride;
        int64_t code = step->column < 0 ? 0 : codes[r * job->width];
        if (step->vectors) take_away(x, step->vectors + code * d, d, step->keep, step->rest);
        if (step->normalize) normalise(x, d);
    }
}

/* Numbers from row to row of copies: an odd number of cache lines, so that a tile's rows do not share a cache set. */
static int64_t spread(int64_t d) {
    return (((d + 15) / 16) | 1) * 16;
}

/* The k best codewords of n rows, and their scores. */
static void answer(const Job *job, Desk *desk, int64_t first, int64_t n) {
    const int64_t k = job->k;
    find(desk, n, job->book, k, job->score != NULL, (int)job->screen);
    for (int64_t r = 0; r < n; r++) {
        memcpy(job->index + (first + r) * k, desk->index + r * MAX_K, (size_t)k * sizeof(int32_t));
        for (int64_t i = 0; job->score && i < k; i++)
            job->score[(first + r) * k + i] = (float)desk->best[r * MAX_K + i];
    }
}

/* Candidates of n rows, `at` rows from the start of the span, for batch.h; where they are many, the k best of them. */
static void leave_lists(const Job *job, Desk *desk, const Span *span, int64_t at, int64_t n) {
    list(desk, n, job->book, job->k, (int)job->screen);
    for (int64_t r = 0; r < n; r++) {
        const int64_t count = desk->all[r].count;
        int32_t *candidates = desk->candidates + desk->all[r].at, *listed = span->listed + (at + r) * MAX_K;
        const int few = count > 0 && count <= MAX_K && desk->bound[r] != HARD;
        span->count[at + r] = few ? (uint8_t)count : 0;
        if (count && !few) settle(desk, r, job->book, job->k, candidates, count);
        else desk->rescored += count;
        memcpy(listed, few ? candidates : desk->index + r * MAX_K, MAX_K * sizeof *listed);
    }
}

/* Rows first .. first + n of the job; row `base` of the job would be the first of the span. */
static void handle(const Job *job, Desk *desk, const Span *span, int64_t base, int64_t first, int64_t n) {
    const int64_t d = job->d;
    const int direct = INT8 && job->screen && desk->rest == 0 && job->nsteps == 0 && d % 16 == 0 && n % TILE == 0;
    desk->rows = direct ? (float *)job->x + first * d : desk->copies;
    desk->row_stride = direct ? d : spread(d);
    const int64_t stride = desk->row_stride;
    for (int64_t r = 0; r < n && !direct; r++) {
        memcpy(desk->rows + r * stride, job->x + (first + r) * d, (size_t)d * sizeof(float));
        memset(desk->rows + r * stride + d, 0, (size_t)(stride - d) * sizeof(float));
    }
    for (int64_t s = 0; s < job->nsteps; s++) pass_through(job, desk, job->steps + s, first, n);
    float *out = job->out ? job->out + first * d : span->rows ? span->rows + (first - base) * d : NULL;
    for (int64_t r = 0; out && r < n; r++) memcpy(out + r * d, desk->rows + r * stride, (size_t)d * sizeof(float));
    if (job->total) leave_lists(job, desk, span, first - base, n);
    else if (job->book) answer(job, desk, first, n);
}
