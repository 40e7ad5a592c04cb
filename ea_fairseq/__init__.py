"""Evolving attention for neural machine translation: a fairseq user-dir (``--user-dir ea_fairseq``)."""

import sys

from ea_fairseq import fairseq_patches, installation
from ea_fairseq.errors import UserError
from ea_fairseq.imports import quick_import

try:
    with quick_import():
        fairseq_patches.apply(__path__)
except Exception as error:
    if installation.is_asked_for():
        installation.main(str(error))
        sys.exit()
    raise

from ea_fairseq import criterions, mechanisms, optim, subwords, tasks  # noqa: F401
from ea_fairseq.attention.registry import FAMILIES
from ea_fairseq.hub.time_series import EATimeSeries
from ea_fairseq.models import classifier, roberta, time_series_baselines, transformer  # noqa: F401

EATransformerModel = transformer.MODELS["ea_transformer"]
EARobertaModel, EABertModel = (roberta.MODELS[name] for name in ("ea_roberta", "ea_bert"))

__all__ = ["FAMILIES", "EABertModel", "EARobertaModel", "EATimeSeries", "EATransformerModel", "UserError"]
