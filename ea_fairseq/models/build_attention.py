"""Builds an attention from a model's flags: its terms, its convolutions, and heads of the width that flags ask for."""

from typing import Any

from torch import nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.convolution_options import ConvolutionOptions
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.term_options import TermOptions
from ea_fairseq.attention.widened import widen, widen_heads
from ea_fairseq.errors import UserError
from ea_fairseq.models.layer_options import LayerOptions
from ea_fairseq.options import require_defaults


def build_attention(
    kind: type[Attention],
    cfg: Any,
    context: LayerContext,
    embed_dim: int,
    num_heads: int,
    reads: int | None = None,
    keys: int | None = None,
    **kwargs: Any,
) -> Attention:
    """Builds an attention with its score terms and its convolutions of queries, keys and values, from the flags.

    Args:
        reads: channels of the tokens of a self-attention, if not ``embed_dim``.
        keys: total width of all heads of queries and keys, if it differs from that of values.
        kwargs: arguments of fairseq's ``MultiheadAttention``.

    Raises:
        UserError: if heads of another width have no projection to ``embed_dim`` channels.
    """
    options, terms = kind.options.from_namespace(cfg), TermOptions.from_namespace(cfg)
    parts = LayerOptions.from_namespace(cfg)
    width = parts.head_dim * num_heads or kind.width_of_heads(options, embed_dim, num_heads)
    attention = kind.build(
        options,
        context,
        width if parts.head_dim else embed_dim,
        num_heads,
        terms=terms.build(context, keys or width, num_heads),
        convolutions=ConvolutionOptions.from_namespace(cfg).build(context, embed_dim, num_heads, width),
        query_key=parts.query_key((keys or width) // num_heads, terms.rotates and context.kind != "cross"),
        dropout=cfg.attention_dropout,
        **{"bias": not parts.no_biases, **kwargs},
    )
    if width != embed_dim:
        if not isinstance(attention, Attention) or isinstance(attention.out_proj, nn.Identity):
            raise UserError(
                "--head-dim is for attentions that project their outputs, and this model has none: leave it out"
            )
        attention.embed_dim = embed_dim
        attention.kdim, attention.vdim = (kwargs.get(name, embed_dim) for name in ("kdim", "vdim"))
        widen_heads(attention, width, kwargs.get("q_noise", 0.0), kwargs.get("qn_block_size", 8))
    attention.grid = context.grid
    if reads is not None or keys is not None:
        widen(attention, reads or embed_dim, keys=keys)
    if parts.no_scale_attention:
        attention.scaling = 1.0
        attention.fairseq_can_compute = attention.is_plain = False
    return attention


def refuse_idle_attention(args: Any, attention: type[Attention], reason: str, instead: str) -> None:
    """Refuses a mechanism and flags of attentions in a model without attention; ``instead`` names such a model.

    Raises:
        UserError: naming the flag, or the architecture if a mechanism has nothing to act on.
    """
    if attention is not Attention:
        raise UserError(f"{reason}: use --arch {instead} for such a model")
    for kind in (TermOptions, ConvolutionOptions):
        require_defaults(kind.from_namespace(args), reason)
