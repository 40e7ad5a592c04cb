"""Optimizers of torch with the options of fairseq's ``adam``: ``radam`` and ``adamw``."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, List  # noqa: UP035

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from omegaconf import II

from ea_fairseq.errors import UserError


@dataclass
class AdamWConfig(FairseqDataclass):
    """fairseq's names and defaults of Adam's flags."""

    adam_betas: List[float] = field(  # noqa: UP006  fairseq parses no other way of writing it
        default_factory=lambda: [0.9, 0.999], metadata={"help": "decay of both averages"}
    )
    adam_eps: float = field(default=1e-8, metadata={"help": "added to the root of the second average"})
    weight_decay: float = field(default=0.0, metadata={"help": "weight decay, apart from the gradient as in AdamW"})
    lr: list[float] = field(default=II("optimization.lr"))


@dataclass
class RAdamConfig(AdamWConfig):
    """The same flags, with the defaults of CEAN, section 4.1."""

    adam_betas: List[float] = field(  # noqa: UP006
        default_factory=lambda: [0.9, 0.99], metadata={"help": "decay of both averages"}
    )


class TorchOptimizer(FairseqOptimizer):
    """An optimizer of torch with the name ``NAME``, built with fixed ``SETTINGS`` and the values of flags."""

    NAME: ClassVar[str]
    OPTIMIZER: ClassVar[type[torch.optim.Optimizer]]
    SETTINGS: ClassVar[dict[str, Any]]

    def __init__(self, cfg: AdamWConfig, params: Iterable[torch.nn.Parameter]):
        """Builds torch's optimizer.

        Raises:
            UserError: if an option is out of range.
        """
        super().__init__(cfg)
        if len(cfg.adam_betas) != 2:
            raise UserError(f"--adam-betas must be two numbers, such as '(0.9, 0.99)', not {list(cfg.adam_betas)}")
        try:
            self._optimizer = self.OPTIMIZER(params, **self.optimizer_config)
        except ValueError as error:
            sentence = f"{str(error)[0].lower()}{str(error)[1:]}"
            raise UserError(f"--optimizer {self.NAME} cannot be built: {sentence}") from None

    @property
    def optimizer_config(self) -> dict[str, Any]:
        """Options that replace those of a checkpoint when training resumes."""
        cfg = self.cfg
        betas = tuple(cfg.adam_betas)
        options = {"lr": cfg.lr[0], "betas": betas, "eps": cfg.adam_eps, "weight_decay": cfg.weight_decay}
        return {**options, **self.SETTINGS}

    @property
    def supports_flat_params(self) -> bool:
        """Whether parameters may be joined into one vector."""
        return True


@register_optimizer("radam", dataclass=RAdamConfig)
class RAdam(TorchOptimizer):
    """Rectified Adam (Liu et al., ICLR 2020, arXiv 1908.03265)."""

    NAME, OPTIMIZER = "radam", torch.optim.RAdam
    SETTINGS: ClassVar = {"decoupled_weight_decay": True}


@register_optimizer("adamw", dataclass=AdamWConfig)
class AdamW(TorchOptimizer):
    """Adam in one pass over each parameter; on a CPU, fairseq's takes ten.

    ``--adam-eps`` is added to the root of the unbiased average (Kingma and Ba, 2015, algorithm 1). fairseq's ``adam``
    adds it to that of the biased one (the end of their section 2); it decays weights in the same way.
    """

    NAME, OPTIMIZER = "adamw", torch.optim.AdamW
    SETTINGS: ClassVar = {"fused": True}
