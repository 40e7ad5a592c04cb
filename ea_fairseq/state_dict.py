"""Which parameters of a checkpoint fit which model."""

import logging
import re

from torch import Tensor, nn

from ea_fairseq.user_error import UserError

logger = logging.getLogger(__name__)
EVOLUTION = re.compile(r"_attn\.(conv\.(weight|bias)|skip)$")


def missing_evolution(model: nn.Module, state_dict: dict[str, Tensor]) -> dict[str, Tensor]:
    """What ``model`` adds to a plain Transformer, its own tensors, where the checkpoint is one's; else nothing."""
    if any(EVOLUTION.search(name) for name in state_dict):
        return {}
    return {name: tensor for name, tensor in model.state_dict().items() if EVOLUTION.search(name)}


def start_evolution(model: nn.Module, identity: bool):
    """Gives the convolutions of ``model`` the start for a plain Transformer's checkpoint, and logs it in one line."""
    convolved = [module for module in model.modules() if getattr(module, "conv", None) is not None]
    if identity:
        for attention in convolved:
            attention.start_as_identity()
    parameters = sum(parameter.numel() for attention in convolved for parameter in attention.conv.parameters())
    logger.info(
        f"the checkpoint is a plain Transformer's: {len(convolved)} convolutions with {parameters:,} parameters are "
        f"new and start {'as the identity' if identity else 'at random'}, all else is the checkpoint's"
    )


def refuse_mismatch(model: nn.Module, state_dict: dict[str, Tensor]):
    """Raises UserError with a sentence that names the first parameter that model and checkpoint do not share."""
    own = model.state_dict()
    for name, parameter in own.items():
        if name not in state_dict:
            raise UserError(f"the checkpoint does not fit the model: it has no {name}.")
        if state_dict[name].shape != parameter.shape:
            sizes = (" x ".join(map(str, tensor.shape)) for tensor in (state_dict[name], parameter))
            raise UserError("the checkpoint does not fit the model: {} is {} in it, {} here.".format(name, *sizes))
    for name in state_dict:
        if name not in own:
            raise UserError(f"the checkpoint does not fit the model: it has {name}, which the model does not have.")
