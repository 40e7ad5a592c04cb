"""The optimizer ``radam``: torch's Rectified Adam (Liu et al., ICLR 2020, arXiv 1908.03265)."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import List  # noqa: UP035

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from omegaconf import II

from ea_fairseq.user_error import UserError


@dataclass
class RAdamConfig(FairseqDataclass):
    """fairseq's names of Adam's flags; defaults are those of CEAN, section 4.1."""

    adam_betas: List[float] = field(  # noqa: UP006  fairseq parses no other way of writing it
        default_factory=lambda: [0.9, 0.99], metadata={"help": "decay of both averages"}
    )
    adam_eps: float = field(default=1e-8, metadata={"help": "added to the root of the second average"})
    weight_decay: float = field(default=0.0, metadata={"help": "weight decay, apart from the gradient as in AdamW"})
    lr: list[float] = field(default=II("optimization.lr"))


@register_optimizer("radam", dataclass=RAdamConfig)
class RAdam(FairseqOptimizer):
    """torch's ``RAdam`` with fairseq's options."""

    def __init__(self, cfg: RAdamConfig, params: Iterable[torch.nn.Parameter]):
        """
        Raises:
            UserError: where an option is out of range.
        """
        super().__init__(cfg)
        if len(cfg.adam_betas) != 2:
            raise UserError(f"--adam-betas must be two numbers, such as '(0.9, 0.99)', not {list(cfg.adam_betas)}")
        try:
            self._optimizer = torch.optim.RAdam(params, decoupled_weight_decay=True, **self.optimizer_config)
        except ValueError as error:
            raise UserError(f"--optimizer radam cannot be used so: {str(error)[0].lower()}{str(error)[1:]}") from None

    @property
    def optimizer_config(self) -> dict[str, object]:
        """Options that take the place of a checkpoint's when a training goes on."""
        cfg = self.cfg
        betas = tuple(cfg.adam_betas)
        return {"lr": cfg.lr[0], "betas": betas, "eps": cfg.adam_eps, "weight_decay": cfg.weight_decay}

    @property
    def supports_flat_params(self) -> bool:
        """Whether parameters may be joined into one vector."""
        return True
