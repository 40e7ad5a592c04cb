#include <string.h>

#include "translation.h"

#ifdef TILES_COMPILE
#include <sys/syscall.h>
#include <unistd.h>
#endif
#ifdef __x86_64__
#include <cpuid.h>

// Registers that the operating system has to save, as bits of XCR0.
enum { AVX_STATE = 0x6, AVX512_STATE = 0xe6 };

static int saves(unsigned state) {
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & state) == state;
}
#endif

// The name of the widest instruction set that this processor has kernels for. CPUID itself is asked, because not every
// compiler's runtime answers __builtin_cpu_supports.
EXPORTED const char *instruction_set(void) {
#ifdef __x86_64__
    unsigned eax, ebx, ecx, edx;
    unsigned base = bit_FMA | bit_OSXSAVE, avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & base) != base || !saves(AVX_STATE)) return "plain";
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || !(ebx & bit_AVX2)) return "plain";
    return (ebx & avx512) == avx512 && saves(AVX512_STATE) ? "avx512" : "avx2";
#else
    return "plain";
#endif
}

#ifdef TILES_COMPILE
// Whether this processor has tiles for bfloat16 and int8, and the operating system lets this process use them.
static int has_tiles(void) {
    const unsigned tiles = 1 << 22 | 1 << 24 | 1 << 25, tile_state = 0x60000;  // AMX-BF16, AMX-TILE, AMX-INT8
    const long request_permission = 0x1023, tile_data = 18;
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx & tiles) == tiles && saves(tile_state) &&
           syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}
#else
static int has_tiles(void) { return 0; }
#endif

// The instruction set for linear layers in bfloat16, or in int8, or NULL if this processor has none.
EXPORTED const char *reduced_instruction_set(int int8) {
#ifdef REDUCED_COMPILES
    unsigned eax, ebx, ecx, edx;
    if (strcmp(instruction_set(), "avx512") || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return NULL;
    int has_int8 = (ecx & bit_AVX512VNNI) != 0;
    int has_bfloat16 = __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax & bit_AVX512BF16);
    if (has_int8 && has_bfloat16 && has_tiles()) return int8 ? "amx_int8" : "amx_bf16";
    if (int8 ? has_int8 : has_bfloat16) return int8 ? "avx512_int8" : "avx512_bf16";
#endif
    (void)int8;
    return NULL;
}
