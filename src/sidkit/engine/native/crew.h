/* Threads that take numbered pieces of work, each with memory of its own. */

typedef struct Crew Crew;
struct Crew {
    int (*piece)(const void *job, void *memory, int64_t number); /* 0, or 1 when it failed */
    const void *job;
    int64_t pieces, bytes; /* bytes of memory per thread */
    atomic_llong next;
    atomic_int failed;
};

static void *take_pieces(void *argument) {
    Crew *crew = argument;
    char *memory = malloc((size_t)crew->bytes + ALIGN);
    char *aligned = (char *)(((uintptr_t)memory + ALIGN - 1) / ALIGN * ALIGN);
    if (!memory) crew->failed = 1;
    for (int64_t number; memory && !crew->failed && (number = atomic_fetch_add(&crew->next, 1)) < crew->pieces;)
        if (crew->piece(crew->job, aligned, number)) crew->failed = 1;
    free(memory);
    return NULL;
}

#define MOST_THREADS 256

static int run_crew(Crew *crew, int64_t threads) {
    pthread_t others[MOST_THREADS];
    int64_t started = 0;
    if (threads > crew->pieces) threads = crew->pieces;
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    while (started + 1 < threads && !pthread_create(others + started, NULL, take_pieces, crew)) started++;
    take_pieces(crew);
    while (started > 0) pthread_join(others[--started], NULL);
    return crew->failed;
}
