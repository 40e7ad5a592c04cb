"""Attentions whose tokens, queries, keys or values differ in width from their output."""

from typing import Any

from fairseq.modules.quant_noise import quant_noise
from torch import nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.by_word import GAIN
from ea_fairseq.errors import UserError


def widen(attention: Attention, reads: int, *noise: Any, keys: int | None = None) -> None:
    """Lets a self-attention of C channels, with any mechanism, read tokens (T, B, C') of ``reads`` channels C'.

    Args:
        noise: fairseq's quantization noise, ``q_noise`` and ``qn_block_size``.
        keys: total width of all heads of queries and keys, by default C; terms must be built for it.

    Raises:
        UserError: if ``--conv-projections`` adds convolutions, which read C channels; or if ``--shaw-values`` adds
            embeddings that are as wide as keys to values of another width.
    """
    if attention.convolutions is not None and attention.convolutions.act_on("qkv"):
        raise UserError("--conv-projections needs as many input as output channels, and this attention reads more")
    attention.kdim = reads
    if keys is not None:
        attention.key_dim = keys // attention.num_heads
        attention.scaling = attention.key_dim**-0.5
        if attention.key_dim != attention.head_dim and any(term.has_values for term in attention.terms):
            raise UserError(
                "--shaw-values adds embeddings as wide as keys to values, which have another width here: leave it out"
            )
    project_anew(attention, dict.fromkeys("qkv", reads), *noise)


def widen_heads(attention: Attention, width: int, *noise: Any) -> None:
    """Gives the K heads of an attention of C channels a total width of K d, with any mechanism.

    Queries, keys and values are then (T, B, K d); terms must be built for this width.

    Args:
        noise: as for :func:`widen`.
    """
    channels = attention.embed_dim
    attention.head_dim = attention.key_dim = width // attention.num_heads
    attention.scaling = attention.head_dim**-0.5
    project_anew(attention, {"q": channels, "k": attention.kdim, "v": attention.vdim}, *noise)
    has_bias = attention.out_proj.bias is not None
    attention.out_proj = linear(width, channels, has_bias, 1.0, *noise)
    if has_bias:
        nn.init.zeros_(attention.out_proj.bias)


def project_anew(attention: Attention, reads: dict[str, int], *noise: Any) -> None:
    """Replaces the projections: ``reads`` has the channels that queries, keys and values are projected from."""
    read_channels(attention, reads["q"], reads["k"])
    attention.fairseq_can_compute = attention.is_plain = False
    has_bias = attention.v_proj.bias is not None
    for part in attention.projected:
        setattr(attention, f"{part}_proj", linear(reads[part], attention.width(part), has_bias, GAIN, *noise))


def read_channels(attention: Attention, channels: int, of_keys: int | None = None) -> bool:
    """Rebuilds modules with a ``read`` method for tokens of so many channels; returns whether there are any.

    Dense synthesizers and gates are such modules. Those with ``reads_keys`` read tokens of keys.
    """
    found = [module for module in attention.modules() if hasattr(module, "read")]
    for module in found:
        reads_keys = of_keys is not None and getattr(module, "reads_keys", False)
        module.read(of_keys if reads_keys else channels, attention.width("q"))
    return bool(found)


def linear(
    inputs: int, outputs: int, has_bias: bool, gain: float, q_noise: float = 0.0, qn_block_size: int = 8
) -> nn.Module:
    """Builds a linear layer, initialised as in fairseq's attention."""
    layer = nn.Linear(inputs, outputs, bias=has_bias)
    nn.init.xavier_uniform_(layer.weight, gain)
    return quant_noise(layer, q_noise, qn_block_size)
