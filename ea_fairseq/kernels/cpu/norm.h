// The arguments of norm and norm_backward: root mean square norms of vectors, and rotations of their pairs. structs.py
// reads this file.
#pragma once
#include "workers.h"

struct vectors {
    int64_t rows, row_width, vectors, width;  // of x: the first `vectors` of a row's vectors change, the rest is copied
    int64_t groups, rows_per_position;  // vectors that are neighbours share one of so many weights
    double eps;
    const float *x;          // (rows, row_width)
    const float *weight;     // (groups, width), or NULL without norms
    const float *rotations;  // (rows / rows_per_position, cosine or sine, width / 2), or NULL
    float *y;                // the same size as x
    const float *d_y;
    float *d_x;       // the same size as x
    float *d_weight;  // (tasks, groups, width): sums over the rows of each task; NULL without norms
    int64_t rows_per_task;
    struct thread_pool pool;
};

// Each returns 0.
#define DECLARE_NORM(set)                                \
    EXPORTED int norm_##set(const struct vectors *args); \
    EXPORTED int norm_backward_##set(const struct vectors *args);
DECLARE_NORM(avx512)
DECLARE_NORM(avx2)
DECLARE_NORM(plain)
