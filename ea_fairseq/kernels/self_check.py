"""Before a process uses a kernel in Triton, the kernel is compared with PyTorch; if they differ, PyTorch computes.

The two are compared on maps whose mixing and convolution are exact in every type that kernels take: few bits in scores,
previous logits and weights. So no rounding decides what the ReLU passes on, and what is left are the roundings of the
softmax, of the sums of gradients and of what is stored.
"""

import logging
import threading
from dataclasses import dataclass
from math import ceil, log2
from typing import NamedTuple

import torch
from torch import Tensor

from ea_fairseq.kernels import dispatch, reference
from ea_fairseq.kernels.check_records import Record, device_name
from ea_fairseq.kernels.dispatch import FusedArguments
from ea_fairseq.kernels.triton import evolution as triton_evolution
from ea_fairseq.kernels.triton.evolution import Tiling
from ea_fairseq.user_error import UserError

OUTPUTS = {
    "forward": ("logits", "probabilities", "the convolution's input"),
    "backward": tuple(f"the gradient of {name}" for name in ("scores", "previous logits", "the weight", "the bias")),
}
MASKS = ("padded_keys", "padded_queries", "future")
SUMMED_AT_ONCE = 8  # terms of a sum that a tensor core adds before it rounds; float32 takes three such sums


class Kind(NamedTuple):
    """What distinguishes one compiled kernel from another, and the sizes that its loops depend on.

    Args:
        step: ``forward`` or ``backward``.
        dtype: of the maps.
        kernel: size of the convolution, 0 without one; it begins ``above`` rows and ``left`` columns from an entry.
        operands: names of the optional tensors that there are.
        is_lerp: whether the weights of scores and previous logits add up to 1.
        rows, columns, warps: those of the ``Tiling``.
    """

    step: str
    dtype: torch.dtype
    heads: int
    kernel: int
    above: int
    left: int
    operands: tuple[str, ...]
    is_lerp: bool
    rows: int
    columns: int
    warps: int

    @classmethod
    def of(cls, step: str, maps: Tensor, arguments: FusedArguments, d_logits: Tensor | None) -> "Kind":
        """The kind of the kernel that these maps (B, K, T, S) and arguments are for."""
        heads, queries, keys = maps.shape[1:]
        tiling = Tiling.of(heads, queries, keys)
        operands = [name for name in MASKS if getattr(arguments, name) is not None]
        if arguments.previous_weight:
            operands.append("previous")
        if d_logits is not None:
            operands.append("d_logits")
        has_kernel = arguments.weight is not None
        return cls(
            step,
            maps.dtype,
            heads,
            arguments.kernel if has_kernel else 0,
            arguments.above,
            arguments.left,
            tuple(operands),
            arguments.own_weight + arguments.previous_weight == 1,
            tiling.rows,
            tiling.columns,
            tiling.warps,
        )

    @property
    def type_name(self) -> str:
        """Such as ``bfloat16``."""
        return str(self.dtype).removeprefix("torch.")

    @property
    def title(self) -> str:
        """For people: what a user can tell apart."""
        convolution = f"a {self.kernel}x{self.kernel} convolution" if self.kernel else "no convolution"
        previous = "with" if "previous" in self.operands else "without"
        return f"{self.step}, {self.type_name}, {self.heads} heads, {convolution}, {previous} previous logits"

    @property
    def name(self) -> str:
        """A file name, another one for each kind."""
        numbers = self.heads, self.kernel, self.above, self.left, int(self.is_lerp), self.rows, self.columns, self.warps
        return "-".join([self.step, self.type_name, *map(str, numbers), *self.operands])


verdicts: dict[tuple[torch.device, Kind], bool] = {}  # of this process
warned: set[str] = set()
checking = threading.Lock()


def passes(step: str, maps: Tensor, arguments: FusedArguments, d_logits: Tensor | None = None) -> bool:
    """Whether Triton may compute a step of these maps (B, K, T, S); if nobody knows yet, it is found out.

    While a CUDA graph is captured nothing can be checked: PyTorch takes what has not been checked before.

    Raises:
        UserError: if the kernel fails and ``EA_BACKEND=triton`` leaves no other choice.
    """
    kind = Kind.of(step, maps, arguments, d_logits)
    key = maps.device, kind
    found = verdicts.get(key)
    if found is not None:
        return found
    if maps.is_cuda and torch.cuda.is_current_stream_capturing():
        return dispatch.backend == "triton"
    with checking:
        if key not in verdicts:
            verdicts[key] = judge(kind, maps.device)
    return verdicts[key]


def judge(kind: Kind, device: torch.device) -> bool:
    """What an earlier check has found, or a new one.

    Raises:
        UserError: see :func:`passes`; or if the check has left the GPU unusable for this process.
    """
    record = Record.of(device, kind.name)
    problem = record.problem()
    if problem is None:
        problem = record.keep(kind.title, lambda: compare(kind, device))
    if not problem:
        return True
    sentence = f"on {device_name(device)}, Triton's kernel ({kind.title}) {problem}"
    if not is_usable(device):
        raise UserError(f"{sentence} and leaves the GPU unusable: start again, and PyTorch computes instead")
    if dispatch.backend == "triton":
        raise UserError(f"{sentence}: without EA_BACKEND=triton, PyTorch computes instead")
    if kind.title not in warned:
        warned.add(kind.title)
        logging.getLogger(__name__).warning(
            f"{sentence}; PyTorch computes instead; EA_BACKEND=reference says so from the start"
        )
    return False


def is_usable(device: torch.device) -> bool:
    """Whether a GPU still computes for this process: not after a kernel that has read or written beyond its memory."""
    try:
        return torch.ones(1, device=device).sum().item() == 1
    except RuntimeError:
        return False


def compare(kind: Kind, device: torch.device) -> str:
    """Runs a kernel on small maps and compares what it returns with PyTorch's, in float64 on the same device.

    Returns:
        What is wrong, the end of a sentence that begins with the kernel; empty if nothing is.

    Raises:
        torch.OutOfMemoryError: which says nothing of the kernel.
    """
    maps = SmallMaps.of(kind, device)
    try:
        found = maps.compute(kind.step, triton_evolution, tiling=maps.tiling)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        return f"fails ({type(error).__name__}: {first_line(error)})"
    expected = maps.compute(kind.step, reference, precision=torch.float64)
    # Gradients of parameters are sums over all entries, whose errors add up even if the entries cancel out.
    of_sums = expected[0].double().abs().max().item() * maps.scores[:, 0].numel() ** 0.5
    for name, result, right in zip(OUTPUTS[kind.step], found, expected, strict=False):
        if right is None or not right.numel():
            continue
        if result.shape != right.shape or result.dtype != right.dtype:
            return f"returns {name} as {tuple(result.shape)} of {result.dtype}"
        difference = (result.double() - right.double()).abs().max().item()
        largest = right.double().abs().max().item()
        allowed = tolerance(kind) * (largest if right.shape == maps.scores.shape else max(largest, of_sums))
        if not difference <= allowed:  # NaN is not, either
            return f"differs from PyTorch by {difference:.2g} in {name}, where rounding explains {allowed:.1g}"
    return ""


def first_line(error: Exception) -> str:
    """The beginning of an error's message, for a sentence."""
    line = (str(error).strip().splitlines() or ["no message"])[0][:200]
    return "".join(character if character.isprintable() else "?" for character in line)


def tolerance(kind: Kind) -> float:
    """What rounding explains, in parts of the largest element.

    Two roundings to the type of the maps on either side (logits before the softmax, the gradient that the transposed
    convolution reads, results), sixteen of float32 in the softmax and its gradient, and one for each partial sum of a
    convolution's gradient.
    """
    sums = 3 * ceil(kind.heads * kind.kernel**2 / SUMMED_AT_ONCE)
    return 4 * torch.finfo(kind.dtype).eps + (16 + sums) * torch.finfo(torch.float32).eps


@dataclass(frozen=True)
class SmallMaps:
    """Three sentences: one without padding, one with some, and one that is nothing else.

    There are two bands of queries, of which one is more than a tile high, and keys for more than a tile.
    """

    scores: Tensor
    d_logits: Tensor | None
    d_probabilities: Tensor
    arguments: FusedArguments
    tiling: Tiling

    @classmethod
    def of(cls, kind: Kind, device: torch.device) -> "SmallMaps":
        """Maps that a kernel of this kind takes; for each kind the same."""
        generator = torch.Generator().manual_seed(1)
        queries, keys = 2 * kind.rows + 1, kind.columns + 5
        size = 3, kind.heads, queries, keys

        def draw(*size: int, least: int, most: int, unit: float, dtype: torch.dtype) -> Tensor:
            return (torch.randint(least, most + 1, size, generator=generator) * unit).to(device, dtype)

        def positive_on_average(unit: float) -> Tensor:
            return draw(*size, least=-4, most=12, unit=unit, dtype=kind.dtype)

        scores, previous, d_logits, d_probabilities = map(positive_on_average, (1 / 8, 1 / 16, 1 / 4, 1 / 4))
        weight = bias = None
        if kind.kernel:
            # A sum over a convolution's taps is about as large as one entry. float32 gets more bits than TF32 has.
            bits = 12 if kind.dtype is torch.float32 else 9
            unit = 2.0 ** -(bits + ceil(log2(kind.heads * kind.kernel**2) / 2))
            taps = kind.heads, kind.heads, kind.kernel, kind.kernel
            weight = draw(*taps, least=-(2**bits), most=2**bits, unit=unit, dtype=torch.float32)
            bias = draw(kind.heads, least=-8, most=8, unit=1 / 16, dtype=torch.float32)
        lengths = torch.tensor([1.0, 0.6, 0.0]).unsqueeze(1)
        tensors = {
            "previous": previous,
            "padded_keys": (torch.arange(keys) >= (lengths * keys).round()).to(device),
            "padded_queries": (torch.arange(queries) >= (lengths * queries).round()).to(device),
            "future": torch.ones(queries, keys, dtype=torch.bool, device=device).triu(1),
            "d_logits": d_logits,
        }
        tensors = {name: tensor if name in kind.operands else None for name, tensor in tensors.items()}
        d_logits = tensors.pop("d_logits")
        own_weight, previous_weight = (1.0, 0.0) if tensors["previous"] is None else (0.75, 0.25)
        if not kind.is_lerp:
            own_weight = previous_weight = 1.0
        arguments = FusedArguments(
            weight=weight,
            bias=bias,
            scale=0.5,
            own_weight=own_weight,
            previous_weight=previous_weight,
            beta=0.25,
            above=kind.above,
            left=kind.left,
            **tensors,
        )
        tiling = Tiling(-(-queries // 2), kind.rows, kind.columns, kind.warps)
        return cls(scores, d_logits, d_probabilities, arguments, tiling)

    def compute(self, step: str, module, **options) -> tuple[Tensor | None, ...]:
        """What a module with ``forward`` and ``backward`` returns; the backward pass reads PyTorch's forward pass."""
        if step == "forward":
            return module.forward(self.scores, self.arguments, **options)
        _, *kept = reference.forward(self.scores, self.arguments, precision=torch.float64)
        return module.backward(
            self.d_logits, self.d_probabilities, *kept, self.arguments._replace(previous=None), **options
        )
