"""What models of time series cost, part by part: by formula, and counted on the built model."""

from collections import Counter

import torch
from torch import nn

from ea_fairseq.analysis.attention_cost import AttentionCost
from ea_fairseq.analysis.cost import (
    BRANCHES,
    CLASSIFICATION_HEAD,
    EMBEDDINGS,
    ENCODER,
    Pass,
    mechanism_group,
    traced_macs,
)
from ea_fairseq.analysis.cost_formula import Part, mechanism_parts
from ea_fairseq.count import Count, linear
from ea_fairseq.models.dc_transformer import DCTransformer
from ea_fairseq.models.time_series import TimeSeriesModel
from ea_fairseq.models.time_series_baselines import KERNELS, Recurrent
from ea_fairseq.models.time_series_options import TimeSeriesOptions
from ea_fairseq.series.description import SeriesDescription

GATES = {nn.LSTM: 4, nn.GRU: 3}


def parts(model: TimeSeriesModel) -> list[Part]:
    """The parts of a model, for one series of the longest there are; read-outs are those that it has."""
    steps, options = model.description.longest, model.options.from_namespace(model.args)
    if isinstance(model, DCTransformer):
        found = dc_parts(model, steps)
    elif isinstance(model.encoder, Recurrent):
        found = [Part(ENCODER, "recurrent layers", recurrent(model.encoder, options, model.description))]
    else:
        found = [Part(ENCODER, "convolutions and norms", residual(options, model.description))]
    for head in model.classification_heads.values():
        found.append(Part(CLASSIFICATION_HEAD, "read-out", linear(steps * options.width, head.out_features, 1)))
    if model.value_head is not None:
        values = linear(options.width, model.description.channels, steps)
        found.append(Part(CLASSIFICATION_HEAD, "values", values))
    return found


def attentions(model: DCTransformer) -> dict[str, AttentionCost]:
    """That of the encoder; without any where convolutions take all channels."""
    found = [layer.self_attn for layer in model.encoder.layers if layer.self_attn is not None]
    steps = model.description.longest
    return {"encoder": AttentionCost.of(found, steps, steps)}


def dc_parts(model: DCTransformer, steps: int) -> list[Part]:
    """The parts of attention beside dilated convolutions, without the read-out."""
    options, kinds = model.options.from_namespace(model.args), attentions(model)
    width, layers, attention = options.width, len(model.encoder.layers), kinds["encoder"]
    feed_forward = linear(width, options.ffn_width, steps) + linear(options.ffn_width, width, steps)
    found = [
        Part(EMBEDDINGS, "positions", Count(steps * width)),
        Part(ENCODER, "input projection", linear(model.description.channels, width, steps)),
        Part(ENCODER, "feed-forward", feed_forward * layers),
        Part(ENCODER, "batch norms", norm(width, steps) * (layers + options.blocks)),
        Part(ENCODER, "element-wise", Count(macs=steps * width) + attention.element_wise),
    ]
    if attention.layers:
        found += [
            Part(ENCODER, "self-attention projections", attention.projections),
            Part(ENCODER, "self-attention maps", attention.maps),
            *mechanism_parts(mechanism_group(model.family.attention), kinds),
        ]
    convolved = sum((layer.dilated.cost(steps) for layer in model.encoder.layers if layer.dilated is not None), Count())
    return found + [Part(BRANCHES, "dilated convolutions", convolved)] * (options.attended < width)


def norm(width: int, steps: int) -> Count:
    """A batch norm."""
    return Count(2 * width, steps * width)


def recurrent(encoder: Recurrent, options: TimeSeriesOptions, description: SeriesDescription) -> Count:
    """Recurrent layers: the products of each gate with input and state, which have a bias each."""
    width, gates = options.width, GATES[type(encoder.layers)]
    first, others = (
        linear(inputs, gates * width, description.longest) + linear(width, gates * width, description.longest)
        for inputs in (description.channels, width)
    )
    return first + others * (options.blocks - 1)


def residual(options: TimeSeriesOptions, description: SeriesDescription) -> Count:
    """The blocks of ResNet."""
    width, steps, found = options.width, description.longest, Count()
    for channels in (description.channels, *[width] * (options.blocks - 1)):
        for kernel, inputs in zip(KERNELS, (channels, width, width), strict=True):
            found += linear(kernel * inputs, width, steps)
        found += linear(channels, width, steps) * (channels != width) + norm(width, steps) * (len(KERNELS) + 1)
    return found


def count_macs(model: TimeSeriesModel) -> Counter[str]:
    """Multiply-accumulates of one longest series in evaluation mode by torch's operator, without recurrent layers'."""
    return traced_macs(whole_pass(model), torch.zeros(1, model.description.longest, model.description.channels))


def whole_pass(model: TimeSeriesModel) -> Pass:
    """A pass over one longest series to the head that the model has."""
    padding = torch.zeros(1, model.description.longest, dtype=torch.bool)
    head = next(iter(model.classification_heads), None)
    values = model.value_head is not None
    return Pass(model, padding_mask=padding, features_only=not values, classification_head_name=head)
