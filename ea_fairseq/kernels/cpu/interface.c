// The version and layout that interface.py checks before it calls a function of the library.
#include "dropout.h"
#include "fused_arguments.h"
#include "norm.h"
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
    int64_t version;                // changes whenever the meaning of a call changes
    int64_t fused_arguments, step, vectors, dropout, translation;  // sizes of the structs in bytes
    int64_t sources;                // checksum of the files in this folder, or 0
    const char *compiler;
} ea_fairseq_interface = {10, sizeof(struct fused_arguments), sizeof(struct step), sizeof(struct vectors),
                          sizeof(struct dropout), sizeof(struct translation), SOURCES, COMPILER};
