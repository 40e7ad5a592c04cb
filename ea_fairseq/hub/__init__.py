"""Trained models in Python: their predictions for raw text, and their attention maps."""

import ea_fairseq.plugin  # noqa: F401  before anything here uses fairseq
from ea_fairseq.hub.encoder import EncoderHub
from ea_fairseq.hub.graph import EAGraph
from ea_fairseq.hub.image import EAImage
from ea_fairseq.hub.time_series import EATimeSeries
from ea_fairseq.hub.translation import TranslationHub
from ea_fairseq.models.dc_transformer import DCTransformer
from ea_fairseq.models.graph import GraphModel
from ea_fairseq.models.image import ImageModel
from ea_fairseq.models.roberta import MechanismRoberta
from ea_fairseq.models.transformer import MechanismTransformer

# The class that ``from_pretrained`` of a model returns.
MechanismTransformer.hub, MechanismRoberta.hub = TranslationHub, EncoderHub
DCTransformer.hub, GraphModel.hub, ImageModel.hub = EATimeSeries, EAGraph, EAImage
