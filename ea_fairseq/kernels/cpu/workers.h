// Tasks shared among the threads of a pool that the caller brings, and memory that each thread keeps.
#pragma once
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

// GOMP_parallel of an OpenMP runtime: calls work(data) in that many threads at once.
typedef void (*parallel_t)(void (*work)(void *), void *data, unsigned threads, unsigned flags);

struct pool {
    parallel_t parallel;  // NULL: the calling thread alone
    int64_t threads;
};

// Does the part `index` of some work; returns whether it failed.
typedef int (*task_t)(const void *argument, int64_t index);

// Calls task(argument, index) once for each index below `tasks`, in any order and thread; returns whether one failed.
int share(const struct pool *pool, int64_t tasks, task_t task, const void *argument);

// `floats` of memory of the calling thread, aligned to 64 bytes, not cleared; NULL where there is none.
float *scratch(int64_t floats);
