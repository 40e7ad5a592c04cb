"""Parameters and FLOPs in the convention of the papers (HAT, ACL 2020), counted on the built model."""

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from fairseq.models.transformer import TransformerModelBase
from torch import nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.models.state_dict import MECHANISM

EMBEDDINGS, ENCODER, DECODER, OUTPUT = "embeddings", "encoder", "decoder", "output projection"
LM_HEAD, CLASSIFICATION_HEAD = "language model's head", "classification head"
TERMS, BRANCHES = "terms of own logits", "branches beside self-attention"
CONVOLUTIONS = "convolutions inside self-attention"
UNUSED_POSITIONS = 2  # fairseq's rows of positions that no token has: those up to the number of the padding symbol
GROUPS = {  # by what the name of a parameter has; those of encoder and decoder that have none of it are their own
    "embed_tokens": EMBEDDINGS,
    "embed_positions": EMBEDDINGS,
    "segment_embeddings": EMBEDDINGS,
    "lm_head.": LM_HEAD,
    "classification_heads.": CLASSIFICATION_HEAD,
    "value_head.": CLASSIFICATION_HEAD,
    "output_projection": OUTPUT,
    "adaptive_softmax": OUTPUT,
    "_attn.terms.": TERMS,
    "_attn.convolutions.": CONVOLUTIONS,
    ".branch.": BRANCHES,
    ".dilated.": BRANCHES,
    "encoder.": ENCODER,
    "decoder.": DECODER,
}


@dataclass(frozen=True)
class Cost:
    """Parameters and FLOPs in the convention of the papers: without embeddings and output projection."""

    parameters: int
    flops: int


def cost(model: TransformerModelBase, length: int = 30) -> Cost:
    """Counts a Transformer's parameters and the FLOPs of one pair of ``length`` source and target tokens."""
    parameters = count_parameters(model)
    macs = sum(count_macs(model, length, length).values())
    if model.decoder.output_projection is not None:
        macs -= length * model.decoder.output_projection.weight.numel()
    return Cost(parameters.total() - parameters[EMBEDDINGS] - parameters[OUTPUT], 2 * macs)


def count_parameters(model: nn.Module) -> Counter[str]:
    """Parameters by group, the embeddings of positions included; tied ones count once, as embeddings."""
    groups = Counter()
    for name, parameter in model.named_parameters():
        group = next(group for part, group in GROUPS.items() if part in name)
        if group in (ENCODER, DECODER) and MECHANISM.search(name):
            group = mechanism_group(model.family.attention)
        groups[group] += parameter.numel()
    return groups


def mechanism_group(attention: type[Attention]) -> str:
    """What tables call the parameters that a mechanism adds, such as ``evolving-attention convolutions``."""
    return f"{attention.title.replace(' ', '-')} {attention.adds}"


def count_macs(model: TransformerModelBase, source_length: int, target_length: int) -> Counter[str]:
    """Multiply-accumulates of one pair in evaluation mode by torch's operator, as torchprofile counts them."""
    unknown = model.encoder.dictionary.unk()
    source, target = (torch.full((1, length), unknown) for length in (source_length, target_length))
    return traced_macs(model, source, torch.tensor([source_length]), target)


class Pass(nn.Module):
    """A pass of a model, with options such as a padding mask, that returns a tensor alone, as tracing needs it."""

    def __init__(self, model: nn.Module, **options):
        super().__init__()
        self.model, self.options = model, options

    def forward(self, source: torch.Tensor) -> torch.Tensor:
        """What the model returns first."""
        return self.model(source, **self.options)[0]


def traced_macs(model: nn.Module, *inputs: torch.Tensor) -> Counter[str]:
    """Multiply-accumulates of a pass in evaluation mode by torch's operator, as torchprofile counts them."""
    from torchprofile import profile_macs

    with traceable(model), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="No handlers found")  # operations that multiply nothing
        nodes = profile_macs(model, inputs, reduction=None)
    macs = Counter()
    for node, count in nodes.items():
        macs[node.operator] += count
    return macs


@contextmanager
def traceable(model: nn.Module) -> Iterator[None]:
    """Puts a model into evaluation mode, without activation checkpointing, until the context ends."""
    was_training = model.training
    checkpointed = {module: module.forward for module in model.modules() if hasattr(module, "precheckpoint_forward")}
    model.eval()
    for module in checkpointed:
        module.forward = module.precheckpoint_forward
    try:
        yield
    finally:
        for module, forward in checkpointed.items():
            module.forward = forward
        model.train(was_training)
