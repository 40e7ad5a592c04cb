// What the caller checks before it calls anything here; read by interface.py.
#include "fused_arguments.h"
#include "step.h"
#include "translation.h"

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif
#ifndef SOURCES
#define SOURCES 0
#endif

EXPORTED const struct {
    int64_t version;                // another one where a call means something else than before
    int64_t fused_arguments, step, translation;  // bytes of the structs
    int64_t sources;                // checksum of the files in this folder, 0: not told
    const char *compiler;
} ea_fairseq_interface = {6, sizeof(struct fused_arguments), sizeof(struct step), sizeof(struct translation), SOURCES,
                          COMPILER};
