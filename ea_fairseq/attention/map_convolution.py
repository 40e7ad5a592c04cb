"""What convolutions of attention maps share: padding, the layout in which they are fast, and the size of a kernel."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ea_fairseq.attention.inputs import Inputs


def pad_map(
    maps: Tensor, inputs: Inputs, left: int, right: int, above: int, below: int, name: str = "conv_inputs"
) -> Tensor:
    """Maps (B, K, T, S) with zeros around them or, above a decoding step's, the rows of earlier steps, by a name."""
    earlier = inputs.rows_before(name, maps, above)
    if earlier is not None:
        maps, above = torch.cat([earlier, maps], dim=2), 0
    return F.pad(maps, (left, right, above, below))


def channels_last(logits: Tensor) -> Tensor:
    """In the memory format in which a CPU convolves few channels fastest: its gradient takes a third of the time."""
    return logits.contiguous(memory_format=torch.channels_last) if logits.device.type == "cpu" else logits


def norm(kernels: Tensor) -> float:
    """The Frobenius norm of a convolution's kernels, of half-precision ones, too."""
    return torch.linalg.vector_norm(kernels.detach(), dtype=torch.float32).item()
