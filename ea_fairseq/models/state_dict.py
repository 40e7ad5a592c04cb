"""Loading a checkpoint's parameters into a model with other parameters, and refusing those that do not fit."""

import logging
import re
from collections.abc import Container

from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.errors import UserError
from ea_fairseq.options import Options

logger = logging.getLogger(__name__)
MECHANISM = re.compile(  # parameters that neither fairseq's layers nor our plain ones have
    r"_attn\.(?!([qkv]|out)_proj\.|bias_[kv]$|query_key\.)|\.branch\."
)
BY_FLAGS = re.compile(r"_attn\.(terms|convolutions)\.")  # those of them that flags add to our plain layers
PROJECTION = re.compile(r"_attn\.[qk]_proj\.(weight|bias)$")


def missing_mechanism_parameters(model: nn.Module, state_dict: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns the tensors of the model's mechanism if the checkpoint is a plain Transformer's, else nothing."""
    if any(MECHANISM.search(name) and not BY_FLAGS.search(name) for name in state_dict):
        return {}
    own = model.state_dict()
    return {name: tensor for name, tensor in own.items() if MECHANISM.search(name) and name not in state_dict}


def remove_unused_projections(model: nn.Module, state_dict: dict[str, Tensor]) -> int:
    """Removes projections of queries and keys that the model does not have; returns how many."""
    own = model.state_dict()
    unused = [name for name in state_dict if PROJECTION.search(name) and name not in own]
    for name in unused:
        del state_dict[name]
    return len({name.rpartition(".")[0] for name in unused})


def initialize_mechanism(
    model: nn.Module, kind: type[Attention], options: Options, new: Container[str], unused: int = 0
) -> None:
    """Initializes a mechanism's parameters for a plain Transformer's checkpoint, and logs how in one line.

    Args:
        kind: the mechanism's attention.
        new: the names of these parameters.
        unused: number of the checkpoint's projections that the model does not have.
    """
    added = {name: parameter for name, parameter in model.named_parameters() if name in new}
    attentions = [(name, module) for name, module in model.named_modules() if isinstance(module, Attention)]
    starts = {name: attention.start_from_plain(options) for name, attention in attentions}
    changed = [name for name in starts if any(parameter.startswith(f"{name}.") for parameter in added)]
    described = f"{kind.title} is new and has no parameters"
    if added:
        parameters = sum(map(Tensor.numel, added.values()))
        start = " or ".join(sorted({starts[name] for name in changed}))
        described = f"{len(changed)} {kind.adds} with {parameters:,} parameters are new and start {start}"
    left = f"; {unused} projections of queries and keys are not used" if unused else ""
    logger.info(f"the checkpoint is a plain model's: {described}, all other parameters are loaded{left}")


def refuse_mismatch(model: nn.Module, state_dict: dict[str, Tensor]) -> None:
    """Raises UserError naming the first parameter that model and checkpoint do not share."""
    own = model.state_dict()
    for name, parameter in own.items():
        if name not in state_dict:
            raise UserError(f"the checkpoint does not fit the model: the checkpoint has no {name}.")
        if state_dict[name].shape != parameter.shape:
            stored, expected = (" x ".join(map(str, tensor.shape)) for tensor in (state_dict[name], parameter))
            other_vocabulary = name.endswith("embed_tokens.weight") and stored.split()[1:] == expected.split()[1:]
            hint = ": the dictionary has another number of tokens than in training" if other_vocabulary else ""
            raise UserError(
                f"the checkpoint does not fit the model: {name} is {stored} in the checkpoint, and {expected} in the "
                f"model{hint}."
            )
    for name in state_dict:
        if name not in own:
            raise UserError(f"the checkpoint does not fit the model: the model has no {name}.")
