// All kernels, compiled for any processor.
#define LANES 8
#define SET plain
#include "attention_backward.h"
#include "translate.h"
