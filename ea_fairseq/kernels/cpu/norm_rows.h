// Root mean square norms and rotations of the vectors in rows, forwards and backwards. Included once for each
// instruction set.
#pragma once
#include "norm.h"
#include "norm_vector.h"

// A row's rotation, or NULL.
INLINE const float *row_rotation(const struct vectors *args, int64_t row) {
    return args->rotations ? args->rotations + row / args->rows_per_position * args->width : NULL;
}

// Copies elements at indices of tensors of float32 or bfloat16.
INLINE void convert(const void *from, int64_t from_index, int64_t from_bf16, void *to, int64_t to_index, int64_t to_bf16,
                    int64_t count) {
    for (int64_t i = 0; i < count; i += LANES)
        masked_store(to, to_index + i, count - i, masked_load(from, from_index + i, count - i, from_bf16), to_bf16);
}

static int norm_rows(const void *argument, int64_t task) {
    const struct vectors *args = argument;
    int64_t first = task * args->rows_per_task, end = min_int(args->rows, first + args->rows_per_task);
    int64_t width = args->width, rest = args->row_width - args->vectors * width;
    float vector[width];
    for (int64_t row = first; row < end; row++) {
        const float *rotation = row_rotation(args, row);
        int64_t index = row * args->row_width;
        for (int64_t i = 0; i < args->vectors; i++, index += width) {
            convert(args->x, index, args->x_bf16, vector, 0, 0, width);
            if (args->weight)
                normalize(args->weight + i * args->groups / args->vectors * width, args->eps, width, vector, vector);
            if (rotation) rotate(rotation, width, 1, vector, vector);
            convert(vector, 0, 0, args->y, index, args->y_bf16, width);
        }
        convert(args->x, index, args->x_bf16, args->y, index, args->y_bf16, rest);
    }
    return 0;
}

static int norm_rows_backward(const void *argument, int64_t task) {
    const struct vectors *args = argument;
    int64_t first = task * args->rows_per_task, end = min_int(args->rows, first + args->rows_per_task);
    int64_t width = args->width, rest = args->row_width - args->vectors * width;
    float *d_weight = args->d_weight ? args->d_weight + task * args->groups * width : NULL;
    if (d_weight) memset(d_weight, 0, 4 * args->groups * width);
    float vector[width], gradient[width];
    for (int64_t row = first; row < end; row++) {
        const float *rotation = row_rotation(args, row);
        int64_t index = row * args->row_width;
        for (int64_t i = 0; i < args->vectors; i++, index += width) {
            int64_t group = i * args->groups / args->vectors * width;
            convert(args->d_y, index, args->y_bf16, gradient, 0, 0, width);
            if (rotation) rotate(rotation, width, -1, gradient, gradient);
            if (args->weight) {
                convert(args->x, index, args->x_bf16, vector, 0, 0, width);
                normalize_backward(args->weight + group, args->eps, width, vector, gradient, gradient,
                                   d_weight + group);
            }
            convert(gradient, 0, 0, args->d_x, index, args->x_bf16, width);
        }
        convert(args->d_y, index, args->y_bf16, args->d_x, index, args->x_bf16, rest);
    }
    return 0;
}

int NAMED(norm)(const struct vectors *args) {
    return parallel_for(&args->pool, ceil_div(args->rows, args->rows_per_task), norm_rows, args);
}

int NAMED(norm_backward)(const struct vectors *args) {
    return parallel_for(&args->pool, ceil_div(args->rows, args->rows_per_task), norm_rows_backward, args);
}
