"""Attention maps on which a kernel is compared with PyTorch, and how far they may differ.

Scores, previous logits and weights have so few bits that mixing and convolution are exact in every type that kernels
take. So no rounding decides what the ReLU passes on; only the softmax, the sums of gradients and what is stored are
rounded.
"""

from dataclasses import dataclass
from math import ceil, log2
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from ea_fairseq.kernels import reference
from ea_fairseq.kernels.arguments import FusedArguments
from ea_fairseq.kernels.kind import Kind
from ea_fairseq.kernels.triton.evolution import Tiling

OUTPUTS = {
    "forward": ("logits", "probabilities", "the convolution's input"),
    "backward": tuple(
        f"the gradient of {name}"
        for name in ("scores", "previous logits", "the weights of heads", "the weight", "the bias", "beta")
    ),
}
SUMMED_AT_ONCE = 8  # terms of a sum that a tensor core adds before it rounds; float32 takes three such sums


def tolerance(kind: Kind) -> float:
    """What rounding explains, in parts of the largest element.

    Two roundings to the type of the maps on either side (logits before the softmax, the gradient that the transposed
    convolution reads, results), sixteen of float32 in the softmax and its gradient, and one for each partial sum of a
    convolution's gradient.
    """
    sums = 3 * ceil(kind.heads * kind.kernel**2 / SUMMED_AT_ONCE)
    return 4 * torch.finfo(kind.dtype).eps + (16 + sums) * torch.finfo(torch.float32).eps


@dataclass(frozen=True)
class Difference:
    """Between a kernel's output and PyTorch's.

    Args:
        output: its name.
        largest: of an element.
        allowed: what rounding explains.
    """

    output: str
    largest: float
    allowed: float

    @property
    def is_rounding(self) -> bool:
        """Whether rounding explains it; never NaN."""
        return self.largest <= self.allowed

    def __str__(self) -> str:
        return (
            f"differs from PyTorch by {self.largest:.2g} in {self.output}, where rounding explains {self.allowed:.1g}"
        )


@dataclass(frozen=True)
class SampleMaps:
    """Maps that a kernel of a kind takes; of three sentences one has no padding, one has some, and one is nothing else.

    Args:
        tiling: by which the kernel is to divide them, None to leave that to it.
    """

    kind: Kind
    scores: Tensor
    d_logits: Tensor | None
    d_probabilities: Tensor
    arguments: FusedArguments
    tiling: Tiling | None

    @classmethod
    def small(cls, kind: Kind, device: torch.device) -> "SampleMaps":
        """Two bands of queries, of which one is more than a tile high, and keys for more than a tile."""
        queries, keys = 2 * kind.rows + 1, kind.columns + 5
        tiling = Tiling(-(-queries // 2), kind.rows, kind.columns, kind.warps)
        return cls.of(kind, device, (3, queries, keys), tiling)

    @classmethod
    def of(
        cls, kind: Kind, device: torch.device, size: tuple[int, int, int], tiling: Tiling | None = None
    ) -> "SampleMaps":
        """Maps of B sentences, T queries and S keys; the same values for the same kind and size."""
        generator = torch.Generator().manual_seed(1)
        sentences, queries, keys = size

        def draw(*size: int, least: int, most: int, unit: float, dtype: torch.dtype) -> Tensor:
            return (torch.randint(least, most + 1, size, generator=generator) * unit).to(device, dtype)

        def positive_on_average(unit: float) -> Tensor:
            return draw(sentences, kind.heads, queries, keys, least=-4, most=12, unit=unit, dtype=kind.dtype)

        scores, previous, d_logits, d_probabilities = map(positive_on_average, (1 / 8, 1 / 16, 1 / 4, 1 / 4))
        weight = bias = beta = mix = None
        if kind.kernel:
            beta = torch.tensor([0.25, 0.5]).to(device).repeat(kind.heads)[: kind.heads]
            # A sum over a convolution's taps is about as large as one entry. float32 gets more bits than TF32 has.
            bits = 12 if kind.dtype is torch.float32 else 9
            unit = 2.0 ** -(bits + ceil(log2(kind.heads * kind.kernel**2) / 2))
            taps = kind.heads, kind.heads, kind.kernel, kind.kernel
            weight = draw(*taps, least=-(2**bits), most=2**bits, unit=unit, dtype=torch.float32)
            bias = draw(kind.heads, least=-8, most=8, unit=1 / 16, dtype=torch.float32)
        lengths = torch.tensor([1.0, 0.6, 0.0])[torch.arange(sentences) % 3].unsqueeze(1)
        operands: dict[str, Any] = {
            "previous": previous,
            "padded_keys": (torch.arange(keys) >= (lengths * keys).round()).to(device),
            "padded_queries": (torch.arange(queries) >= (lengths * queries).round()).to(device),
            "future": torch.ones(queries, keys, dtype=torch.bool, device=device).triu(1),
            "d_logits": d_logits,
        }
        operands = {name: tensor if name in kind.operands else None for name, tensor in operands.items()}
        d_logits = operands.pop("d_logits")
        if operands["previous"] is not None:  # weights of heads that do and do not add up to 1
            mix = torch.tensor([[0.75, 1.0], [0.25, 1.0]]).to(device).repeat(1, kind.heads)[:, : kind.heads]
        arguments = FusedArguments(
            mix=mix.contiguous() if mix is not None else None,
            weight=weight,
            bias=bias,
            beta=beta,
            scale=0.5,
            above=kind.above,
            left=kind.left,
            **operands,
        )
        return cls(kind, scores, d_logits, d_probabilities, arguments, tiling)

    def compute(
        self, module: ModuleType, saved: tuple[Tensor, ...] | None = None, **options: Any
    ) -> tuple[Tensor | None, ...]:
        """What the step of this kind returns, by a module with ``forward`` and ``backward``.

        Args:
            saved: what the forward pass has saved for the backward pass: probabilities, the convolution's input and the
                bits of its ReLU; by default what PyTorch's has saved.
        """
        if self.kind.step == "forward":
            return module.forward(self.scores, self.arguments, **options)
        if saved is None:
            saved = reference.forward(self.scores, self.arguments, precision=torch.float64)[1:]
        learned = self.scores, self.arguments
        fixed = None, self.arguments._replace(previous=None)
        read = learned if self.kind.is_learned else fixed
        return module.backward(self.d_logits, self.d_probabilities, *saved, *read, **options)

    def differences(self, found: tuple[Tensor | None, ...]) -> list[Difference]:
        """How far outputs of a kernel are from PyTorch's, which computes in float64."""
        expected = self.compute(reference, precision=torch.float64)
        # Gradients of parameters are sums over all entries, whose errors add up even if the entries cancel out.
        assert expected[0] is not None
        of_sums = expected[0].double().abs().max().item() * self.scores[:, 0].numel() ** 0.5
        differences = []
        for output, result, right in zip(OUTPUTS[self.kind.step], found, expected, strict=False):
            if right is None or not right.numel():
                continue
            largest = right.double().abs().max().item()
            allowed = tolerance(self.kind) * (largest if right.shape == self.scores.shape else max(largest, of_sums))
            if result is None or result.shape != right.shape or result.dtype != right.dtype:
                differences.append(Difference(output, float("inf"), allowed))
            else:
                differences.append(Difference(output, (result.double() - right.double()).abs().max().item(), allowed))
        return differences
