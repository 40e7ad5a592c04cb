"""The criterion ``ea_masked_lm``: fairseq's ``masked_lm`` with autocast."""

from dataclasses import dataclass

from fairseq.criterions import masked_lm as fairseq_criterion
from fairseq.criterions import register_criterion

from ea_fairseq.criterions.autocast import Autocast, AutocastConfig, autocast_dtype


@dataclass
class EAMaskedLmConfig(AutocastConfig, fairseq_criterion.MaskedLmConfig):
    """fairseq's options of ``masked_lm``, and ``--autocast``."""


@register_criterion("ea_masked_lm", dataclass=EAMaskedLmConfig)
class MaskedLmLoss(Autocast, fairseq_criterion.MaskedLmLoss):
    """fairseq's ``masked_lm``, whose name the class has, so that fairseq takes its checkpoints."""

    def __init__(self, cfg: EAMaskedLmConfig, task):
        """Raises UserError where ``--autocast bf16`` meets fairseq's own flags of half precision."""
        super().__init__(cfg, task)
        self.autocast = autocast_dtype(cfg)
