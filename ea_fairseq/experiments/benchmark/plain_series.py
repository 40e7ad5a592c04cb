"""EA-DC-Transformer as one would write it in PyTorch: maps (B, K, T, T), a convolution over them, and no kernels."""

import math

import torch
import torch.nn.functional as F
from fairseq.models import BaseFairseqModel
from torch import Tensor, nn

from ea_fairseq.experiments.costs.built_model import HEAD
from ea_fairseq.models.dc_transformer import LAYERS, DCLayer, DCTransformer


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
            for layer in encoder.layers[LAYERS * block : LAYERS * (block + 1)]:
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
