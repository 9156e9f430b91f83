/* A team of threads on one job. */

#define ALIGN 64
#define ROOM (1 << 24) /* bytes of all rows that are on their way to the sums, so that they are added up from cache */
#define SLOTS 3 /* batches on their way, for every thread */

typedef struct {
    Job *job;
    Span span;            /* slots * batch rows */
    int64_t block, batch; /* rows of a block, and of a batch */
    int64_t batches, slots; /* how many batches there are, and how many may be on their way */
    atomic_llong next;    /* without sums: the first row that no thread has taken */
    int64_t taken, ready; /* batches that some thread has taken; and those settled, with all before them */
    uint8_t *settled;     /* (slots,) batches after those */
    int64_t *added;       /* (size,) batches whose columns a thread has added up */
    int64_t size;         /* threads of the team */
    atomic_int failed;
    pthread_mutex_t lock;
    pthread_cond_t news;
} Team;

typedef struct {
    Team *team;
    int64_t number;
    pthread_t thread;
} Member;

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
    desk->byte_stride = (((d + 63) / 64) | 1) * 64;
    desk->row_stride = spread(d);
    desk->rows = desk->copies = grab(&at, block * spread(d) * 4);
    desk->wide = grab(&at, d * 8);
    if (panels) {
        desk->bytes = grab(&at, block * desk->byte_stride);
        desk->finer = grab(&at, block * desk->byte_stride);
        desk->correct = grab(&at, block * 4);
        desk->correct_finer = grab(&at, block * 4);
        desk->inverse = grab(&at, block * 4);
        desk->bound = grab(&at, block * 4);
        desk->close = grab(&at, block * 4);
        desk->scores = grab(&at, (block < TILE ? TILE : block) * panels * WIDE * 4);
        desk->maxima = grab(&at, block * MAXIMA * 4);
        desk->ahead = grab(&at, block * 4);
        desk->all = grab(&at, block * (int64_t)sizeof(List));
        desk->lists = grab(&at, (block + 1) * (int64_t)sizeof(List));
        desk->candidates = grab(&at, block * (panels * WIDE + SPARE) * 4);
        desk->chosen = grab(&at, block * (panels * WIDE + SPARE) * 4);
        desk->rough = grab(&at, block * (panels * WIDE + SPARE) * 4);
        desk->fine = grab(&at, block * (panels * WIDE + SPARE) * 4);
        desk->sharp = grab(&at, (panels * WIDE + 4) * 8);
        desk->index = grab(&at, block * MAX_K * 4);
        desk->best = grab(&at, block * MAX_K * 8);
        desk->square = grab(&at, block * 8);
    }
    return at - start;
}

/* Lay a tray out from `at` on; returns its size. */
static int64_t lay_tray(Tray *tray, char *at, const Team *team) {
    char *start = at;
    const Job *job = team->job;
    const int64_t batch = (team->batch + 7) / 8 * 8;
    int64_t levels = 1;
    for (int64_t width = job->d; width > LEAF; width -= half_of(width)) levels++;
    tray->pairs = grab(&at, (batch * MAX_K + 4) * (int64_t)sizeof(Pair));
    tray->counts = grab(&at, job->book->size * 4);
    tray->near = grab(&at, batch * LEAF * 4);
    tray->sums = grab(&at, levels * (batch * (MAX_K + 1) + 8) * 8);
    tray->score = grab(&at, batch * MAX_K * 8);
    tray->square = grab(&at, batch * 8);
    tray->best = grab(&at, batch * 8);
    tray->filled = grab(&at, batch);
    tray->dropped = grab(&at, batch * MAX_K * 4);
    tray->settled = grab(&at, team->slots * (int64_t)sizeof(Settled));
    tray->batch = batch;
    return at - start;
}

/* The rows of batch b, as they are added up. */
static const float *rows_of(const Team *team, int64_t b) {
    const Job *job = team->job;
    if (team->span.rows) return team->span.rows + b % team->slots * team->batch * job->d;
    return (job->out ? job->out : job->x) + b * team->batch * job->d;
}

/* Screen and settle batch b. */
static void take_batch(Team *team, Desk *desk, const Tray *tray, int64_t b) {
    const Job *job = team->job;
    const int64_t d = job->d, start = b * team->batch, at = b % team->slots * team->batch, block = team->block;
    const int64_t end = start + team->batch < job->n ? start + team->batch : job->n;
    const int64_t another = start + team->size * team->batch < job->n ? start + team->size * team->batch : job->n;
    for (int64_t first = start; first < end; first += block) {
        const int64_t n = end - first < block ? end - first : block, soon = first + n < end ? first + n : another;
        const int64_t past = soon + block < job->n ? soon + block : job->n;
        desk->soon = (const char *)(job->x + soon * d), desk->past = (const char *)(job->x + past * d);
        handle(job, desk, &team->span, start - at, first, n);
    }
    settle_batch(job, tray, &team->span, rows_of(team, b), at, end - start);
}

/* Add up columns of batches from .. past. */
static void add_batches(const Team *team, int64_t number, const Tray *tray, int64_t from, int64_t past) {
    const Job *job = team->job;
    const Span *span = &team->span;
    const int64_t d = job->d, k = job->k, strip = ((d + 7) / 8 + team->size - 1) / team->size * 8;
    const int64_t left = number * strip, right = left + strip < d ? left + strip : d;
    for (int64_t b = from; b < past; b++) {
        const int64_t at = b % team->slots * team->batch, rest = job->n - b * team->batch;
        const int64_t n = rest < team->batch ? rest : team->batch;
        const Share *share = span->shares + at * k, *end = share + n * k;
        tray->settled[b - from] = (Settled){rows_of(team, b), n, share, end};
        for (; number == 0 && share < end; share++) job->mass[share->code] += share->weight;
        for (int64_t r = 0; number == 0 && r < n; r++) *job->objective += span->best[at + r];
    }
    add_columns(tray->settled, past - from, d, job->total, left, right, tray->near);
}

/* All batches to the sums. Any thread screens and settles any batch; each adds up columns of its own, of all batches in
 * their order, as soon as there are some to be added at once. */
static void sum_up(Team *team, int64_t number, Desk *desk, const Tray *tray) {
    int64_t *added = team->added + number;
    pthread_mutex_lock(&team->lock);
    while (*added < team->batches && !team->failed) {
        const int64_t ready = team->ready, waiting = ready - *added;
        int64_t least = *added;
        for (int64_t t = 0; t < team->size; t++) least = team->added[t] < least ? team->added[t] : least;
        const int more = team->taken < team->batches && team->taken < least + team->slots;
        if (waiting >= team->size || (waiting && !more)) {
            pthread_mutex_unlock(&team->lock);
            add_batches(team, number, tray, *added, ready);
            pthread_mutex_lock(&team->lock);
            *added = ready;
            pthread_cond_broadcast(&team->news);
        } else if (more) {
            const int64_t b = team->taken++;
            pthread_mutex_unlock(&team->lock);
            take_batch(team, desk, tray, b);
            pthread_mutex_lock(&team->lock);
            team->settled[b % team->slots] = 1;
            for (uint8_t *next; *(next = team->settled + team->ready % team->slots); team->ready++) *next = 0;
            pthread_cond_broadcast(&team->news);
        } else pthread_cond_wait(&team->news, &team->lock);
    }
    pthread_mutex_unlock(&team->lock);
}

/* All rows where nothing is added up. */
static void sweep_up(Team *team, Desk *desk) {
    const Job *job = team->job;
    const int64_t n = job->n, d = job->d, block = team->block;
    for (int64_t first = atomic_fetch_add(&team->next, block), next; first < n; first = next) {
        next = atomic_fetch_add(&team->next, block);
        const int64_t soon = next < n ? next : n, past = soon + block < n ? soon + block : n;
        desk->soon = (const char *)(job->x + soon * d), desk->past = (const char *)(job->x + past * d);
        handle(job, desk, &team->span, 0, first, n - first < block ? n - first : block);
    }
}

static void *work(void *argument) {
    Member *member = argument;
    Team *team = member->team;
    Job *job = team->job;
    Desk desk = {0};
    Tray tray = {0};
    pthread_mutex_lock(&team->lock); /* until the team is complete */
    pthread_mutex_unlock(&team->lock);
    const int64_t size = lay_out(&desk, NULL, job, team->block);
    char *memory = malloc((size_t)(size + (job->total ? lay_tray(&tray, NULL, team) : 0)) + ALIGN);
    char *aligned = (char *)(((uintptr_t)memory + ALIGN - 1) / ALIGN * ALIGN);
    if (memory) {
        lay_out(&desk, aligned, job, team->block);
        if (job->total) {
            lay_tray(&tray, aligned + size, team);
            sum_up(team, member->number, &desk, &tray);
        } else sweep_up(team, &desk);
    }
    free(memory);
    pthread_mutex_lock(&team->lock);
    if (!memory) {
        team->failed = 1;
        pthread_cond_broadcast(&team->news);
    }
    job->rescored += desk.rescored, job->swept += desk.swept;
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

static int run_with(Team *team, Member *members, int64_t threads) {
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->news, NULL);
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
    pthread_cond_destroy(&team->news);
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
    Team team = {.job = job, .block = block};
    Member alone, *members = threads > 1 ? malloc((size_t)threads * sizeof *members) : &alone;
    char *memory = NULL;
    if (job->total) { /* batches, as many for each thread, and of whole blocks */
        int64_t slots = SLOTS * threads, most = batch_rows(job->book->size, k, d);
        if (most > ROOM / (4 * d) / slots) most = ROOM / (4 * d) / slots;
        if (most < block) most = block;
        const int64_t rounds = (job->n + most * threads - 1) / (most * threads), share = rounds * threads;
        team.batch = ((job->n + share - 1) / share + block - 1) / block * block;
        team.batches = (job->n + team.batch - 1) / team.batch;
        team.slots = slots = slots < team.batches ? slots : team.batches;
        const int64_t rows = slots * team.batch, carried = job->nsteps && !job->out ? rows * d * 4 : 0;
        const int64_t bytes = carried + rows * (k * 16 + MAX_K * 4 + 9) + slots + threads * 8 + 8 * ALIGN;
        char *at = memory = calloc((size_t)bytes, 1);
        at += ALIGN - (uintptr_t)at % ALIGN;
        team.span.rows = carried ? grab(&at, carried) : NULL;
        team.span.shares = grab(&at, rows * k * (int64_t)sizeof(Share));
        team.span.best = grab(&at, rows * 8);
        team.span.listed = grab(&at, rows * MAX_K * 4);
        team.span.count = grab(&at, rows);
        team.settled = grab(&at, slots);
        team.added = grab(&at, threads * 8);
    }
    int failed = !members || (job->total && !memory) || run_with(&team, members, threads);
    free(memory);
    if (members != &alone) free(members);
    return failed;
}
