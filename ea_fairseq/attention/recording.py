"""Records the maps of every attention during a forward pass."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.errors import UserError


@contextmanager
def recording(model: nn.Module) -> Iterator[dict[str, dict[str, Tensor | None]]]:
    """Records the maps of each attention of a model, by the attention's name, until the context ends.

    Each record has the tensors ``own``, ``input``, ``logits`` and ``probabilities``, all (B, K, T, S), of the last
    pass and ``masked``, true where a query must not see a key. fairseq's own attentions compute as always, and a
    shadow of each, with the same parameters and inputs, records. A compiled model runs uncompiled until then.

    Raises:
        UserError: if the model has no attention.
    """
    records = {}
    with ExitStack() as end:
        for name, attention in list(model.named_modules()):
            if not isinstance(attention, MultiheadAttention):
                continue
            if not isinstance(attention, Attention):
                shadow = shadow_of(attention)
                end.enter_context(attention.register_forward_pre_hook(follow(shadow), with_kwargs=True))
                attention = shadow
            end.callback(setattr, attention, "recorded", None)
            records[name] = attention.recorded = {}
        if not records:
            raise UserError("this model has no attention: there is no map to show.")
        with torch.compiler.set_stance("force_eager"):
            yield records


def shadow_of(attention: MultiheadAttention) -> Attention:
    """Builds an attention that can record and that shares the parameters of fairseq's ``attention``."""
    shadow = Attention(
        attention.embed_dim,
        attention.num_heads,
        kdim=attention.kdim,
        vdim=attention.vdim,
        self_attention=attention.self_attention,
        encoder_decoder_attention=attention.encoder_decoder_attention,
    )
    for name, module in attention.named_children():
        setattr(shadow, name, module)
    return shadow


def follow(shadow: Attention) -> Callable[[nn.Module, tuple, dict], None]:
    """Returns a hook that calls a shadow with its attention's inputs."""

    def hook(attention: nn.Module, args: tuple, kwargs: dict) -> None:
        shadow(*args, **kwargs)

    return hook
