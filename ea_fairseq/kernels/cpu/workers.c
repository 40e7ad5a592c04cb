#include "workers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct work {
    int64_t tasks;
    task_t task;
    const void *argument;
    atomic_int_least64_t next;
    atomic_int failed;
};

static void take_tasks(void *data) {
    struct work *work = data;
    for (;;) {
        int64_t index = atomic_fetch_add_explicit(&work->next, 1, memory_order_relaxed);
        if (index >= work->tasks) return;
        if (work->task(work->argument, index)) atomic_store(&work->failed, 1);
    }
}

int parallel_for(const struct thread_pool *pool, int64_t tasks, task_t task, const void *argument) {
    struct work work = {tasks, task, argument, 0, 0};
    int64_t threads = pool->threads < tasks ? pool->threads : tasks;
    if (pool->parallel && threads > 1) pool->parallel(take_tasks, &work, threads, 0);
    else take_tasks(&work);
    return work.failed;
}

struct block {
    int64_t floats;
    float *memory;
};

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void release(void *data) {
    struct block *block = data;
    free(block->memory);
    free(block);
}

static void make_key(void) { pthread_key_create(&key, release); }

float *thread_scratch(int64_t floats) {
    pthread_once(&once, make_key);
    struct block *block = pthread_getspecific(key);
    if (!block) {
        block = calloc(1, sizeof *block);
        if (!block || pthread_setspecific(key, block)) return NULL;
    }
    if (block->floats < floats) {
        free(block->memory);
        block->floats = (floats + 15) / 16 * 16;
        block->memory = aligned_alloc(64, 4 * block->floats);
        if (!block->memory) block->floats = 0;
    }
    return block->memory;
}
