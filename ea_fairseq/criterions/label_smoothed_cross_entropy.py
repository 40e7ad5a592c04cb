"""The criterion ``ea_label_smoothed_cross_entropy``: fairseq's own, with less memory and time, and with autocast."""

import inspect
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch
from fairseq.criterions import label_smoothed_cross_entropy as fairseq_criterion
from fairseq.criterions import register_criterion
from fairseq.dataclass import ChoiceEnum
from fairseq.distributed import LegacyDistributedDataParallel, ModuleProxyWrapper
from fairseq.models import FairseqDecoder
from fairseq.models.transformer import TransformerDecoderBase, TransformerModelBase
from omegaconf import II
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from ea_fairseq.criterions.smoothed_loss import chunk_rows, smoothed_loss
from ea_fairseq.user_error import UserError

WRAPPERS = (ModuleProxyWrapper, LegacyDistributedDataParallel, DistributedDataParallel)
DTYPES = (torch.float64, torch.float32, torch.bfloat16)  # float16 is too narrow for gradients of an unscaled loss
FAIRSEQS = {  # methods between features and loss that a model or decoder of another kind may have changed
    TransformerModelBase: ("get_targets", "get_normalized_probs", "get_normalized_probs_scriptable"),
    TransformerDecoderBase: ("output_layer", "get_normalized_probs", "get_normalized_probs_scriptable"),
}


@dataclass
class EALabelSmoothedCrossEntropyConfig(fairseq_criterion.LabelSmoothedCrossEntropyCriterionConfig):
    autocast: ChoiceEnum(["none", "bf16"]) = field(
        default="none",
        metadata={"help": "what model and loss compute in where that is safe; parameters and optimizer stay float32"},
    )
    fp16: bool = II("common.fp16")
    bf16: bool = II("common.bf16")
    amp: bool = II("common.amp")


@register_criterion("ea_label_smoothed_cross_entropy", dataclass=EALabelSmoothedCrossEntropyConfig)
class LabelSmoothedCrossEntropyCriterion(fairseq_criterion.LabelSmoothedCrossEntropyCriterion):
    """fairseq's ``label_smoothed_cross_entropy`` in chunks of a batch: same loss, gradients and logged figures.

    Where a model ends in a plain projection, no logits are kept. It has the name of fairseq's class, by which fairseq
    knows a checkpoint whose training it may continue.
    """

    def __init__(self, task, cfg: EALabelSmoothedCrossEntropyConfig):
        if cfg.autocast == "bf16" and (cfg.fp16 or cfg.bf16 or cfg.amp):
            raise UserError("--autocast bf16 takes the place of --fp16, --bf16 and --amp: leave those out.")
        super().__init__(task, cfg.sentence_avg, cfg.label_smoothing, cfg.ignore_prefix_size, cfg.report_accuracy)
        self.autocast = torch.bfloat16 if cfg.autocast == "bf16" else None

    def forward(self, model: nn.Module, sample: dict, reduce: bool = True) -> tuple[Tensor, int, dict]:
        """fairseq's loss, sample size and logged figures of a batch."""
        device = sample["target"].device.type
        with torch.autocast(device, self.autocast) if self.autocast else nullcontext():
            if reduce and projection(model) is not None:
                sample = {**sample, "net_input": {**sample["net_input"], "features_only": True}}
            return super().forward(model, sample, reduce)

    def compute_loss(self, model, net_output: tuple, sample: dict, reduce: bool = True) -> tuple[Tensor, Tensor]:
        """Loss and negative log-likelihood: sums, or of each word where ``reduce`` is off."""
        if has_features(sample):
            features, target = (whole[:, self.ignore_prefix_size :] for whole in (net_output[0], sample["target"]))
            words = target.ne(self.padding_idx)
            weight = projection(model)
            return smoothed_loss(features[words], weight, target[words], self.eps, product_dtype(weight))
        of_fairseq = super().compute_loss
        pieces = self.pieces(model, net_output, sample)
        losses = [checkpoint(of_fairseq, model, *piece, reduce, use_reentrant=False) for piece in pieces]
        join = sum if reduce else torch.cat
        return join([loss for loss, _ in losses]), join([nll for _, nll in losses])

    @torch.no_grad()
    def compute_accuracy(self, model, net_output: tuple, sample: dict) -> tuple[Tensor, Tensor]:
        """Numbers of words that the model finds likeliest, and of all."""
        of_fairseq = super().compute_accuracy
        counts = [of_fairseq(model, *piece) for piece in self.pieces(model, net_output, sample)]
        return sum(correct for correct, _ in counts), sum(words for _, words in counts)

    def pieces(self, model, net_output: tuple, sample: dict) -> Iterator[tuple[tuple, dict]]:
        """What a model made of a batch, as that of some of its sentences at a time; whole where it has no decoder."""
        decoder, target = getattr(model, "decoder", None), sample["target"]
        if not isinstance(decoder, FairseqDecoder) or model.get_targets(sample, net_output) is not target:
            yield net_output, sample
            return
        sentences = max(1, chunk_rows(target.device) // target.size(1))
        for output, words in zip(net_output[0].split(sentences), target.split(sentences), strict=True):
            if has_features(sample):
                output = decoder.output_layer(output)
            yield (output, *net_output[1:]), {**sample, "target": words}


def has_features(sample: dict) -> bool:
    """Whether the model was asked for its features, not its logits."""
    return sample["net_input"].get("features_only", False)


def projection(model: nn.Module) -> Tensor | None:
    """The weight that makes a model's features its logits, or None where there is more to it than that."""
    while isinstance(model, WRAPPERS):
        if getattr(model, "find_unused_parameters", False):
            return None  # torch takes a parameter that it does not meet inside the model for unused
        model = model.module
    decoder = getattr(model, "decoder", None)
    parts = {TransformerModelBase: model, TransformerDecoderBase: decoder}
    for kind, names in FAIRSEQS.items():
        part = type(parts[kind])
        if not issubclass(part, kind) or any(getattr(part, name) is not getattr(kind, name) for name in names):
            return None
    layer = decoder.output_projection
    plain = type(layer) is nn.Linear and layer.bias is None and not layer._forward_hooks
    takes_features_only = "features_only" in inspect.signature(model.forward).parameters
    return layer.weight if plain and takes_features_only and product_dtype(layer.weight) in DTYPES else None


def product_dtype(weight: Tensor) -> torch.dtype:
    """What a product with this weight is computed in, under autocast or not."""
    device = weight.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
