#define LANES 8
#define SET plain
#include "attention_kernels.h"
