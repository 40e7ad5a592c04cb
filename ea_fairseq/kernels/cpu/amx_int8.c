// Translation with linear layers in int8, compiled for processors with tiles.
#include "translation.h"
#ifdef TILES_COMPILE
#ifdef __clang__
#pragma clang attribute push( \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,amx-tile,amx-int8,avx2,fma"))), \
    apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,amx-tile,amx-int8,avx2,fma")
#endif
#define LANES 16
#define SET amx_int8
#define REDUCED
#define INT8
#define TILES
#include "translate.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
