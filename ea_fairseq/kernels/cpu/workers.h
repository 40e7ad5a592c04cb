// A parallel loop over tasks on the caller's threads, and a scratch buffer for each thread.
#pragma once
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

// GOMP_parallel of an OpenMP runtime: calls work(data) in that many threads at once.
typedef void (*parallel_t)(void (*work)(void *), void *data, unsigned threads, unsigned flags);

struct thread_pool {
    parallel_t parallel;  // NULL: only the calling thread works
    int64_t threads;
};

// Does task number `index`; returns whether it failed.
typedef int (*task_t)(const void *argument, int64_t index);

// Calls task(argument, index) for each index below `tasks`, in any order and thread; returns whether one failed.
int parallel_for(const struct thread_pool *pool, int64_t tasks, task_t task, const void *argument);

// A buffer of the calling thread with `floats` elements, aligned to 64 bytes and not cleared; NULL without memory.
float *thread_scratch(int64_t floats);
