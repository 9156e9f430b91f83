/* Rows that are compared with the centroids of their own parent alone. The score is that of search.h, in float64. */

#define AHEAD 2      /* rows whose centroids are asked for ahead */
#define FETCHED 1024 /* numbers of them */
#define OWN_ROWS 64 /* rows to a piece of work */

typedef struct { /* field by field as in parents.py */
    const float *x;         /* (n, d) */
    int64_t n, d;
    const int64_t *order;   /* (n,) the rows as they are taken; or NULL */
    const float *centroids; /* (M, d) */
    const int64_t *first;   /* (n,) the first centroid of the row's parent */
    const int32_t *count;   /* (n,) how many it has */
    int32_t *code;          /* (n,) the answer, counted from `first` */
    float *rest;            /* (n, d) the row without its centroid, as a step of a chain passes it on; or NULL */
    float keep;
    int32_t normalize;
    int64_t most, threads;  /* most: the largest count */
} Own;

/* x.c - |c|^2 / 2 of one centroid, widened. */
INLINE double own_score(const double *x, const float *c, double *wide, int64_t d) {
    for (int64_t i = 0; i < d; i++) wide[i] = c[i];
    return dot_double(wide, x, d) + (-0.5 * dot_double(wide, wide, d) + 0.0);
}

/* |x - c|^2 of some centroids in float32, each off by at most (d + 8) eps of itself. */
INLINE void distances(const int many, const float *x, const float *c, int64_t d, float *distance) {
    vf sum[4];
    int64_t i = 0;
#pragma GCC unroll 4
    for (int j = 0; j < many; j++) sum[j] = SET(0);
    for (; i + LANES <= d; i += LANES) {
        const vf v = LOAD(x + i), minus = SET(-1);
#pragma GCC unroll 4
        for (int j = 0; j < many; j++) {
            const vf gap = FMA(LOAD(c + j * d + i), minus, v);
            sum[j] = FMA(gap, gap, sum[j]);
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < many; j++) {
        distance[j] = SUM(sum[j]);
        for (int64_t t = i; t < d; t++) distance[j] += (x[t] - c[j * d + t]) * (x[t] - c[j * d + t]);
    }
}

/* An upper bound of the distance of the centroids that may have the best score in float64; INFINITY where it is not
 * known. Distances that float32 cannot tell apart are within its errors, or the rounding of the scores in float64. */
static float within_reach(const float *x, const float *c, int64_t count, int64_t d, float *distance) {
    float length, least = INFINITY;
    int64_t j = 0;
    for (; j + 4 <= count; j += 4) distances(4, x, c + j * d, d, distance + j);
    for (; j < count; j++) distances(1, x, c + j * d, d, distance + j);
    for (j = 0; j < count; j++) {
        least = distance[j] < least ? distance[j] : least;
        if (!(distance[j] <= 1e30f)) return INFINITY;
    }
    vf squares = SET(0);
    int64_t i = 0;
    for (; i + LANES <= d; i += LANES) squares = FMA(LOAD(x + i), LOAD(x + i), squares);
    length = SUM(squares);
    for (; i < d; i++) length += x[i] * x[i];
    if (!(length >= 1e-20f && length <= 1e30f)) return INFINITY;
    return least * (1 + 4 * (float)(d + 8) * FLT_EPSILON) + 1e-11f * (length + least);
}

/* The nearest of some centroids: of those that float32 cannot tell from the best, by the score in float64. */
static int32_t nearest_of(const float *x, const float *c, int64_t count, int64_t d, float *distance, double *row,
                          double *wide) {
    const float bound = within_reach(x, c, count, d, distance);
    int64_t left = 0, first = 0;
    for (int64_t j = count - 1; j >= 0; j--)
        if (!(distance[j] > bound)) first = j, left++;
    if (left == 1) return (int32_t)first;
    double best = -INFINITY;
    int32_t code = 0;
    for (int64_t i = 0; i < d; i++) row[i] = x[i];
    for (int64_t j = first; j < count; j++) {
        if (distance[j] > bound) continue;
        double v = own_score(row, c + j * d, wide, d);
        if (v > best) best = v, code = (int32_t)j;
    }
    return code;
}

/* Ask for memory that will be read soon: the first of it, after which the processor sees where this goes. */
static void fetch(const float *at, int64_t numbers) {
    for (int64_t i = 0; i < numbers && i < FETCHED; i += 16) __builtin_prefetch(at + i);
}

static int own_rows(const void *argument, void *memory, int64_t number) {
    const Own *own = argument;
    const int64_t d = own->d, end = (number + 1) * OWN_ROWS < own->n ? (number + 1) * OWN_ROWS : own->n;
    double *wide = memory, *row = wide + d;
    float *distance = (float *)(row + d);
    for (int64_t at = number * OWN_ROWS; at < end; at++) {
        const int64_t ahead = at + AHEAD < end ? at + AHEAD : at;
        const int64_t r = own->order ? own->order[at] : at, next = own->order ? own->order[ahead] : ahead;
        fetch(own->x + next * d, d);
        fetch(own->centroids + own->first[next] * d, own->count[next] * d);
        const float *x = own->x + r * d, *c = own->centroids + own->first[r] * d;
        const int64_t count = own->count[r];
        const int32_t code = count > 1 ? nearest_of(x, c, count, d, distance, row, wide) : 0;
        own->code[r] = code;
        if (!own->rest) continue;
        float *rest = memcpy(own->rest + r * d, x, (size_t)d * sizeof(float));
        take_away(rest, c + code * d, d, own->keep, 1.0f - own->keep);
        if (own->normalize) normalise(rest, d);
    }
    return 0;
}

/* The nearest of its parent's centroids for every row: ties to the lowest. 0, or 1 when memory is short. */
int sidkit_own(const Own *own) {
    Crew crew = {own_rows, own, (own->n + OWN_ROWS - 1) / OWN_ROWS, 16 * own->d + 4 * own->most};
    return run_crew(&crew, own->threads);
}

typedef struct { /* field by field as in parents.py */
    const float *x;        /* (n, d) */
    const int64_t *edges;  /* (parents, 2) a parent's first row, and the row after its last */
    int64_t parents, d, size, iterations;
    float *centroids;      /* (parents, size, d): where k-means starts, then where it ends */
    int64_t threads;
} Families;

typedef struct { /* the memory of one thread */
    Desk desk;
    Codebook book;
    double *exact, *offset, *total, *mass;
    uint8_t *dead;
    int64_t block;
} Bench;

static int64_t lay_bench(Bench *bench, char *at, const Families *all) {
    char *start = at;
    const int64_t size = all->size, d = all->d, panels = (size + WIDE - 1) / WIDE, steps = (d + 3) / 4;
    Codebook *book = &bench->book;
    *book = (Codebook){.size = size, .d = d, .panels = panels, .padded = (d + 15) / 16 * 16};
    bench->exact = grab(&at, size * d * 8);
    bench->total = grab(&at, size * d * 8);
    bench->offset = grab(&at, size * 8);
    bench->mass = grab(&at, size * 8);
    bench->dead = grab(&at, size);
    book->exact = bench->exact, book->offset = bench->offset;
    book->rows = grab(&at, panels * d * WIDE * 4);
    book->pairs = grab(&at, size * 2 * ((d + 63) / 64 * 64));
    book->bytes = grab(&at, panels * steps * WIDE * 4);
    book->scale = grab(&at, panels * WIDE * 4);
    book->shift = grab(&at, panels * WIDE * 4);
    book->plain = grab(&at, panels);
    Job shape = {.d = d, .book = book};
    bench->block = 8 * TILE;
    return at - start + lay_out(&bench->desk, at, &shape, bench->block);
}

/* One pass over the rows of a parent: their sums by the nearest centroid. */
static void add_family(Bench *bench, const float *x, int64_t n) {
    const int64_t d = bench->book.d, size = bench->book.size, stride = bench->desk.row_stride;
    memset(bench->total, 0, (size_t)(size * d) * sizeof(double));
    memset(bench->mass, 0, (size_t)size * sizeof(double));
    for (int64_t first = 0; first < n; first += bench->block) {
        const int64_t rows = n - first < bench->block ? n - first : bench->block;
        for (int64_t r = 0; r < rows; r++) {
            memcpy(bench->desk.rows + r * stride, x + (first + r) * d, (size_t)d * sizeof(float));
            memset(bench->desk.rows + r * stride + d, 0, (size_t)(stride - d) * sizeof(float));
        }
        find(&bench->desk, rows, &bench->book, 1, 0, 1);
        for (int64_t r = 0; r < rows; r++) {
            const float *row = x + (first + r) * d;
            const int64_t j = bench->desk.index[r * MAX_K];
            double *restrict sum = bench->total + j * d;
            for (int64_t i = 0; i < d; i++) sum[i] += (double)row[i];
            bench->mass[j] += 1;
        }
    }
}

/* Centroids to the means of their rows, those without rows unchanged; whether any moved. */
static int moved(Bench *bench) {
    const int64_t d = bench->book.d;
    int changed = 0;
    for (int64_t j = 0; j < bench->book.size; j++)
        for (int64_t i = 0; bench->mass[j] > 0 && i < d; i++) {
            const double mean = bench->total[j * d + i] / bench->mass[j];
            changed |= mean != bench->exact[j * d + i];
            bench->exact[j * d + i] = mean;
        }
    return changed;
}

static int fit_family(const void *argument, void *memory, int64_t number) {
    const Families *all = argument;
    const int64_t size = all->size, d = all->d, first = all->edges[2 * number], n = all->edges[2 * number + 1] - first;
    float *centroids = all->centroids + number * size * d;
    Bench bench = {0};
    lay_bench(&bench, memory, all);
    memset(bench.dead, 0, (size_t)size);
    for (int64_t i = 0; i < size * d; i++) bench.exact[i] = centroids[i];
    for (int64_t pass = 0; pass < all->iterations; pass++) {
        for (int64_t j = 0; j < size; j++)
            bench.offset[j] = -0.5 * dot_double(bench.exact + j * d, bench.exact + j * d, d) + 0.0;
        sidkit_pack(&bench.book, bench.dead);
        add_family(&bench, all->x + first * d, n);
        if (!moved(&bench)) break;
    }
    for (int64_t i = 0; i < size * d; i++) centroids[i] = (float)bench.exact[i];
    return 0;
}

/* k-means by Euclidean distance under every parent. 0, or 1 when memory is short. */
int sidkit_families(const Families *all) {
    Bench bench;
    Crew crew = {fit_family, all, all->parents, lay_bench(&bench, NULL, all)};
    return run_crew(&crew, all->threads);
}

typedef struct {
    const float *x; /* (n, d) */
    int64_t n, d;
    uint8_t *busy;  /* (n,) whether a row is anything but zero */
} Look;

/* Whether any of some numbers is not zero: whether a bit is set but the sign. */
INLINE int any_of(const float *x, const int64_t count) {
    uint32_t set = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        set |= bits << 1;
    }
    return set != 0;
}

#define LOOK_ROWS 2048
static int look_at(const void *argument, void *memory, int64_t number) {
    const Look *look = argument;
    const int64_t d = look->d, end = (number + 1) * LOOK_ROWS < look->n ? (number + 1) * LOOK_ROWS : look->n;
    (void)memory;
    for (int64_t r = number * LOOK_ROWS; r < end; r++) {
        const float *x = look->x + r * d;
        int64_t i = 0;
        int any = 0;
        for (; !any && i + 64 <= d; i += 64) any = any_of(x + i, 64);
        look->busy[r] = (uint8_t)(any || any_of(x + i, any ? 0 : d - i));
    }
    return 0;
}

/* Which rows are not zero. */
int sidkit_busy(const Look *look, int64_t threads) {
    Crew crew = {look_at, look, (look->n + LOOK_ROWS - 1) / LOOK_ROWS, 0};
    return run_crew(&crew, threads);
}
