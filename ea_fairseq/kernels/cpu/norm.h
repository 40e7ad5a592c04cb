// The arguments of norm and norm_backward: root mean square norms of vectors, and rotations of their pairs. structs.py
// reads this file.
#pragma once
#include "workers.h"

struct vectors {
    int64_t rows, row_width, vectors, width;  // of x: the first `vectors` of a row's vectors change, the rest is copied
    int64_t groups, rows_per_position;  // vectors that are neighbours share one of so many weights
    int64_t x_bf16, y_bf16;  // whether x and d_x, and y and d_y, are bfloat16 instead of float32
    double eps;
    const void *x;           // (rows, row_width)
    const float *weight;     // (groups, width), or NULL without norms
    const float *rotations;  // (rows / rows_per_position, cosine or sine, width / 2), or NULL
    void *y;                 // the same size as x
    const void *d_y;
    void *d_x;        // the same size as x
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
