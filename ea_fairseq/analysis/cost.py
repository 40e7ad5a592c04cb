"""Parameters and FLOPs in the convention of the papers (HAT, ACL 2020), counted on the built model."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from fairseq.models.transformer import TransformerEncoderBase, TransformerModelBase
from torch import nn

from ea_fairseq.analysis.parts import EMBEDDINGS, OUTPUT, parts, total
from ea_fairseq.attention.attention import Attention

UNUSED_POSITIONS = 2  # fairseq's rows of positions that no token has: those up to the number of the padding symbol
STEPS = {  # methods whose multiplications are counted under their names, as if they were modules
    TransformerEncoderBase: ("forward_embedding",),
    Attention: ("receive", "combine", "transform", "reweigh", "values"),
}


@dataclass(frozen=True)
class Cost:
    """Parameters and FLOPs in the convention of the papers: without embeddings and output projection."""

    parameters: int
    flops: int


def cost(model: TransformerModelBase, length: int = 30) -> Cost:
    """Counts a Transformer's parameters and the FLOPs of one pair of ``length`` source and target tokens."""
    found = parts(model, count_macs(model, length, length))
    parameters = total(found, without=(EMBEDDINGS, OUTPUT)).parameters
    return Cost(parameters, 2 * total(found, without=(OUTPUT,)).macs)


def count_macs(model: TransformerModelBase, source_length: int, target_length: int) -> Counter[str]:
    """Multiply-accumulates of one pair in evaluation mode, see :func:`traced_macs`."""
    return traced_macs(model, *pair(model, source_length, target_length))


def pair(model: TransformerModelBase, source_length: int, target_length: int) -> tuple[torch.Tensor, ...]:
    """What a model takes of one pair of sentences of unknown words: source, its length and target."""
    source, target = (torch.full((1, n), model.encoder.dictionary.unk()) for n in (source_length, target_length))
    return source, torch.tensor([source_length]), target


class Pass(nn.Module):
    """A pass of a model, with options such as a padding mask, that returns a tensor alone, as tracing needs it."""

    def __init__(self, model: nn.Module, **options: Any):
        super().__init__()
        self.model, self.options = model, options

    def forward(self, source: torch.Tensor) -> torch.Tensor:
        """What the model returns first."""
        return self.model(source, **self.options)[0]


class Step(nn.Module):
    """A method as a module, under whose name tracing puts its operations."""

    def __init__(self, method: Callable):
        super().__init__()
        self.method = method

    def forward(self, *args: object) -> object:
        """What the method returns."""
        return self.method(*args)


def traced_macs(model: nn.Module, *inputs: torch.Tensor) -> Counter[str]:
    """Multiply-accumulates of a pass in evaluation mode, as torchprofile counts them.

    Returns:
        Numbers by module or step and, after a space, torch's operator: ``encoder.layers.0.fc1 linear``.
    """
    from torchprofile import profile_macs
    from torchprofile.handlers import HANDLER_MAP

    HANDLER_MAP.setdefault("aten::gru", lambda node: HANDLER_MAP["aten::lstm"](node) * 3 // 4)  # three gates, not four
    with traceable(model), named_steps(model), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="No handlers found")  # operations that multiply nothing
        nodes = profile_macs(model, inputs, reduction=None)
    macs = Counter[str]()
    for node, count in nodes.items():
        macs[f"{node.scope.rpartition('/')[2]} {node.operator.removeprefix('aten::')}"] += count
    return +macs


@contextmanager
def named_steps(model: nn.Module) -> Iterator[None]:
    """Lets traces of a model name its modules and steps, until the context ends."""
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
