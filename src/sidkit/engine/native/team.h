/* A team of threads on one job. */

#define ALIGN 64
#define SPAN 32768 /* rows per thread between two meetings, if together they take at most ROOM bytes: */
#define ROOM (1 << 22) /* they are then added up from cache */

typedef struct {
    Job *job;
    Span span;
    int64_t block, batch, rows; /* of a block, a batch and a span */
    atomic_llong next;    /* the first row that no thread has taken */
    int64_t size, here, round; /* threads of the team; threads that wait; meetings so far */
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
static int64_t lay_tray(Tray *tray, char *at, const Job *job, int64_t batch) {
    char *start = at;
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
    tray->batch = batch;
    return at - start;
}

/* Add a span of n rows to the sums: first every thread settles some batches, then adds up some columns of all. */
static void add_span(Team *team, int64_t number, const Tray *tray, int64_t base, int64_t n) {
    const Job *job = team->job;
    const Span *span = &team->span;
    const int64_t d = job->d, k = job->k, strip = ((d + 7) / 8 + team->size - 1) / team->size * 8;
    const int64_t from = number * strip, to = from + strip < d ? from + strip : d, batch = team->batch;
    const float *x = span->rows ? span->rows : job->out ? job->out + base * d : job->x + base * d;
    for (int64_t first = number * batch; first < n; first += team->size * batch)
        settle_batch(job, tray, span, x + first * d, first, n - first < batch ? n - first : batch);
    meet(team);
    for (int64_t first = 0; first < n; first += batch) {
        const int64_t past = n < first + batch ? n : first + batch;
        const Share *share = span->shares + first * k, *end = span->shares + past * k;
        add_columns(x + first * d, past - first, d, share, end, job->total, from, to, tray->near);
        for (; number == 0 && share < end; share++) job->mass[share->code] += share->weight;
    }
    for (int64_t r = 0; number == 0 && r < n; r++) *job->objective += span->best[r];
}

static void *work(void *argument) {
    Member *member = argument;
    Team *team = member->team;
    Job *job = team->job;
    Desk desk = {0};
    Tray tray = {0};
    pthread_mutex_lock(&team->lock); /* until the team is complete */
    pthread_mutex_unlock(&team->lock);
    const int64_t n = job->n, d = job->d;
    const int64_t size = lay_out(&desk, NULL, job, team->block);
    char *memory = malloc((size_t)(size + (job->total ? lay_tray(&tray, NULL, job, team->batch) : 0)) + ALIGN);
    char *aligned = (char *)(((uintptr_t)memory + ALIGN - 1) / ALIGN * ALIGN);
    if (memory) lay_out(&desk, aligned, job, team->block);
    else team->failed = 1;
    if (memory && job->total) lay_tray(&tray, aligned + size, job, team->batch);
    for (int64_t base = 0; base < n; base += team->rows) {
        const int64_t end = base + team->rows < n ? base + team->rows : n;
        int64_t first = memory ? atomic_fetch_add(&team->next, team->block) : end;
        while (first < end) {
            const int64_t next = atomic_fetch_add(&team->next, team->block);
            const int64_t soon = next < n ? next : n, past = soon + team->block < n ? soon + team->block : n;
            desk.soon = (const char *)(job->x + soon * d), desk.past = (const char *)(job->x + past * d);
            handle(job, &desk, &team->span, base, first, end - first < team->block ? end - first : team->block);
            first = next;
        }
        meet(team);
        if (member->number == 0) atomic_store(&team->next, end);
        if (job->total && !team->failed) add_span(team, member->number, &tray, base, end - base);
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
        const int64_t most = batch_rows(job->book->size, k), share = (rows + threads - 1) / threads;
        const int64_t batches = (share + most - 1) / most; /* of a thread */
        team.batch = ((share + batches - 1) / batches + 7) / 8 * 8;
        team.rows = rows = team.batch * batches * threads;
        const int64_t carried = job->nsteps && !job->out ? rows * d * 4 : 0;
        char *at = memory = malloc((size_t)(carried + rows * (k * 16 + MAX_K * 4 + 9)) + 8 * ALIGN);
        at += ALIGN - (uintptr_t)at % ALIGN;
        team.span.rows = carried ? grab(&at, carried) : NULL;
        team.span.shares = grab(&at, rows * k * (int64_t)sizeof(Share));
        team.span.best = grab(&at, rows * 8);
        team.span.listed = grab(&at, rows * MAX_K * 4);
        team.span.count = grab(&at, rows);
    }
    int failed = !members || (job->total && !memory) || run_with(&team, members, threads);
    free(memory);
    if (members != &alone) free(members);
    return failed;
}
