/* One block of rows, from raw rows to results. */

typedef struct { /* a row's share in a codeword */
    double weight;
    int32_t row, code;
} Share;

typedef struct { /* the results of a span of rows that are still to be added up */
    float *rows;      /* (span, d), where the rows went through steps */
    int32_t *index;   /* (span, k) */
    double *weight;   /* (span, k) */
    double *best;     /* (span,) the similarity of the best codeword */
    Share *shares;    /* (span, k) in the order of adding.h */
} Span;

/* The k similarities of a row and their soft weights; k = 1 weighs 1. */
static double weigh(const Job *job, const Desk *desk, int64_t r, double *weight) {
    const int64_t k = job->k;
    double sum = 0, top = 0;
    const double square = desk->square[r], length = sqrt(square);
    for (int64_t i = 0; i < k; i++) {
        double score = desk->best[r * MAX_K + i];
        score = job->scale < 0 ? score / (length + (length == 0)) : 2 * job->scale * (score - 0.5 * square);
        if (i == 0) top = score;
        sum += weight[i] = i == 0 ? 1.0 : exp(job->beta * (score - top));
    }
    for (int64_t i = 0; i < k; i++) weight[i] /= sum;
    return top;
}

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

/* Rows first .. first + n of the job; `base` is the first row of the span. */
static void handle(const Job *job, Desk *desk, const Span *span, int64_t base, int64_t first, int64_t n) {
    const int64_t d = job->d, k = job->k;
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
    if (!job->book) return;
    find(desk, n, job->book, k, job->score || job->total, (int)job->screen);
    int32_t *index = job->index ? job->index + first * k : span->index + (first - base) * k;
    for (int64_t r = 0; r < n; r++) {
        memcpy(index + r * k, desk->index + r * MAX_K, (size_t)k * sizeof(int32_t));
        for (int64_t i = 0; job->score && i < k; i++)
            job->score[(first + r) * k + i] = (float)desk->best[r * MAX_K + i];
        if (job->total) span->best[first - base + r] = weigh(job, desk, r, span->weight + (first - base + r) * k);
    }
}
