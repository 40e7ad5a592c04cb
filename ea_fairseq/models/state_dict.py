"""Which parameters of a checkpoint fit which model."""

import logging
import re

from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.errors import UserError
from ea_fairseq.options import Options

logger = logging.getLogger(__name__)
MECHANISM = re.compile(r"_attn\.(?!([qkv]|out)_proj\.|bias_[kv]$)|\.branch\.")  # what fairseq's own layers do not have
PROJECTION = re.compile(r"_attn\.[qk]_proj\.(weight|bias)$")


def missing_mechanism(model: nn.Module, state_dict: dict[str, Tensor]) -> dict[str, Tensor]:
    """What ``model`` adds to a plain Transformer, its own tensors, where the checkpoint is one's; else nothing."""
    if any(MECHANISM.search(name) for name in state_dict):
        return {}
    return {name: tensor for name, tensor in model.state_dict().items() if MECHANISM.search(name)}


def remove_unread(model: nn.Module, state_dict: dict[str, Tensor]) -> int:
    """Removes a plain Transformer's projections of queries and keys where ``model`` has none; returns how many."""
    own = model.state_dict()
    unread = [name for name in state_dict if PROJECTION.search(name) and name not in own]
    for name in unread:
        del state_dict[name]
    return len({name.rpartition(".")[0] for name in unread})


def start_mechanism(model: nn.Module, kind: type[Attention], options: Options, unread: int = 0) -> None:
    """Gives a mechanism's parameters their start for a plain Transformer's checkpoint, and logs it in one line.

    Args:
        kind: the mechanism's attention.
        unread: number of the checkpoint's projections that the model has no use for.
    """
    added = {name: parameter for name, parameter in model.named_parameters() if MECHANISM.search(name)}
    attentions = [(name, module) for name, module in model.named_modules() if isinstance(module, Attention)]
    starts = {attention.start_from_plain(options) for _, attention in attentions}
    changed = sum(any(parameter.startswith(f"{name}.") for parameter in added) for name, _ in attentions)
    new = f"{kind.title} is new and has no parameters"
    if added:
        parameters, start = sum(map(Tensor.numel, added.values())), " or ".join(sorted(starts))
        new = f"{changed} {kind.adds} with {parameters:,} parameters are new and start {start}"
    left = f", without {unread} projections of queries and keys that nothing reads" if unread else ""
    logger.info(f"the checkpoint is a plain Transformer's: {new}, all else is the checkpoint's{left}")


def refuse_mismatch(model: nn.Module, state_dict: dict[str, Tensor]) -> None:
    """Raises UserError with a sentence that names the first parameter that model and checkpoint do not share."""
    own = model.state_dict()
    for name, parameter in own.items():
        if name not in state_dict:
            raise UserError(f"the checkpoint does not fit the model: it has no {name}.")
        if state_dict[name].shape != parameter.shape:
            sizes = (" x ".join(map(str, tensor.shape)) for tensor in (state_dict[name], parameter))
            other_words = name.endswith("embed_tokens.weight") and state_dict[name].shape[1:] == parameter.shape[1:]
            hint = ": the dictionary has another number of words than when it was trained" if other_words else ""
            raise UserError(
                "the checkpoint does not fit the model: {} is {} in it, {} here{}.".format(name, *sizes, hint)
            )
    for name in state_dict:
        if name not in own:
            raise UserError(f"the checkpoint does not fit the model: it has {name}, which the model does not have.")
