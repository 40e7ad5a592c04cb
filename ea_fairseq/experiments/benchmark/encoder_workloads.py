"""What is timed of encoders and models of time series: updates of classifiers, and their classes of new sentences."""

import math

import torch
import torch.nn.functional as F
from fairseq.data import Dictionary
from fairseq.models import BaseFairseqModel
from torch import Tensor, nn

from ea_fairseq.attention.registry import FAMILIES
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.benchmark.cases import Case, Variant
from ea_fairseq.experiments.benchmark.workloads import Update, Workload, batch
from ea_fairseq.experiments.costs.built_model import CLASSIFYING, HEAD, PREDICTING, build_encoder, build_series
from ea_fairseq.models.dc_transformer import LAYERS_PER_BLOCK, MODELS, DCLayer, DCTransformer
from ea_fairseq.models.roberta import SIZE_OPTIONS, SIZES
from ea_fairseq.options import name_of_flag
from ea_fairseq.series.description import SeriesDescription

CLASSES = 2


CHANNELS, CLASSES = 3, 8  # UWaveGestureLibrary's


class PlainSeriesModel(BaseFairseqModel):
    """Computes what a model of ours does, with its parameters, of series that all have the same length.

    Args:
        model: an ``ea_dc_transformer`` without dropout of attention probabilities.
    """

    def __init__(self, model: DCTransformer):
        super().__init__()
        self.model = model
        self.classification_heads = model.classification_heads

    def forward(self, source: Tensor, padding_mask: Tensor, **options) -> tuple[Tensor, dict]:
        """(B, T, C) -> (B, outputs)"""
        encoder = self.model.encoder
        x = encoder.scale * encoder.project_in(source) + encoder.embed_positions.weight[: source.size(1)]
        x, previous = encoder.dropout(x), None
        for block, norm in enumerate(encoder.norms):
            residual = x
            for layer in encoder.layers[LAYERS_PER_BLOCK * block : LAYERS_PER_BLOCK * (block + 1)]:
                x, previous = run(layer, x, previous)
            x = batch_norm(norm, residual + x)
        return self.classification_heads[HEAD](x, padding_mask), {}


def run(layer: DCLayer, x: Tensor, previous: Tensor | None) -> tuple[Tensor, Tensor]:
    """A layer, (B, T, d) -> (B, T, d), and its logits (B, K, T, T)  (CEAN eq. 6)."""
    attention, evolution = layer.self_attn, layer.self_attn.evolution
    q, k, v = (
        project(x).unflatten(-1, (attention.num_heads, -1)).transpose(1, 2)
        for project in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    logits = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if previous is not None:
        logits = evolution.alpha * previous + (1 - evolution.alpha) * logits
    convolved = F.conv2d(logits, attention.conv.weight, attention.conv.bias, padding=evolution.kernel_size // 2)
    logits = evolution.beta * F.relu(convolved) + (1 - evolution.beta) * logits
    attended = attention.out_proj((logits.softmax(dim=-1) @ v).transpose(1, 2).flatten(2))
    conv = layer.dilated.conv
    dilated = F.conv1d(x.mT, conv.weight, conv.bias, padding=conv.dilation, dilation=conv.dilation).mT
    x = batch_norm(layer.norm, torch.cat([attended, dilated], dim=-1))
    return layer.fc2(layer.dropout(F.relu(layer.fc1(x)))), logits


def batch_norm(norm: nn.BatchNorm1d, x: Tensor) -> Tensor:
    """(B, T, C) -> (B, T, C)"""
    return nn.BatchNorm1d.forward(norm, x.mT).mT


class EncoderWorkload(Workload):
    """A RoBERTa with a classification head, and a batch of sentences with labels."""

    def __init__(self, case: Case, variant: Variant, device: torch.device, tokens: int, seed: int):
        super().__init__(case, variant, device, tokens, seed)
        self.model = build_encoder(self.options, tokens, CLASSES).to(device)
        self.parameters = list(self.model.parameters())
        pairs = batch(self.dictionary, case.sentences, case.length, device, seed)
        self.words = pairs["ntokens"]
        labels = torch.arange(case.sentences, device=device) % CLASSES
        self.batch = {"net_input": {"src_tokens": pairs["target"]}, "target": labels, "ntokens": self.words}

    def flags(self) -> list[str]:
        """The model's, a family's encoder or fairseq's RoBERTa of the same size, and the task's."""
        size, family = self.case.size, self.variant.family
        if not self.variant.evolving:
            arch = ["roberta"]
            for option, value in zip(SIZE_OPTIONS, SIZES[size], strict=True):
                arch += [name_of_flag(option), str(value)]
        elif family in FAMILIES:
            arch = [f"{FAMILIES[family].encoder('roberta')}_{size}"]
        else:
            raise UserError(f"{family} has no encoders")
        longest = max(512, self.case.length)
        return ["--arch", *arch, *CLASSIFYING, "--num-classes", str(CLASSES), "--max-positions", str(longest)]


class Tuning(EncoderWorkload, Update):
    """An update of a classifier."""

    def __init__(self, case: Case, variant: Variant, device: torch.device, tokens: int, seed: int):
        super().__init__(case, variant, device, tokens, seed)
        self.learn()

    @property
    def label_dictionary(self) -> Dictionary:
        """For the criterion, to which this is the task."""
        return self.dictionary


class Inference(EncoderWorkload):
    """The classes of a batch."""

    has_backward = False

    def __init__(self, case: Case, variant: Variant, device: torch.device, tokens: int, seed: int):
        super().__init__(case, variant, device, tokens, seed)
        self.model.eval()

    @torch.no_grad()
    def step(self) -> None:
        with self.autocast():
            scores = self.model(**self.batch["net_input"], classification_head_name=HEAD)[0]
        assert scores.shape == (self.case.sentences, CLASSES)


ENCODER_WORKLOADS = {"tuning": Tuning, "inference": Inference}


class SeriesTraining(Update):
    """An update of a classifier of series that have the same length, as the long ones of the archives do."""

    def __init__(self, case: Case, variant: Variant, device: torch.device, tokens: int, seed: int):
        super().__init__(case, variant, device, tokens, seed)
        labels = tuple(map(str, range(CLASSES)))
        description = SeriesDescription((0.0,) * CHANNELS, (1.0,) * CHANNELS, True, case.length, labels)
        model = build_series(self.options, description).to(device)
        self.model = model if variant.evolving else PlainSeriesModel(model)
        self.parameters = list(self.model.parameters())
        self.words = case.sentences * case.length
        source = torch.randn(case.sentences, case.length, CHANNELS, generator=torch.Generator().manual_seed(seed))
        inputs = {"source": source, "padding_mask": torch.zeros(source.shape[:2], dtype=torch.bool)}
        self.batch = {
            "net_input": {name: tensor.to(device) for name, tensor in inputs.items()},
            "target": torch.arange(case.sentences, device=device) % CLASSES,
            "ntokens": self.words,
        }
        self.learn()

    def flags(self) -> list[str]:
        """A family's model, or what the plain one computes."""
        family = self.variant.family
        arch = FAMILIES[family].time_series if family in FAMILIES else family
        if arch not in MODELS:
            raise UserError(f"{family} has no models of time series")
        return ["--arch", arch, *PREDICTING]

    @property
    def label_dictionary(self) -> Dictionary:
        """For the criterion, to which this is the task."""
        return self.dictionary


SERIES_WORKLOADS = {"series": SeriesTraining}
