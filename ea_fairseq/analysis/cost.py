"""What a built model costs: parameters, multiply-accumulates, and what autograd saves for the backward pass.

Papers count a Transformer's parameters without embeddings and output projection, and its FLOPs without output
projection (HAT, ACL 2020).
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from fairseq.models.roberta import RobertaModel
from fairseq.models.transformer import TransformerEncoderBase, TransformerModelBase
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from ea_fairseq.analysis.parts import (
    CLASSIFICATION_HEAD,
    EMBEDDINGS,
    LM_HEAD,
    OUTPUT,
    POOLER,
    TOKENS,
    Part,
    parts,
    total,
)
from ea_fairseq.attention.attention import Attention
from ea_fairseq.models.classifier import SentenceClassifier
from ea_fairseq.models.encoder_options import EncoderOptions
from ea_fairseq.models.graph import GraphModel
from ea_fairseq.models.image import ImageModel
from ea_fairseq.models.time_series import TimeSeriesModel

UNUSED_POSITIONS = 2  # fairseq's rows of positions that no token has, up to the index of the padding symbol
STEPS = {  # methods whose multiplications are counted under their names, as if they were modules
    TransformerEncoderBase: ("forward_embedding",),
    Attention: ("receive", "combine", "transform", "reweigh", "values"),
}


@dataclass(frozen=True)
class Cost:
    """Parameters and FLOPs, as papers count them."""

    parameters: int
    flops: int


def cost(model: TransformerModelBase, length: int = 30) -> Cost:
    """Counts a Transformer's parameters and the FLOPs of one pair of ``length`` source and target tokens."""
    return published_cost(parts(model, count_macs(model, length, length)))


def published_cost(found: list[Part]) -> Cost:
    """Returns the cost of a Transformer with these parts, as the papers count it."""
    parameters = total(found, without=(EMBEDDINGS, OUTPUT)).parameters
    return Cost(parameters, 2 * total(found, without=(OUTPUT,)).macs)


def series_cost(model: TimeSeriesModel) -> Cost:
    """Counts all parameters of a model of time series, and the FLOPs of one series of the largest length."""
    return Cost(sum(parameter.numel() for parameter in model.parameters()), 2 * count_series_macs(model).total())


def graph_cost(model: GraphModel) -> Cost:
    """Counts all parameters of a model of graphs, and the FLOPs for the graph that it was trained on."""
    return Cost(sum(parameter.numel() for parameter in model.parameters()), 2 * count_graph_macs(model))


def image_cost(model: ImageModel) -> Cost:
    """Counts all parameters of a model of images, and the FLOPs of one image."""
    return Cost(sum(parameter.numel() for parameter in model.parameters()), 2 * count_image_macs(model).total())


def count_graph_macs(model: GraphModel) -> int:
    """Counts multiply-accumulates for the graph that a model was trained on.

    Features that are zero are not counted; a mechanism multiplies each edge by the matrices of its heads.
    """
    sizes, macs, rows = model.description, 0, model.description.entries
    for layer in (*model.layers, *model.classification_heads.values()):
        channels = layer.weight.size(1)
        mechanism = sum(parameter.numel() for parameter in layer.mechanism.parameters() if parameter.dim() > 1)
        mix = 0 if layer.mix is None else layer.mix.weight.numel()
        # Projection, both halves of the scores, mechanism, weighted sum.
        macs += rows * channels + 2 * sizes.nodes * channels + sizes.edges * (mechanism + mix + channels)
        rows = sizes.nodes * channels
    return macs


def encoder_parameters(model: RobertaModel) -> dict[str, int]:
    """Counts an encoder's parameters as papers do; keys name the papers and what they count."""
    found = parts(model)
    if isinstance(model, SentenceClassifier):
        return {"PA: without embeddings of words": total(found, without=(TOKENS,)).parameters}
    encoder = total(found, without=(LM_HEAD, CLASSIFICATION_HEAD)).parameters + sum(encoder_layout(model).values())
    pooler = sum(part.count.parameters for part in found if part.name == POOLER)
    return {
        "BERT, EA: with pooler, without language model's head": encoder + pooler,
        "COMP: with language model's head, without pooler": encoder + total(found, LM_HEAD).parameters,
    }


def encoder_layout(model: RobertaModel) -> dict[str, int]:
    """Returns the parameters to add, by a sentence that says how fairseq's layout differs from published models.

    An encoder with segments is compared with BERT, others with RoBERTa, which has as many positions as fairseq.
    """
    width = model.encoder.sentence_encoder.embed_tokens.embedding_dim
    if isinstance(model, SentenceClassifier):
        return {}
    if not EncoderOptions.from_namespace(model.args).segments:
        return {"fairseq lacks RoBERTa's row of token types": width}
    if model.encoder.sentence_encoder.embed_positions is None:
        return {}
    return {f"fairseq has {UNUSED_POSITIONS} rows of positions more than BERT": -UNUSED_POSITIONS * width}


def count_macs(model: TransformerModelBase, source_length: int, target_length: int) -> Counter[str]:
    """Counts multiply-accumulates of one pair of sentences in evaluation mode, see :func:`traced_macs`."""
    return traced_macs(model, *pair(model, source_length, target_length))


def count_encoder_macs(model: RobertaModel, length: int) -> Counter[str]:
    """Counts multiply-accumulates of one sentence in evaluation mode: the encoder once, and all heads."""
    tokens = torch.full((1, length), model.encoder.dictionary.unk())
    encoder = traced_macs(Pass(model, features_only=True), tokens)
    passes: list[dict[str, str]] = [{"classification_head_name": name} for name in model.classification_heads]
    passes += [{}] if model.encoder.lm_head is not None else []
    heads = (traced_macs(Pass(model, **options), tokens) - encoder for options in passes)
    return sum(heads, encoder)


def count_series_macs(model: TimeSeriesModel) -> Counter[str]:
    """Counts multiply-accumulates of one series of the largest length in evaluation mode, see :func:`traced_macs`."""
    description = model.description
    return traced_macs(series_pass(model), torch.zeros(1, description.longest, description.channels))


def count_image_macs(model: ImageModel) -> Counter[str]:
    """Counts multiply-accumulates of one image in evaluation mode, see :func:`traced_macs`."""
    description, head = model.description, next(iter(model.classification_heads), None)
    image = torch.zeros(1, description.channels, description.height, description.width)
    return traced_macs(Pass(model, classification_head_name=head), image)


def pair(model: TransformerModelBase, source_length: int, target_length: int) -> tuple[Tensor, ...]:
    """Builds a model's inputs for one pair of sentences of unknown words: source, its length and target."""
    source, target = (torch.full((1, n), model.encoder.dictionary.unk()) for n in (source_length, target_length))
    return source, torch.tensor([source_length]), target


def series_pass(model: TimeSeriesModel) -> "Pass":
    """Builds a pass over one series of the largest length to the head that the model has."""
    padding = torch.zeros(1, model.description.longest, dtype=torch.bool)
    head = next(iter(model.classification_heads), None)
    return Pass(model, padding_mask=padding, features_only=model.value_head is None, classification_head_name=head)


def saved_for_backward(forward: Callable[[], object], parameters: Iterable[Tensor]) -> int:
    """Counts the bytes that a forward pass saves for the backward pass, each storage once, without parameters."""
    own = {parameter.untyped_storage().data_ptr() for parameter in parameters}
    sizes: dict[int, int] = {}

    def save(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(save, lambda tensor: tensor):
        outputs = forward()
    del outputs  # kept what was saved alive until here, so that no address was reused
    return sum(size for address, size in sizes.items() if address not in own)


class Pass(nn.Module):
    """A pass of a model, with options such as a padding mask, that returns only a tensor, as tracing requires."""

    def __init__(self, model: nn.Module, **options: Any):
        super().__init__()
        self.model, self.options = model, options

    def forward(self, source: Tensor) -> Tensor:
        """Returns the model's first output."""
        return self.model(source, **self.options)[0]


class Step(nn.Module):
    """A method as a module, so that tracing puts its operations under its name."""

    def __init__(self, method: Callable):
        super().__init__()
        self.method = method

    def forward(self, *args: object) -> object:
        """Calls the method."""
        return self.method(*args)


def traced_macs(model: nn.Module, *inputs: Tensor) -> Counter[str]:
    """Counts multiply-accumulates of a pass in evaluation mode, as torchprofile does.

    Returns:
        Numbers by module or step and, after a space, torch's operator: ``encoder.layers.0.fc1 linear``.
    """
    from torchprofile import profile_macs
    from torchprofile.handlers import HANDLER_MAP

    HANDLER_MAP["aten::lstm"] = lstm_macs
    HANDLER_MAP.setdefault("aten::gru", lambda node: HANDLER_MAP["aten::lstm"](node) * 3 // 4)  # three gates, not four
    with traceable(model), named_steps(model), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="No handlers found")  # operations that multiply nothing
        nodes = profile_macs(model, inputs, reduction=None)
    macs = Counter[str]()
    for node, count in nodes.items():
        macs[f"{node.scope.rpartition('/')[2]} {node.operator.removeprefix('aten::')}"] += count
    return +macs


def lstm_macs(node: Any) -> int:
    """Corrects torchprofile's count for an LSTM, which mistakes packed words (W, C) for (W, C, channels)."""
    from torchprofile.handlers import _lstm

    return _lstm(node) if node.inputs[0].ndim == 3 else _lstm(node) // node.outputs[0].shape[-1]


@contextmanager
def named_steps(model: nn.Module) -> Iterator[None]:
    """Makes traces of a model name its modules and steps, until the context ends."""
    steps = [
        (module, name)
        for module in model.modules()
        for kind, names in STEPS.items()
        if isinstance(module, kind)
        for name in names
    ]
    for module, name in steps:
        vars(module)[name] = module._modules[name] = Step(getattr(module, name))
    names = {module: name.removeprefix("model.") for name, module in model.named_modules()}  # ``Pass`` has a model
    try:
        with mock.patch.object(torch.jit._trace, "_trace_module_map", names):
            yield
    finally:
        for module, name in steps:
            del vars(module)[name], module._modules[name]


@contextmanager
def traceable(model: nn.Module) -> Iterator[None]:
    """Puts a model into evaluation mode, without activation checkpointing, until the context ends."""
    was_training = model.training
    checkpointed = {module: module.forward for module in model.modules() if hasattr(module, "precheckpoint_forward")}
    model.eval()
    for module in checkpointed:
        module.forward = module.precheckpoint_forward  # type: ignore[assignment]
    try:
        yield
    finally:
        for module, forward in checkpointed.items():
            module.forward = forward
        model.train(was_training)
