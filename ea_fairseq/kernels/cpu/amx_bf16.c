// Translation with linear layers in bfloat16, compiled for processors with tiles.
#include "translation.h"
#ifdef TILES_COMPILE
#ifdef __clang__
#pragma clang attribute push( \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16,avx2,fma"))), \
    apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16,avx2,fma")
#endif
#define LANES 16
#define SET amx_bf16
#define REDUCED
#define TILES
#include "translate.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
