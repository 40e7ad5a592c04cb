"""Patches fairseq's bugs, then registers models, tasks, criterions, optimizers and subword models with it."""

import ea_fairseq
from ea_fairseq import fairseq_patches

fairseq_patches.apply(ea_fairseq.__path__)

from ea_fairseq import criterions, mechanisms, optim, subwords, tasks  # noqa: E402, F401

mechanisms.register_all()

from ea_fairseq.attention.registry import FAMILIES  # noqa: E402
from ea_fairseq.hub.graph import EAGraph  # noqa: E402
from ea_fairseq.hub.image import EAImage  # noqa: E402
from ea_fairseq.hub.time_series import EATimeSeries  # noqa: E402
from ea_fairseq.models import classifier, roberta, t5, time_series_baselines, transformer  # noqa: E402, F401

EATransformerModel = transformer.MODELS["ea_transformer"]
EAT5Model = t5.MODELS["ea_t5"]
EARobertaModel, EABertModel = (roberta.MODELS[name] for name in ("ea_roberta", "ea_bert"))

__all__ = [
    "FAMILIES",
    "EABertModel",
    "EAGraph",
    "EAImage",
    "EARobertaModel",
    "EAT5Model",
    "EATimeSeries",
    "EATransformerModel",
]
