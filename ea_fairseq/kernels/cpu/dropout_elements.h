// Dropout of elements, with a random number for each from a hash of its index, so that the backward pass is the same
// function. Included once for each instruction set.
#pragma once
#include "dropout.h"
#include "rows.h"

enum { ELEMENTS_PER_TASK = 1 << 16 };
typedef uint32_t uvec __attribute__((vector_size(4 * LANES)));

// Spreads a change of any bit over all bits: the end of SplitMix64 (Steele et al., OOPSLA 2014).
INLINE uint64_t mixed_bits(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

// The same for 32 bits: the end of MurmurHash3.
INLINE uvec mixed_lanes(uvec x) {
    x = (x ^ (x >> 16)) * 0x85ebca6b;
    x = (x ^ (x >> 13)) * 0xc2b2ae35;
    return x ^ (x >> 16);
}

static int drop_elements(const void *argument, int64_t task) {
    const struct dropout *args = argument;
    int64_t first = task * ELEMENTS_PER_TASK, end = min_int(args->elements, first + ELEMENTS_PER_TASK);
    uint64_t key = mixed_bits((uint64_t)args->seed + ((uint64_t)task + 1) * 0x9e3779b97f4a7c15);
    // An element is left out if its random number is below p; as signed numbers, which vectors compare faster.
    ivec limit = (ivec){0} + (int32_t)((int64_t)(args->p * 4294967296.0) - 2147483648);
    float scale = 1 / (1 - args->p);
    uvec lanes;
    for (int lane = 0; lane < LANES; lane++) lanes[lane] = (uint32_t)key + lane;
    for (int64_t i = first; i < end; i += LANES, lanes += LANES) {
        uvec random = mixed_lanes(mixed_lanes(lanes) ^ (uint32_t)(key >> 32));
        ivec kept = (ivec)(random ^ 0x80000000u) >= limit;
        vec x = masked_load(args->x, i, end - i, args->bf16);
        masked_store(args->y, i, end - i, where(kept, x * scale), args->bf16);
    }
    return 0;
}

int NAMED(dropout)(const struct dropout *args) {
    return parallel_for(&args->pool, ceil_div(args->elements, ELEMENTS_PER_TASK), drop_elements, args);
}
