"""Compiles the kernels of the GPU operation for an H200, on a machine that need not have one: run as a program.

Triton's interpreter takes much that its compiler does not.
"""

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import KernelInterface

from ea_fairseq.kernels.arguments import FusedArguments
from ea_fairseq.kernels.triton import evolution as triton_evolution

SHARED_MEMORY = 227 * 1024  # bytes of a multiprocessor, which is to hold two programs


class H200:
    """What Triton asks a driver before it compiles."""

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0


compiled_kernels = set()


def compile_only(kernel, grid):
    def launch(*args, **options):
        compiled = kernel.warmup(*args, grid=grid, **options)
        assert 2 * compiled.metadata.shared <= SHARED_MEMORY
        compiled_kernels.add(compiled.hash)

    return launch


def compile_both(dtype: torch.dtype, heads: int, kernel: int, length: int, skip: bool):
    maps = torch.empty(2, heads, length, length, dtype=dtype)
    padding = torch.zeros(2, length, dtype=torch.bool)
    masks = padding, padding, torch.ones(length, length, dtype=torch.bool).triu(1)
    convolution = (torch.empty(heads, heads, kernel, kernel), *torch.empty(2, heads)) if kernel else (None,) * 3
    mixed = (maps, torch.empty(2, heads)) if skip else (None, None)
    arguments = FusedArguments(*mixed, *convolution, *masks, 1.0, 1, 1)
    triton_evolution.forward(maps, arguments)
    for scores, read_again in ((maps, arguments), (None, arguments._replace(previous=None))):
        triton_evolution.backward(mixed[0], maps, maps, maps, maps, scores, read_again)


driver.set_active(H200())
KernelInterface.__getitem__ = compile_only
compile_both(torch.float32, heads=8, kernel=3, length=30, skip=True)
compile_both(torch.float16, heads=8, kernel=0, length=30, skip=False)
compile_both(torch.bfloat16, heads=16, kernel=5, length=1000, skip=False)
compile_both(torch.bfloat16, heads=8, kernel=3, length=30, skip=True)
before = set(compiled_kernels)
for length in (17, 32):  # numbers that Triton would compile anew for, 1 and multiples of 16, are among the sizes
    compile_both(torch.bfloat16, heads=8, kernel=3, length=length, skip=True)
assert compiled_kernels == before
