"""Predictive attention: Predictive Attention Transformer, submitted to ICLR 2021 ("PA").

A_i = softmax(alpha * CNN(logits_{i-1}) + (1 - alpha) * scores_i), in the encoder's self-attention alone  (PA eq. 4)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.map_convolution import channels_last, norm
from ea_fairseq.attention.mechanism import LayerContext, Measure
from ea_fairseq.attention.registry import register_mechanism
from ea_fairseq.kernels.fused_logits import FusedLogits
from ea_fairseq.options import FRACTION, ODD, Options, option, whole

ENCODER_DEFAULTS = {"pa_alpha": 0.2}  # chosen most often for GLUE (PA, table 7)


@dataclass(frozen=True)
class PredictionOptions(Options):
    """The flags of predictive attention; defaults are those of the paper for IWSLT'14.

    Raises:
        UserError: naming the flag, if a value is out of range.
    """

    pa_layers: int = option(
        1,
        whole(0, 3),
        "number of convolutions that predict an encoder's attention logits from those of the layer below; 0: the "
        "latter are mixed in unchanged",
    )
    pa_kernel_size: int = option(3, ODD, "size of these convolutions' square kernels")
    pa_alpha: float = option(
        0.1,
        FRACTION,
        "weight of the predicted logits, against the layer's own (not --ea-alpha, which weighs evolving attention's "
        "skip connection)",
    )


@register_mechanism(
    "pa_transformer",
    encoder=ENCODER_DEFAULTS,
    classifier={"pa_alpha": 0.1},
    graph={"pa_kernel_size": 1},
    aa_resnet={"pa_alpha": 0.5},
    conv_transformer_image={"pa_alpha": 0.01},
)
class PredictiveAttention(Attention):
    """Encoder self-attention whose logits are mixed with what convolutions predict from those of the layer below.

    Parameters are fairseq's plus, from the second layer on, ``convs`` (K to K heads, with bias). With a weight
    of 0 this is fairseq's attention itself.
    """

    options = PredictionOptions
    title = "predictive attention"
    adds = "predictors"
    convs: Sequence[nn.Conv2d]

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        alpha: float,
        layers: int,
        is_first: bool,
        kernel_size: int = 3,
        **kwargs: Any,
    ):
        """
        Args:
            alpha: weight of the predicted logits; 0 means plain attention.
            layers: number of convolutions of a predictor.
            is_first: whether there is no layer below to predict from.
            kernel_size: of these convolutions.
        """
        super().__init__(embed_dim, num_heads, **kwargs)
        layers = 0 if is_first or alpha == 0 else layers
        padding = kernel_size // 2
        convs = (nn.Conv2d(num_heads, num_heads, kernel_size, padding=padding) for _ in range(layers))
        self.convs = nn.ModuleList(convs)  # type: ignore[assignment]
        self.alpha = alpha
        self.passes_logits, self.is_plain = alpha > 0, alpha == 0 and self.fairseq_can_compute
        self.fused_logits = FusedLogits(1 - alpha, alpha)
        if alpha > 0 and not is_first and not layers:
            # Marks the checkpoint: a plain Transformer would otherwise load it silently, without the residual.
            self.register_buffer("predicted", torch.empty(0))

    @classmethod
    def build(
        cls, options: PredictionOptions, context: LayerContext, embed_dim: int, num_heads: int, **kwargs: Any
    ) -> Attention:
        """Builds predictive attention for the encoder, and plain attention elsewhere."""
        if context.kind != "encoder":
            return Attention(embed_dim, num_heads, **kwargs)
        predictor = options.pa_alpha, options.pa_layers, context.layer == 0, options.pa_kernel_size
        return cls(embed_dim, num_heads, *predictor, **kwargs)

    @classmethod
    def is_entrywise(cls, options: PredictionOptions) -> bool:
        """Whether no convolution reads neighbours."""
        return options.pa_layers == 0 or options.pa_kernel_size == 1

    @classmethod
    def may_renumber(cls, kind: str, layers: list[int]) -> bool:
        """Whether the encoder's first layer, which predicts nothing, stays the first."""
        return kind != "encoder" or layers[0] == 0

    @property
    def fused(self) -> FusedLogits:  # type: ignore[override]  # computed, not set
        """The mix of scores with the logits that :meth:`receive` has predicted."""
        return self.fused_logits

    def receive(self, previous: Tensor, inputs: Inputs) -> Tensor:
        """CNN(logits_{i-1}) of PA eq. 4: convolutions, each followed by a ReLU, that read zeros at masked entries."""
        # Convolve the logits of the layer below, once for each layer of the predictor.
        predicted = previous
        for conv in self.convs:
            predicted = F.relu(conv(channels_last(inputs.masks.cleared(predicted))))
        return predicted

    def combine(self, scores: Tensor, inputs: Inputs) -> Tensor:
        """The mix of predicted logits and scores (PA eq. 4)."""
        return scores if inputs.previous is None else torch.lerp(scores, inputs.previous, self.alpha)

    def metrics(self, name: str, kind: str) -> dict[str, Measure]:
        """The norms of the convolutions' kernels, from the first to the last of the predictor."""
        return {f"pa_conv_norm/{name}.{i}": partial(norm, conv.weight) for i, conv in enumerate(self.convs)}
