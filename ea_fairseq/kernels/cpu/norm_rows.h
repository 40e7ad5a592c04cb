// Root mean square norms and rotations of the vectors in rows, forwards and backwards. Included once for each
// instruction set.
#pragma once
#include "norm.h"
#include "norm_vector.h"

// A row's rotation, or NULL.
INLINE const float *row_rotation(const struct vectors *args, int64_t row) {
    return args->rotations ? args->rotations + row / args->rows_per_position * args->width : NULL;
}

static int norm_rows(const void *argument, int64_t task) {
    const struct vectors *args = argument;
    int64_t first = task * args->rows_per_task, end = min_int(args->rows, first + args->rows_per_task);
    int64_t width = args->width, changed = args->vectors * width;
    for (int64_t row = first; row < end; row++) {
        const float *x = args->x + row * args->row_width, *rotation = row_rotation(args, row);
        float *y = args->y + row * args->row_width;
        for (int64_t i = 0; i < args->vectors; i++) {
            const float *from = x + i * width;
            float *to = y + i * width;
            if (args->weight) {
                normalize(args->weight + i * args->groups / args->vectors * width, args->eps, width, from, to);
                from = to;
            }
            if (rotation) rotate(rotation, width, 1, from, to);
        }
        memcpy(y + changed, x + changed, 4 * (args->row_width - changed));
    }
    return 0;
}

static int norm_rows_backward(const void *argument, int64_t task) {
    const struct vectors *args = argument;
    int64_t first = task * args->rows_per_task, end = min_int(args->rows, first + args->rows_per_task);
    int64_t width = args->width, changed = args->vectors * width;
    float *d_weight = args->d_weight ? args->d_weight + task * args->groups * width : NULL;
    if (d_weight) memset(d_weight, 0, 4 * args->groups * width);
    for (int64_t row = first; row < end; row++) {
        const float *x = args->x + row * args->row_width, *d_y = args->d_y + row * args->row_width;
        const float *rotation = row_rotation(args, row);
        float *d_x = args->d_x + row * args->row_width;
        for (int64_t i = 0; i < args->vectors; i++) {
            const float *from = d_y + i * width;
            float *to = d_x + i * width;
            int64_t group = i * args->groups / args->vectors * width;
            if (rotation) rotate(rotation, width, -1, from, to), from = to;
            if (args->weight)
                normalize_backward(args->weight + group, args->eps, width, x + i * width, from, to, d_weight + group);
        }
        memcpy(d_x + changed, d_y + changed, 4 * (args->row_width - changed));
    }
    return 0;
}

int NAMED(norm)(const struct vectors *args) {
    return parallel_for(&args->pool, ceil_div(args->rows, args->rows_per_task), norm_rows, args);
}

int NAMED(norm_backward)(const struct vectors *args) {
    return parallel_for(&args->pool, ceil_div(args->rows, args->rows_per_task), norm_rows_backward, args);
}
