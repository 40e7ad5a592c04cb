"""What evolves logits into probabilities, forward and backward, by the equations in float64: for kernels to equal."""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from hypothesis import assume
from hypothesis import strategies as st
from torch import Tensor

from ea_fairseq.kernels.arguments import FusedArguments
from ea_fairseq.kernels.window import CROSS_WINDOW, ENCODER_WINDOW, WINDOWS, Window

CONVOLUTIONS = [(ENCODER_WINDOW, 1), *((window, kernel) for window in WINDOWS.values() for kernel in (3, 5))]
OPTIONAL = ["previous", "convolution", "padded_keys", "padded_queries", "future", "d_logits", "learned"]
MIXES = [(0.6, 0.4), (0.6, 0.5), (0.5, -0.4)]  # weights of own and of previous logits; heads have one after the other
mixes = st.sampled_from(MIXES)
sets_of_absent = st.frozensets(st.sampled_from(OPTIONAL))

RESULTS = ("logits", "probabilities", "conv_input", "scores", "previous", "mix", "weight", "bias", "beta")


@dataclass
class Case:
    """What the operation reads: maps (B, K, T, S), masks, weights, the convolution; and its results' gradients."""

    scores: Tensor
    previous: Tensor | None
    mix: Tensor | None
    weight: Tensor | None
    bias: Tensor | None
    beta: Tensor | None
    padded_keys: Tensor | None
    padded_queries: Tensor | None
    future: Tensor | None
    window: Window
    d_logits: Tensor | None
    d_probabilities: Tensor
    scale: float = 0.7
    is_learned: bool = True  # the weights of heads have gradients
    stored: Tensor | None = None  # the convolution's input, as the operation has rounded it
    products: dict[str, float] = field(default_factory=dict)  # norms of the products that some gradients are sums of
    largest: float = 0.0  # of the logits, whose rounding is that of probabilities and of gradients through them

    def __post_init__(self):
        """Fills with NaN what must not be read."""
        for name in ("scores", "previous", "d_logits"):
            if (tensor := getattr(self, name)) is not None:
                setattr(self, name, tensor.masked_fill(~self.real, torch.nan))
        self.d_probabilities = self.d_probabilities.masked_fill(~self.visible, torch.nan)

    @property
    def visible(self) -> Tensor:
        """(B, 1, T, S), true where the softmax sees the key."""
        hidden = torch.zeros_like(self.scores[:, :1], dtype=torch.bool)
        if self.padded_keys is not None:
            hidden = hidden | self.padded_keys[:, None, None, :]
        return ~hidden if self.future is None else ~(hidden | self.future)

    @property
    def real(self) -> Tensor:
        """(B, 1, T, S), false where an entry is blank."""
        return self.visible if self.padded_queries is None else self.visible & ~self.padded_queries[:, None, :, None]

    @property
    def margins(self) -> tuple[int, int, int, int]:
        return self.window.padding(1 if self.weight is None else self.weight.size(-1))

    @property
    def arguments(self) -> FusedArguments:
        left, _, above, _ = self.margins
        read = self.previous, self.mix, self.weight, self.bias, self.beta
        return FusedArguments(*read, self.padded_keys, self.padded_queries, self.future, self.scale, above, left)

    @property
    def summed(self) -> tuple[int, ...]:
        """The dimensions of maps over which a gradient of weights is a sum."""
        return (3,) if self.arguments.by_word else (0, 2, 3)

    def spread(self, weights: Tensor) -> Tensor:
        """Weights (..., K) as (..., K, 1, 1), or (..., B, K, T) as (..., B, K, T, 1)."""
        return weights[..., None] if self.arguments.by_word else weights[..., None, None]

    def operate(self, kernels, *options) -> list[Tensor | None]:
        """Logits, probabilities, the convolution's input, gradients of scores, previous, mix, weight, bias and beta.

        Args:
            kernels: a module with ``forward`` and ``backward``; options: what they take besides.
        """
        logits, *kept = kernels.forward(self.scores, self.arguments, *options)
        gradients = kernels.backward(self.d_logits, self.d_probabilities, *kept, *self.read_again, *options)
        probabilities, self.stored, _ = kept
        results = [logits, probabilities, self.stored, *gradients]
        return [result if result is not None and result.numel() else None for result in results]

    @property
    def read_again(self) -> tuple[Tensor | None, FusedArguments]:
        """Scores and arguments as a backward pass reads them: if weights are fixed, no scores and previous logits."""
        if self.is_learned:
            return self.scores, self.arguments
        return None, self.arguments._replace(previous=None)

    def expected(self) -> list[Tensor | None]:
        """The same by the equations in float64; the convolution reads what the operation has stored."""
        leaves = [self.scores, self.previous, self.mix, self.weight, self.bias, self.beta]
        leaves = [None if tensor is None else tensor.double().requires_grad_() for tensor in leaves]
        scores, previous, mix, weight, bias, beta = leaves
        mixed = own = self.scale * scores
        if previous is not None:
            own_weight, previous_weight = self.spread(mix)
            mixed = own_weight * mixed.where(self.real, 0.0) + previous_weight * previous.where(self.real, 0.0)
        logits = mixed = combined = mixed.where(self.real, 0.0)
        if weight is None:
            mixed = None
        else:
            read_back = mixed if self.stored is None else mixed + (self.stored - mixed).detach()
            convolved = F.conv2d(F.pad(read_back, self.margins), weight, bias)
            assume(convolved.abs().min() > 1e-5)  # at ReLU's kink either gradient is right
            evolved = self.spread(beta) * convolved.relu() + (1 - self.spread(beta)) * read_back
            logits = evolved.where(self.real, 0.0)
        self.largest = logits.detach().abs().max().item()
        seen = logits.where(self.visible, -torch.inf).where(self.visible.any(-1, keepdim=True), 0.0)
        probabilities = seen.softmax(-1)  # of all keys alike in a row without visible ones
        value = (self.d_probabilities.double().where(self.visible, 0.0) * probabilities).sum()
        if self.d_logits is not None:
            value = value + (self.d_logits.double().where(self.real, 0.0) * logits).sum()
        maps = [combined, logits, *(x for x in leaves if x is not None)]
        d_combined, d_evolved, *gradients = torch.autograd.grad(value, maps)
        gradients = iter(gradients)
        found = [None if tensor is None else next(gradients) for tensor in leaves]
        # Gradients of mix and beta are sums of products that cancel out: their rounding is relative to the products.
        if mix is not None:
            products = [(d_combined * maps).where(self.real, 0.0).abs().sum(self.summed) for maps in (own, previous)]
            self.products["mix"] = torch.stack(products).detach().norm().item()
        if weight is not None and self.arguments.by_word:
            products = [(d_evolved * maps).where(self.real, 0.0).abs().sum(3) for maps in (convolved, read_back)]
            self.products["beta"] = torch.stack(products).detach().norm().item()
        elif weight is not None:
            products = (weight * found[3]).abs().sum((1, 2, 3)) + (bias * found[4]).abs()
            self.products["beta"] = (products / beta).norm().item()
        if not self.is_learned:
            found[2] = found[5] = None
        return [logits, probabilities, mixed, *found]


def draw_case(
    seed: int,
    sizes: tuple[int, int, int, int],
    window: Window = CROSS_WINDOW,
    kernel: int = 3,
    dtype: torch.dtype = torch.float32,
    absent: frozenset[str] = frozenset(),
    weights: tuple[float, float] = MIXES[0],
    device: str = "cpu",
    by_word: bool = False,
) -> Case:
    """Of sizes (B, K, T, S), without what is named in ``absent``; weights of heads, or of each query of each head."""
    generator = torch.Generator().manual_seed(seed)
    sentences, heads, queries, keys = sizes
    tensors = {name: torch.randn(sizes, generator=generator) for name in ("scores", "previous")}
    tensors |= {name: torch.randn(sizes, generator=generator) for name in ("d_logits", "d_probabilities")}
    tensors = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    tensors["weight"] = torch.randn(heads, heads, kernel, kernel, generator=generator)
    tensors["bias"] = torch.randn(heads, generator=generator)
    tensors["padded_keys"] = torch.rand(sentences, keys, generator=generator) < 0.3
    tensors["padded_queries"] = torch.rand(sentences, queries, generator=generator) < 0.3
    tensors["future"] = torch.ones(queries, keys, dtype=torch.bool).triu(1)
    mixes_of_heads = [MIXES[(MIXES.index(weights) + head) % len(MIXES)] for head in range(heads)]
    tensors["mix"] = torch.tensor(mixes_of_heads).T.contiguous()
    tensors["beta"] = torch.tensor([0.3, 0.6, 0.9]).repeat(heads)[:heads]
    if by_word:
        alpha, tensors["beta"] = torch.rand(2, *sizes[:3], generator=generator)
        tensors["mix"] = torch.stack([1 - alpha if weights == MIXES[0] else alpha - 0.5, alpha])
    if "convolution" in absent:
        absent = absent | {"weight", "bias", "beta"}
    if "previous" in absent:
        absent = absent | {"mix"}
    tensors = {name: None if name in absent else tensor.to(device) for name, tensor in tensors.items()}
    return Case(window=window, is_learned="learned" not in absent, **tensors)


def assert_close(
    results: list[Tensor | None], expected: list[Tensor | None], tolerance: float, case: Case | None = None
):
    """Differences are within a part of what is expected, or of 1; of mix and beta, of the products that are summed.

    Rounding of a logit x, some x 2^-23, is a relative error of its probability; 1e-6 of float32 allows for |x| <= 8.
    """
    names = RESULTS if case is not None else [""] * len(expected)
    for name, result, right in zip(names, results, expected, strict=True):
        assert (result is None) == (right is None)
        if result is not None:
            size = max(right.norm().item(), 1.0)
            if case is not None:
                size = max(size, case.products.get(name, 0.0))
                size *= 1.0 if name in ("logits", "conv_input") else max(1.0, case.largest / 8)
            difference = (result.double() - right).norm().item()
            assert difference <= tolerance * size, f"differs by {difference:.2g}"
