"""Workloads of encoders and models of time series: updates of classifiers, and classification of sentences."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.models import BaseFairseqModel
from torch import Tensor, nn

from ea_fairseq.attention.registry import FAMILIES
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.benchmark.cases import Case, Settings, Variant
from ea_fairseq.experiments.benchmark.workloads import Update, Workload
from ea_fairseq.experiments.costs.built_model import HEAD, build, task_of_series, task_of_text
from ea_fairseq.models.dc_transformer import LAYERS_PER_BLOCK, MODELS, DCLayer, DCTransformer
from ea_fairseq.models.roberta import SIZE_OPTIONS, SIZES
from ea_fairseq.plain.flags import flag_of

CHANNELS, CLASSES = 3, 8  # of series, as in UWaveGestureLibrary; encoders also have 8 classes


class EncoderWorkload(Workload):
    """A RoBERTa with a classification head, and a batch of sentences with labels."""

    def built(self) -> Any:
        """Builds the classifier."""
        return build(self.options, task_of_text(self.settings.dictionary), CLASSES).to(self.device)

    def sentences(self) -> dict[str, Any]:
        """Returns a batch of labelled sentences."""
        pairs = super().sentences()
        labels = torch.arange(self.case.sentences, device=self.device) % CLASSES
        return {"net_input": {"src_tokens": pairs["target"]}, "target": labels, "ntokens": pairs["ntokens"]}

    def flags(self) -> list[str]:
        """Returns the flags of the model: a family's encoder, or fairseq's RoBERTa of the same size."""
        size, family = self.case.size, self.variant.family
        if not self.variant.evolving:
            arch = ["roberta"]
            for option, value in zip(SIZE_OPTIONS, SIZES[size], strict=True):
                arch += [flag_of(option), str(value)]
        elif family in FAMILIES:
            arch = [f"{FAMILIES[family].encoder('roberta')}_{size}"]
        else:
            raise UserError(f"{family} has no encoders")
        longest = max(512, self.case.length)
        return ["--arch", *arch, "--num-classes", str(CLASSES), "--max-positions", str(longest)]


class Tuning(EncoderWorkload, Update):
    """An update of a classifier."""

    def __init__(self, case: Case, variant: Variant, settings: Settings):
        super().__init__(case, variant, settings)
        self.learn(self.built(), self.sentences())


class Inference(EncoderWorkload):
    """The classification of a batch."""

    has_backward = False

    def __init__(self, case: Case, variant: Variant, settings: Settings):
        super().__init__(case, variant, settings)
        self.model, self.batch = self.built().eval(), self.sentences()
        self.parameters, self.words = list(self.model.parameters()), self.batch["ntokens"]

    @torch.no_grad()
    def step(self) -> None:
        with self.autocast():
            scores = self.model(**self.batch["net_input"], classification_head_name=HEAD)[0]
        assert scores.shape == (self.case.sentences, CLASSES)


class SeriesTraining(Update):
    """An update of a classifier of series of equal length, as in the archives' data sets of long series."""

    def __init__(self, case: Case, variant: Variant, settings: Settings):
        super().__init__(case, variant, settings)
        model = build(self.options, task_of_series(CHANNELS, case.length, CLASSES), CLASSES).to(self.device)
        draw = torch.Generator().manual_seed(settings.seed)
        source = torch.randn(case.sentences, case.length, CHANNELS, generator=draw).to(self.device)
        padding = torch.zeros(source.shape[:2], dtype=torch.bool, device=self.device)
        series = {
            "net_input": {"source": source, "padding_mask": padding},
            "target": torch.arange(case.sentences, device=self.device) % CLASSES,
            "ntokens": case.sentences * case.length,
        }
        self.learn(model if variant.evolving else PlainSeriesModel(model), series)

    def flags(self) -> list[str]:
        """Returns the flags of the family's model, on which the plain one is built, too."""
        family = self.variant.family
        arch = FAMILIES[family].model("dc_transformer") if family in FAMILIES else family
        if arch not in MODELS:
            raise UserError(f"{family} has no models of time series")
        return ["--arch", arch]


class PlainSeriesModel(BaseFairseqModel):
    """Computes the same as one of our models, with its parameters, for series of equal length.

    Args:
        model: an ``ea_dc_transformer`` without dropout of attention probabilities.
    """

    def __init__(self, model: DCTransformer):
        super().__init__()
        self.model = model
        self.classification_heads = model.classification_heads

    def forward(self, source: Tensor, padding_mask: Tensor, **options: object) -> tuple[Tensor, dict[str, Tensor]]:
        """(B, T, C) -> (B, outputs)"""
        encoder: Any = self.model.encoder
        x = encoder.scale * encoder.project_in(source) + encoder.embed_positions.weight[: source.size(1)]
        x, previous = encoder.dropout(x), None
        for block, norm in enumerate(encoder.norms):
            residual = x
            for layer in encoder.layers[LAYERS_PER_BLOCK * block : LAYERS_PER_BLOCK * (block + 1)]:
                x, previous = run(layer, x, previous)
            x = batch_norm(norm, residual + x)
        return self.classification_heads[HEAD](x, padding_mask), {}


def run(layer: DCLayer, x: Tensor, previous: Tensor | None) -> tuple[Tensor, Tensor]:
    """Runs a layer, (B, T, d) -> (B, T, d); also returns its logits (B, K, T, T)  (CEAN eq. 6)."""
    attention: Any = layer.self_attn
    evolution = attention.evolution
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
    assert layer.dilated is not None
    conv = layer.dilated.conv
    dilated = F.conv1d(x.mT, conv.weight, conv.bias, padding=conv.dilation, dilation=conv.dilation).mT
    x = batch_norm(layer.norm, torch.cat([attended, dilated], dim=-1))
    return layer.fc2(layer.dropout(F.relu(layer.fc1(x)))), logits


def batch_norm(norm: nn.BatchNorm1d, x: Tensor) -> Tensor:
    """(B, T, C) -> (B, T, C)"""
    return nn.BatchNorm1d.forward(norm, x.mT).mT
