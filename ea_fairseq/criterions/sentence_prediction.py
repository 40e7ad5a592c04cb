"""The criterion ``ea_sentence_prediction``: fairseq's with autocast."""

from dataclasses import dataclass

from fairseq.criterions import register_criterion
from fairseq.criterions import sentence_prediction as fairseq_criterion

from ea_fairseq.criterions.autocast import Autocast, AutocastConfig, autocast_dtype


@dataclass
class EASentencePredictionConfig(AutocastConfig, fairseq_criterion.SentencePredictionConfig):
    """fairseq's options of ``sentence_prediction``, and ``--autocast``."""


@register_criterion("ea_sentence_prediction", dataclass=EASentencePredictionConfig)
class SentencePredictionCriterion(Autocast, fairseq_criterion.SentencePredictionCriterion):
    """fairseq's ``sentence_prediction``, whose name the class has, so that fairseq takes its checkpoints."""

    def __init__(self, cfg: EASentencePredictionConfig, task):
        """Raises UserError where ``--autocast bf16`` meets fairseq's own flags of half precision."""
        super().__init__(cfg, task)
        self.autocast = autocast_dtype(cfg)
