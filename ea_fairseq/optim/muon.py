"""``--optimizer muon``: torch's Muon for matrices, AdamW for the rest."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from fairseq.optim import register_optimizer
from omegaconf import II
from torch.nn import Parameter

from ea_fairseq.errors import UserError
from ea_fairseq.optim.torch_optimizers import AdamWConfig, TorchOptimizer


class MuonAndAdamW(torch.optim.Optimizer):
    """Muon (Jordan et al., 2024) for the matrices of layers, AdamW for vectors, kernels and embeddings.

    A matrix moves by its momentum with all singular values set to about 1. Steps are scaled to the size of AdamW's
    (Liu et al., Muon is Scalable for LLM Training, 2025, arXiv 2502.16982), so both take one learning rate. Embeddings
    and the output projection are the parameters whose ``is_embedding`` is set, as models of this package do; fairseq's
    copies of parameters for ``--fp16`` and ``--bf16`` do not have it.
    """

    def __init__(self, params: Iterable[Parameter], lr: float, **options: Any):
        """
        Args:
            options: AdamW's options; Muon only takes ``weight_decay``.

        Raises:
            ValueError: if an option is out of range.
        """
        groups: dict[bool, list[Parameter]] = {True: [], False: []}
        for parameter in params:
            groups[parameter.ndim == 2 and not getattr(parameter, "is_embedding", False)].append(parameter)
        self.parts: list[torch.optim.Optimizer] = []
        if groups[True]:
            decay = options["weight_decay"]
            muon = torch.optim.Muon(groups[True], lr, weight_decay=decay, adjust_lr_fn="match_rms_adamw")
            self.parts.append(muon)
        if groups[False]:
            self.parts.append(torch.optim.AdamW(groups[False], lr, fused=True, **options))
        super().__init__([group for part in self.parts for group in part.param_groups], {})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Lets Muon and AdamW update their own parameters; their options and state are in this optimizer."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        for part, group in zip(self.parts, self.param_groups, strict=True):
            part.param_groups, part.state = [group], self.state
            part.step()
        return loss


@dataclass
class MuonConfig(AdamWConfig):
    """AdamW's flags, and fairseq's flags of half precision, which exclude Muon."""

    fp16: bool = II("common.fp16")
    bf16: bool = II("common.bf16")


@register_optimizer("muon", dataclass=MuonConfig)
class Muon(TorchOptimizer):
    """Muon and AdamW, with AdamW's flags."""

    NAME, OPTIMIZER = "muon", MuonAndAdamW
    SETTINGS: ClassVar = {}

    def __init__(self, cfg: MuonConfig, params: Iterable[Parameter]):
        """
        Raises:
            UserError: if an option is out of range, torch has no Muon, or parameters are in half precision.
        """
        if cfg.fp16 or cfg.bf16:
            raise UserError(
                "--optimizer muon cannot tell embeddings from other matrices under --fp16 and --bf16: train with "
                "--autocast bf16"
            )
        if not hasattr(torch.optim, "Muon"):
            raise UserError(f"--optimizer muon needs torch 2.9 or later, and this is {torch.__version__}")
        super().__init__(cfg, params)

    @property
    def supports_flat_params(self) -> bool:
        """Whether parameters may be joined into one vector."""
        return False
