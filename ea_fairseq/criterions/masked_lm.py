"""The criterion ``ea_masked_lm``: fairseq's ``masked_lm`` with options of speed."""

from dataclasses import dataclass

from fairseq.criterions import masked_lm as fairseq_criterion
from fairseq.criterions import register_criterion
from fairseq.tasks import FairseqTask

from ea_fairseq.criterions.speed import Speed, SpeedConfig


@dataclass
class EAMaskedLmConfig(SpeedConfig, fairseq_criterion.MaskedLmConfig):
    """fairseq's options of ``masked_lm``, and of speed."""


@register_criterion("ea_masked_lm", dataclass=EAMaskedLmConfig)
class MaskedLmLoss(Speed, fairseq_criterion.MaskedLmLoss):
    """fairseq's ``masked_lm``, whose name the class has, so that fairseq takes its checkpoints."""

    def __init__(self, cfg: EAMaskedLmConfig, task: FairseqTask):
        """Raises UserError where ``--autocast bf16`` meets fairseq's own flags of half precision."""
        super().__init__(cfg, task)
        self.speed_up(cfg)
