"""The criterion ``ea_label_smoothed_cross_entropy``: fairseq's with less time and memory, and with options of speed."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.criterions import label_smoothed_cross_entropy as fairseq_criterion
from fairseq.criterions import register_criterion
from fairseq.distributed import LegacyDistributedDataParallel, ModuleProxyWrapper
from fairseq.models import BaseFairseqModel, FairseqDecoder
from fairseq.models.transformer import TransformerDecoderBase, TransformerModelBase
from fairseq.tasks import FairseqTask
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from ea_fairseq.attention.projection import is_exactly
from ea_fairseq.criterions.smoothed_loss import chunk_rows, smoothed_loss
from ea_fairseq.criterions.speed import Speed, SpeedConfig
from ea_fairseq.models.decoder import MechanismDecoder

WRAPPERS = (ModuleProxyWrapper, LegacyDistributedDataParallel, DistributedDataParallel)
DTYPES = (torch.float64, torch.float32, torch.bfloat16)  # float16 is too narrow for gradients of an unscaled loss
FAIRSEQ_METHODS = {  # from tokens to the loss; a model that overrides one of them has to compute its own logits
    TransformerModelBase: ("forward", "get_targets", "get_normalized_probs", "get_normalized_probs_scriptable"),
    TransformerDecoderBase: ("forward", "output_layer", "get_normalized_probs", "get_normalized_probs_scriptable"),
}


@dataclass
class EALabelSmoothedCrossEntropyConfig(SpeedConfig, fairseq_criterion.LabelSmoothedCrossEntropyCriterionConfig):
    """fairseq's options of label smoothing, and of speed."""


@register_criterion("ea_label_smoothed_cross_entropy", dataclass=EALabelSmoothedCrossEntropyConfig)
class LabelSmoothedCrossEntropyCriterion(Speed, fairseq_criterion.LabelSmoothedCrossEntropyCriterion):
    """fairseq's ``label_smoothed_cross_entropy``, computed a chunk of the batch at a time.

    Loss, gradients and logging outputs are fairseq's. If the model ends in a plain linear layer, the logits of only one
    chunk exist at a time. The class has the name of fairseq's, because fairseq compares these names to decide whether a
    checkpoint's optimizer state fits.
    """

    def __init__(self, task: FairseqTask, cfg: EALabelSmoothedCrossEntropyConfig):
        """Raises UserError if ``--autocast bf16`` is combined with fairseq's flags of half precision."""
        super().__init__(task, cfg.sentence_avg, cfg.label_smoothing, cfg.ignore_prefix_size, cfg.report_accuracy)
        self.speed_up(cfg)

    def forward(self, model: nn.Module, sample: dict, reduce: bool = True) -> tuple[Tensor, int, dict]:
        """Returns loss (a scalar, or (B * T, 1) without ``reduce``), sample size and logging output of a batch.

        Args:
            model: the model, or its wrapper of torch or fairseq for several processes.
            sample: a batch of fairseq's: ``net_input``, ``target`` (B, T), ``ntokens``.
            reduce: whether to sum over tokens.
        """
        if reduce and output_weight(model) is not None:
            sample = {**sample, "net_input": {**sample["net_input"], "features_only": True}}
        return super().forward(model, sample, reduce)

    def compute_loss(
        self, model: BaseFairseqModel, net_output: tuple, sample: dict, reduce: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Returns loss and negative log-likelihood in nats: sums over tokens, or (B * T, 1) without ``reduce``.

        Args:
            net_output: the model's output, which starts with logits (B, T, V) or features (B, T, C).
        """
        # Features: compute the loss from the output projection, without the logits of the whole batch.
        if has_features(sample):
            weight = output_weight(model)
            assert weight is not None  # else the model returns logits
            features, target = self.unpadded(net_output, sample)
            return smoothed_loss(features, weight, target, self.eps, product_dtype(weight))
        # Logits, or a projection that is not plain: fairseq's loss of each chunk, recomputed in the backward pass.
        fairseq_loss = super().compute_loss
        chunks = self.chunks(model, net_output, sample)
        losses = [checkpoint(fairseq_loss, model, *chunk, reduce, use_reentrant=False) for chunk in chunks]
        join = sum if reduce else torch.cat
        return join([loss for loss, _ in losses]), join([nll for _, nll in losses])

    def unpadded(self, net_output: tuple, sample: dict) -> tuple[Tensor, Tensor]:
        """Returns features (R, C) and targets (R,) of the tokens in the loss: not of padding or an ignored prefix."""
        features, target = (whole[:, self.ignore_prefix_size :] for whole in (net_output[0], sample["target"]))
        not_padding = target.ne(self.padding_idx)
        return features[not_padding], target[not_padding]

    @torch.no_grad()
    def compute_accuracy(self, model: BaseFairseqModel, net_output: tuple, sample: dict) -> tuple[Tensor, Tensor]:
        """Returns the number of tokens that the model predicts correctly, and the number of tokens without padding."""
        fairseq_accuracy = super().compute_accuracy
        counts = [fairseq_accuracy(model, *chunk) for chunk in self.chunks(model, net_output, sample)]
        return sum(correct for correct, _ in counts), sum(tokens for _, tokens in counts)

    def chunks(self, model: BaseFairseqModel, net_output: tuple, sample: dict) -> Iterator[tuple[tuple, dict]]:
        """Splits a batch into chunks of sentences; yields the model's output, always logits, and the sample of each.

        For a model without a decoder, or with targets of its own, there is a single chunk.
        """
        decoder: Any = getattr(model, "decoder", None)
        target = sample["target"]
        if not isinstance(decoder, FairseqDecoder) or model.get_targets(sample, net_output) is not target:
            yield net_output, sample
            return
        sentences = max(1, chunk_rows(target.device) // target.size(1))
        for output, words in zip(net_output[0].split(sentences), target.split(sentences), strict=True):
            if has_features(sample):
                output = decoder.output_layer(output)
            yield (output, *net_output[1:]), {**sample, "target": words}


def has_features(sample: dict) -> bool:
    """Whether the model returns features (B, T, C) instead of logits (B, T, V)."""
    return sample["net_input"].get("features_only", False)


def output_weight(model: nn.Module) -> Tensor | None:
    """Returns the weight (V, C) of the output projection if it is a plain linear layer without bias or hooks.

    Returns None otherwise, and if model or decoder override a method of fairseq between features and loss, if the dtype
    is not in ``DTYPES``, and with ``--find-unused-parameters``.
    """
    while isinstance(model, WRAPPERS):
        if getattr(model, "find_unused_parameters", False):
            return None  # DistributedDataParallel would not see that the loss uses this weight
        model = model.module
    decoder: Any = getattr(model, "decoder", None)
    parts = {TransformerModelBase: model, TransformerDecoderBase: decoder}
    for kind, names in FAIRSEQ_METHODS.items():
        part = type(parts[kind])
        if not issubclass(part, kind) or any(getattr(part, name) not in known_methods(kind, name) for name in names):
            return None
    layer = decoder.output_projection
    plain = is_exactly(layer) and layer.bias is None
    takes_features_only = "features_only" in inspect.signature(model.forward).parameters
    return layer.weight if plain and takes_features_only and product_dtype(layer.weight) in DTYPES else None


def known_methods(kind: type, name: str) -> tuple:
    """Returns fairseq's method and that of our decoder, which only differ in decoding."""
    return getattr(kind, name), getattr(MechanismDecoder, name, None)


def product_dtype(weight: Tensor) -> torch.dtype:
    """Returns the dtype in which a matrix product with this weight is computed: autocast's, if it is on."""
    device = weight.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
