"""The cache of models that are packed for native code; a change of a model's parameters or modules invalidates it."""

from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch
from fairseq.models.transformer import TransformerModelBase
from fairseq.modules import FairseqDropout
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.kernels import dispatch
from ea_fairseq.search.native_model import NativeModel
from ea_fairseq.search.support import hooks_of, unsupported_reasons

cached_models: WeakKeyDictionary[nn.Module, "CachedModel"] = WeakKeyDictionary()
parameter_norms: WeakKeyDictionary[nn.Module, Tensor] = WeakKeyDictionary()  # at the last validation


class ModelFingerprint:
    """Detects changes of everything that a packed model depends on, without walking through its modules.

    Args:
        model: only a weak reference to it is stored.
    """

    def __init__(self, model: TransformerModelBase):
        self._model, self._parameters = ref(model), list(model.parameters())
        self._submodules = [module for module in model.modules() if module is not model]
        self._attentions = [module for module in self._submodules if isinstance(module, Attention)]
        self._decoder_layers = list(model.decoder.layers)
        self._dropouts = [module for module in self._submodules if isinstance(module, FairseqDropout)]

    def state(self) -> list[object]:
        """A value that compares equal until parameters, hooks or modes of the modules change.

        A write to a parameter's ``.data`` is not detected, because torch does not count it.
        """
        modules: list[Any] = [self._model(), *self._submodules]
        return [
            dispatch.backend,
            [tuple(map(id, (*module._modules.values(), *module._parameters.values()))) for module in modules],
            [(parameter.data_ptr(), version(parameter)) for parameter in self._parameters],
            [(module.training, *map(len, hooks_of(module))) for module in modules],
            [layer.need_attn for layer in self._decoder_layers],
            [(fused_settings(attention), attention.recorded is None) for attention in self._attentions],
            [dropout.apply_during_inference for dropout in self._dropouts],
        ]


def fused_settings(attention: Attention) -> tuple | None:
    """The settings, other than parameters, of what kernels compute of an attention's logits."""
    fused = attention.fused
    return None if fused is None else fused.settings


def version(parameter: Tensor) -> int:
    """The number of in-place changes of a parameter, which torch does not count in inference mode."""
    return 0 if parameter.is_inference() else parameter._version


class CachedModel:
    """A model's packed parameters, or the reason why native code does not support the model."""

    def __init__(self, model: TransformerModelBase):
        self.fingerprint = ModelFingerprint(model)
        self.state = self.fingerprint.state()
        self.unsupported_reason = next(unsupported_reasons(model), None)
        self.packed: dict[str, NativeModel] = {}  # by the precision of linear layers
        self.fastest: dict[tuple[int, tuple[str, ...], Path | None], str] = {}  # precision, by beam size and request

    def native(self, model: TransformerModelBase, precision: str) -> NativeModel:
        """The packed parameters, which are packed at the first call for each precision."""
        if precision not in self.packed:
            self.packed[precision] = NativeModel(model, precision)
        return self.packed[precision]


def cached_model(model: TransformerModelBase) -> CachedModel:
    """The model's entry in the cache, which is made anew after a change."""
    found = cached_models.get(model)
    if found is None or found.state != found.fingerprint.state():
        found = cached_models[model] = CachedModel(model)
    return found


def forget_if_trained(model: nn.Module) -> None:
    """Removes a model from the cache if its parameters changed since the last validation.

    The norms of the parameters are compared, because optimizers write to ``.data``, which torch does not count.
    """
    norms = torch.stack([parameter.detach().float().norm() for parameter in model.parameters()])
    if model not in parameter_norms or not torch.equal(norms, parameter_norms[model]):
        parameter_norms[model] = norms
        cached_models.pop(model, None)
