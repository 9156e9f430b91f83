/* One sweep over rows: rebuild them, find their best codewords, add them up.
 *
 * A row's answer is defined by one formula alone, the score in float64:
 *
 *     score(x, j) = sum_i x[i] * exact[j][i]  +  offset[j]          highest first, ties to the lowest j
 *
 * with products and additions in numpy's own (pairwise) order. Everything faster is a screen: approximate scores
 * with a proved error bound B, after which only codewords within 2 B of the k-th best are scored by the formula.
 * So the answer is the same bits whichever screen ran, whatever the batch, the threads and the instruction set.
 *
 *     vector.h   the vector unit        rows.h   row formulas        search.h   the k best codewords of a row
 *
 * Sums over rows are float64 additions in the order of the rows, whoever makes them: a thread owns columns, not rows.
 *
 * Build: cc -O3 -march=native -ffp-contract=off -shared -fPIC kernels.c -lm -lpthread   (build.py does)
 * -ffp-contract=off matters: the row formulas must round as numpy's do, multiply and add apart.
 */
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_K 16 /* codewords kept per row */

/* ---------------------------------------------------------------- what Python hands over (layout.py) */

typedef struct { /* a codebook; the arrays are Python's, filled by sidkit_pack */
    int64_t size, d, panels, padded; /* K, d, K / WIDE rounded up, d rounded up to 16 */
    const double *exact;  /* (K, d) */
    const double *offset; /* (K,) */
    float *rows;          /* (panels, d, WIDE) */
    float *flat;          /* (K, padded): the same by row */
    uint8_t *bytes;       /* (panels, d / 4 rounded up, WIDE, 4): quantised, plus 128 */
    float *scale;         /* (panels * WIDE,): a row is about scale * (bytes - 128); 0 in the padding */
    float *shift;         /* (panels * WIDE,): the offset; -inf in the padding */
    uint8_t *plain;       /* (panels,): whether a panel has no shift at all */
    double reach, slip, slack; /* max |c|, max |c - scale * (bytes - 128)|, max |offset| */
    int32_t zero[MAX_K];  /* the best codewords of a zero row */
    int32_t usable;       /* whether the screens' bounds hold for this codebook */
} Book;

typedef struct { /* one stage that rows go through: a code, r - [keep c + rest (r.c / |c|^2) c], length one */
    const float *vectors; /* (K, d), or (1, d) shared by all rows, or NULL: nothing to remove */
    const Book *book;     /* finds the code, which is written down; NULL: the code is known */
    int64_t column;       /* of the code, or -1: the vector is shared */
    float keep, rest;     /* keep and 1 - keep */
    int32_t normalize, last; /* last: nothing is passed on */
} Step;

typedef struct {
    const float *x;       /* (n, d) */
    int64_t n, d;
    const Step *steps;    /* what happens to the rows first */
    int64_t nsteps;
    int32_t *codes;       /* (n, width) */
    int64_t width;
    float *out;           /* (n, d): the rows after the steps, or NULL */
    const Book *book;     /* or NULL: no more codewords wanted */
    int64_t k;
    int32_t *index;       /* (n, k) or NULL */
    float *score;         /* (n, k) or NULL */
    double *mass, *total, *objective; /* (K,), (K, d) and (1,), added to, or NULL */
    double beta, scale;   /* soft weights; scale < 0: cosine, else s = -scale |x - c|^2 */
    int64_t threads, screen; /* screen: 0 float32, 1 int8 where there is one */
    int64_t rescored, swept; /* returned: scores computed again, rows screened in int8 */
} Job;

#include "vector.h"
#include "rows.h"
#include "search.h"

/* ---------------------------------------------------------------- one block of rows, from raw to result */

typedef struct { /* what a span of rows leaves for the adding up */
    float *rows;      /* (span, d), where the rows went through steps */
    int32_t *index;   /* (span, k) */
    double *weight;   /* (span, k) */
    double *best;     /* (span,) the similarity of the best codeword */
} Span;

/* The k similarities of a row and their soft weights; k = 1 weighs 1. */
static double weigh(const Job *job, Desk *desk, int64_t r, double *weight) {
    const int64_t d = job->d, k = job->k;
    double sum = 0, top = 0;
    for (int64_t i = 0; i < d; i++) desk->wide[i] = desk->rows[r * desk->row_stride + i];
    double square = dot_double(desk->wide, desk->wide, d), length = sqrt(square);
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

/* Rows first .. first + n of the job; in the span they are numbered from `base`. */
static void handle(const Job *job, Desk *desk, const Span *span, int64_t base, int64_t first, int64_t n) {
    const int64_t d = job->d, k = job->k, stride = desk->row_stride;
    for (int64_t r = 0; r < n; r++) {
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

/* Columns from .. to of the weighted sums, row after row. */
static void add_columns(const float *x, int64_t n, const Job *job, const int32_t *index, const double *weight,
                        int64_t from, int64_t to) {
    const int64_t d = job->d, k = job->k;
    for (int64_t r = 0; r < n; r++, x += d)
        for (int64_t i = 0; i < k; i++) {
            double *restrict sum = job->total + index[r * k + i] * d;
            const double w = weight[r * k + i];
            for (int64_t c = from; c < to; c++) sum[c] += w * (double)x[c];
        }
}

/* ---------------------------------------------------------------- a team of threads on one job */

#define ALIGN 64
#define SPAN 32768 /* rows per thread between two meetings, if they take no more than ROOM bytes together: */
#define ROOM (1 << 25) /* they are added up from cache */

typedef struct {
    Job *job;
    Span span;
    int64_t block, rows;  /* of a block and of a span */
    atomic_llong next;    /* the first row that nobody took */
    int64_t size, here, round; /* of the team; threads that wait; meetings so far */
    atomic_int failed;
    pthread_mutex_t lock;
    pthread_cond_t all_here;
} Team;

typedef struct {
    Team *team;
    int64_t number;
    pthread_t thread;
} Member;

static void meet(Team *team) {
    if (team->size == 1) return;
    pthread_mutex_lock(&team->lock);
    int64_t round = team->round;
    if (++team->here == team->size) {
        team->here = 0, team->round++;
        pthread_cond_broadcast(&team->all_here);
    }
    while (round == team->round) pthread_cond_wait(&team->all_here, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

static void *grab(char **at, int64_t bytes) {
    void *p = *at;
    *at += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return p;
}

static int64_t most_panels(const Job *job) {
    int64_t panels = job->book ? job->book->panels : 0;
    for (int64_t s = 0; s < job->nsteps; s++)
        if (job->steps[s].book && job->steps[s].book->panels > panels) panels = job->steps[s].book->panels;
    return panels;
}

/* Lay a desk out from `at` on; returns its size. */
static int64_t lay_out(Desk *desk, char *at, const Job *job, int64_t block) {
    char *start = at;
    const int64_t panels = most_panels(job), d = job->d;
    /* An odd number of cache lines between rows, so that a tile's rows do not fall into one cache set. */
    desk->row_stride = (((d + 15) / 16) | 1) * 16;
    desk->byte_stride = (((d + 63) / 64) | 1) * 64;
    desk->rows = grab(&at, block * desk->row_stride * 4);
    desk->wide = grab(&at, d * 8);
    if (panels) {
        desk->bytes = grab(&at, block * desk->byte_stride);
        desk->correct = grab(&at, block * 4);
        desk->inverse = grab(&at, block * 4);
        desk->bound = grab(&at, block * 4);
        desk->close = grab(&at, block * 4);
        desk->scores = grab(&at, (block < TILE ? TILE : block) * panels * WIDE * 4);
        desk->maxima = grab(&at, block * MAXIMA * 4);
        desk->found = grab(&at, panels * WIDE * 4);
        desk->some = grab(&at, (panels * WIDE + MAXIMA) * 4);
        desk->index = grab(&at, block * MAX_K * 4);
        desk->best = grab(&at, block * MAX_K * 8);
    }
    return at - start;
}

static void *work(void *argument) {
    Member *member = argument;
    Team *team = member->team;
    Job *job = team->job;
    Desk desk = {0};
    pthread_mutex_lock(&team->lock); /* until the team is complete */
    pthread_mutex_unlock(&team->lock);
    const int64_t n = job->n, d = job->d, k = job->k, strip = ((d + 7) / 8 + team->size - 1) / team->size * 8;
    const int64_t from = member->number * strip, to = from + strip < d ? from + strip : d;
    char *memory = malloc((size_t)lay_out(&desk, NULL, job, team->block) + ALIGN);
    if (memory) lay_out(&desk, (char *)(((uintptr_t)memory + ALIGN - 1) / ALIGN * ALIGN), job, team->block);
    else team->failed = 1;
    for (int64_t base = 0; base < n; base += team->rows) {
        const int64_t end = base + team->rows < n ? base + team->rows : n;
        for (int64_t first; memory && (first = atomic_fetch_add(&team->next, team->block)) < end;)
            handle(job, &desk, &team->span, base, first, end - first < team->block ? end - first : team->block);
        meet(team);
        if (member->number == 0) atomic_store(&team->next, end);
        if (job->total) {
            const Span *span = &team->span;
            const int32_t *index = job->index ? job->index + base * k : span->index;
            const float *x = span->rows ? span->rows : job->out ? job->out + base * d : job->x + base * d;
            add_columns(x, end - base, job, index, span->weight, from, to);
            for (int64_t r = 0; member->number == 0 && r < end - base; r++) {
                *job->objective += span->best[r];
                for (int64_t i = 0; i < k; i++) job->mass[index[r * k + i]] += span->weight[r * k + i];
            }
        }
        meet(team);
    }
    free(memory);
    pthread_mutex_lock(&team->lock);
    job->rescored += desk.rescored, job->swept += desk.swept;
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

static int run_with(Team *team, Member *members, int64_t threads) {
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->all_here, NULL);
    pthread_mutex_lock(&team->lock);
    team->size = 1;
    while (team->size < threads) {
        members[team->size] = (Member){.team = team, .number = team->size};
        if (pthread_create(&members[team->size].thread, NULL, work, members + team->size)) break;
        team->size++;
    }
    pthread_mutex_unlock(&team->lock);
    members[0] = (Member){.team = team};
    work(members);
    for (int64_t t = 1; t < team->size; t++) pthread_join(members[t].thread, NULL);
    pthread_mutex_destroy(&team->lock);
    pthread_cond_destroy(&team->all_here);
    return team->failed;
}

/* Run a job; 0, or 1 when memory is short. */
int sidkit_run(Job *job) {
    const int64_t panels = most_panels(job), d = job->d, k = job->k;
    int64_t threads = job->threads < 1 ? 1 : job->threads;
    int64_t block = panels ? 65536 / (panels * WIDE) / TILE * TILE : 4 * TILE; /* 256 KB of scores stay in cache */
    block = block < TILE ? TILE : block > 8 * TILE ? 8 * TILE : block;
    if (job->n < block) block = job->n <= 1 ? 1 : (job->n + TILE - 1) / TILE * TILE;
    if (threads > (job->n + block - 1) / block) threads = (job->n + block - 1) / block;
    if (threads < 1) return 0;
    Team team = {.job = job, .block = block, .rows = job->n};
    Member alone, *members = threads > 1 ? malloc((size_t)threads * sizeof *members) : &alone;
    char *memory = NULL;
    if (job->total) { /* a span's results wait for the adding up */
        int64_t rows = SPAN * threads < ROOM / (4 * d) ? SPAN * threads : ROOM / (4 * d);
        if (rows < block * threads) rows = block * threads;
        if (rows > job->n) rows = job->n;
        team.rows = rows;
        const int64_t carried = job->nsteps && !job->out ? rows * d * 4 : 0;
        char *at = memory = malloc((size_t)(carried + rows * (k * 12 + 8)) + 8 * ALIGN);
        at += ALIGN - (uintptr_t)at % ALIGN;
        team.span.rows = carried ? grab(&at, carried) : NULL;
        team.span.weight = grab(&at, rows * k * 8);
        team.span.best = grab(&at, rows * 8);
        team.span.index = grab(&at, rows * k * 4);
    }
    int failed = !members || (job->total && !memory) || run_with(&team, members, threads);
    free(memory);
    if (members != &alone) free(members);
    return failed;
}

/* ---------------------------------------------------------------- making a codebook ready */

/* Fill rows, flat, bytes, scale, shift, plain, reach, slip, slack, zero, usable.
 * dead[j]: j has MAX_K copies before it, so it never is among the best. */
void sidkit_pack(Book *book, const uint8_t *dead) {
    const int64_t K = book->size, d = book->d, steps = (d + 3) / 4;
    book->reach = book->slip = book->slack = 0;
    memset(book->rows, 0, (size_t)(book->panels * d * WIDE) * sizeof(float));
    memset(book->flat, 0, (size_t)(K * book->padded) * sizeof(float));
    memset(book->bytes, 128, (size_t)(book->panels * steps * WIDE * 4));
    for (int64_t j = 0; j < book->panels * WIDE; j++) {
        const int64_t p = j / WIDE, lane = j % WIDE;
        if (lane == 0) book->plain[p] = 1;
        book->scale[j] = 0, book->shift[j] = j < K && !dead[j] ? (float)book->offset[j] : -INFINITY;
        if (book->shift[j] != 0) book->plain[p] = 0;
        if (j >= K) continue;
        const double *c = book->exact + j * d;
        double top = 0, square = 0, left = 0;
        for (int64_t i = 0; i < d; i++) {
            top = fabs(c[i]) > top ? fabs(c[i]) : top, square += c[i] * c[i];
            book->rows[(p * d + i) * WIDE + lane] = book->flat[j * book->padded + i] = (float)c[i];
        }
        const float scale = top >= 1e-30 ? (float)(top / 127) : 1;
        for (int64_t i = 0; i < d; i++) {
            double q = rint(c[i] / scale);
            q = q > 127 ? 127 : q >= -127 ? q : -127;
            left += (c[i] - scale * q) * (c[i] - scale * q);
            book->bytes[((p * steps + i / 4) * WIDE + lane) * 4 + i % 4] = (uint8_t)(128 + (int)q);
        }
        book->scale[j] = scale;
        book->reach = fmax(book->reach, sqrt(square) * 1.0001);
        book->slip = fmax(book->slip, sqrt(left) * 1.0001);
        if (book->offset[j] != -INFINITY) book->slack = fmax(book->slack, fabs(book->offset[j]));
    }
    book->usable = book->reach >= 1e-15 && book->reach <= 1e15 && book->slack <= 1e30;
    for (int64_t i = 0; i < MAX_K && i < K; i++) {
        int64_t best = -1;
        for (int64_t j = 0; j < K; j++) {
            int taken = 0;
            for (int64_t t = 0; t < i; t++) taken |= book->zero[t] == j;
            if (!taken && (best < 0 || book->offset[j] > book->offset[best])) best = j;
        }
        book->zero[i] = (int32_t)best;
    }
}

int sidkit_wide(void) { return WIDE; }

/* 0: plain C, 1: AVX2, 2: AVX-512; 4 more with dot products of bytes. */
int sidkit_unit(void) { return (LANES == 16 ? 2 : LANES == 8 ? 1 : 0) + 4 * INT8; }
