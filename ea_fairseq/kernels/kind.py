"""Kinds of kernels: what distinguishes one compiled kernel in Triton from another."""

from typing import NamedTuple

import torch
from torch import Tensor

from ea_fairseq.kernels.arguments import FusedArguments
from ea_fairseq.kernels.triton.evolution import Tiling

MASKS = ("padded_keys", "padded_queries", "future")


class Kind(NamedTuple):
    """What distinguishes one compiled kernel from another, and the sizes that its loops depend on.

    Args:
        step: ``forward`` or ``backward``.
        dtype: of the maps.
        kernel: size of the convolution, 0 without one; it begins ``above`` rows and ``left`` columns from an entry.
        operands: names of the optional tensors that there are.
        is_learned: whether the weights of heads have gradients.
        rows, columns, warps: those of the ``Tiling``.
    """

    step: str
    dtype: torch.dtype
    heads: int
    kernel: int
    above: int
    left: int
    operands: tuple[str, ...]
    is_learned: bool
    rows: int
    columns: int
    warps: int

    @classmethod
    def of(
        cls, step: str, maps: Tensor, arguments: FusedArguments, d_logits: Tensor | None, is_learned: bool = False
    ) -> "Kind":
        """The kind of the kernel that these maps (B, K, T, S) and arguments are for."""
        heads, queries, keys = maps.shape[1:]
        tiling = Tiling.of(heads, queries, keys)
        operands = [name for name in MASKS if getattr(arguments, name) is not None]
        if arguments.mix is not None:
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
            is_learned,
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
        """A description for people, without what depends on the sizes of maps."""
        convolution = f"a {self.kernel}x{self.kernel} convolution" if self.kernel else "no convolution"
        previous = "with" if "previous" in self.operands else "without"
        learned = ", learned weights" if self.is_learned else ""
        return f"{self.step}, {self.type_name}, {self.heads} heads, {convolution}, {previous} previous logits{learned}"

    @property
    def name(self) -> str:
        """A file name, unique to this kind."""
        tiling = self.rows, self.columns, self.warps
        integers = self.heads, self.kernel, self.above, self.left, int(self.is_learned), *tiling
        return "-".join([self.step, self.type_name, *map(str, integers), *self.operands])
