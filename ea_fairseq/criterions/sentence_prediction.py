"""The criterion ``ea_sentence_prediction``: fairseq's with options of speed."""

from dataclasses import dataclass

from fairseq.criterions import register_criterion
from fairseq.criterions import sentence_prediction as fairseq_criterion
from fairseq.tasks import FairseqTask

from ea_fairseq.criterions.speed import Speed, SpeedConfig


@dataclass
class EASentencePredictionConfig(SpeedConfig, fairseq_criterion.SentencePredictionConfig):
    """fairseq's options of ``sentence_prediction``, and of speed."""


@register_criterion("ea_sentence_prediction", dataclass=EASentencePredictionConfig)
class SentencePredictionCriterion(Speed, fairseq_criterion.SentencePredictionCriterion):
    """fairseq's ``sentence_prediction``, whose name the class has, so that fairseq takes its checkpoints."""

    def __init__(self, cfg: EASentencePredictionConfig, task: FairseqTask):
        """Raises UserError where ``--autocast bf16`` meets fairseq's own flags of half precision."""
        super().__init__(cfg, task)
        self.speed_up(cfg)
