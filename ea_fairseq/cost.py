"""Parameters and FLOPs in the convention of the papers (HAT, ACL 2020)."""

import warnings
from dataclasses import dataclass

import torch
from fairseq.models.transformer import TransformerModelBase

CONVENTION = (
    "Parameters: without embeddings and output projection. FLOPs: twice the multiply-accumulates that torchprofile "
    "counts on one pair of {length} source and {length} target tokens, without the output projection."
)


@dataclass(frozen=True)
class Cost:
    parameters: int
    flops: int


def cost(model: TransformerModelBase, length: int = 30) -> Cost:
    """Counts a Transformer's parameters and the FLOPs of one pair of ``length`` source and target tokens."""
    parameters = sum(
        parameter.numel()
        for name, parameter in model.named_parameters()
        if "embed_tokens" not in name and "output_projection" not in name
    )
    macs = multiply_accumulates(model, length) - length * model.decoder.output_projection.weight.numel()
    return Cost(parameters, 2 * macs)


def multiply_accumulates(model: TransformerModelBase, length: int) -> int:
    """Multiply-accumulates of one forward pass in evaluation mode, as torchprofile counts them."""
    from torchprofile import profile_macs

    was_training = model.training
    model.eval()
    tokens = torch.full((1, length), model.encoder.dictionary.unk())
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="No handlers found")  # operations that multiply nothing
            return profile_macs(model, (tokens, torch.tensor([length]), tokens))
    finally:
        model.train(was_training)
