"""A Transformer's parameters and multiply-accumulates part by part, by formula from its options."""

from dataclasses import dataclass

from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from torch import nn

from ea_fairseq.analysis.attention_cost import AttentionCost
from ea_fairseq.analysis.cost import (
    BRANCHES,
    CONVOLUTIONS,
    DECODER,
    EMBEDDINGS,
    ENCODER,
    OUTPUT,
    TERMS,
    UNUSED_POSITIONS,
    mechanism_group,
)
from ea_fairseq.count import Count, linear
from ea_fairseq.errors import UserError
from ea_fairseq.models.transformer import MechanismTransformer
from ea_fairseq.options import name_of_flag

NO_FORMULA = (
    "adaptive_input",
    "adaptive_softmax_cutoff",
    "base_layers",
    "cross_self_attention",
    "decoder_xformers_att_config",
    "encoder_xformers_att_config",
    "no_cross_attention",
    "quant_noise_pq",
)
ACTIVATION_MACS = {"gelu_accurate": 4, "gelu_fast": 4}  # products for an element; others have none


@dataclass(frozen=True)
class Part:
    """A part of a model.

    Args:
        group: as ea_fairseq.analysis.cost names it.
        name: of the part in its group.
        count: its parameters and MACs; parameters that are tied count at the first part that has them.
        tied: to which part, or None.
    """

    group: str
    name: str
    count: Count
    tied: str | None = None


@dataclass(frozen=True)
class Side:
    """Types in a dictionary, special symbols included, and tokens of a sentence."""

    vocabulary: int
    length: int


def attentions(model: TransformerModelBase, source_length: int, target_length: int) -> dict[str, AttentionCost]:
    """The three kinds of attention: ``encoder``, ``decoder`` and ``cross``."""
    encoder, decoder = (list(side.layers.children()) for side in (model.encoder, model.decoder))
    return {
        "encoder": AttentionCost.of([layer.self_attn for layer in encoder], source_length, source_length),
        "decoder": AttentionCost.of([layer.self_attn for layer in decoder], target_length, target_length),
        "cross": AttentionCost.of([layer.encoder_attn for layer in decoder], target_length, source_length),
    }


def parts(model: TransformerModelBase, source: Side, target: Side) -> list[Part]:
    """The parts of a model, for one pair of sentences without padding.

    Raises:
        UserError: naming the flag of an option that has no formula here.
    """
    cfg = model.cfg
    refuse_unknown(cfg)
    kinds = attentions(model, source.length, target.length)
    ours = isinstance(model, MechanismTransformer)
    return [
        *embedding_parts(cfg, source, target),
        *encoder_parts(cfg, kinds["encoder"], masked=not ours),
        *decoder_parts(cfg, kinds["decoder"], kinds["cross"]),
        *(mechanism_parts(mechanism_group(model.family.attention), kinds) if ours else ()),
        *branch_parts({"encoder": (model.encoder, source.length), "decoder": (model.decoder, target.length)}),
        output_part(cfg, target),
    ]


def mechanism_parts(group: str, kinds: dict[str, AttentionCost]) -> list[Part]:
    """What a mechanism adds to the kinds of attention, and what terms and convolutions do, where it costs something."""
    names = {"encoder": "encoder self-attention", "decoder": "decoder self-attention"}
    names["cross"] = "encoder-decoder attention"
    extra = [Part(group, names[kind], attentions.extra) for kind, attentions in kinds.items()]
    terms = [Part(TERMS, names[kind], attentions.of_terms) for kind, attentions in kinds.items()]
    convolutions = [Part(CONVOLUTIONS, names[kind], attentions.convolutions) for kind, attentions in kinds.items()]
    return [part for part in extra + terms + convolutions if part.count != Count()]


def branch_parts(stacks: dict[str, tuple[nn.Module, int]]) -> list[Part]:
    """What stands beside self-attention in the layers of stacks, each with the words that it reads."""
    found = []
    for name, (side, words) in stacks.items():
        branches = [layer.branch for layer in side.layers if getattr(layer, "branch", None) is not None]
        if branches:
            found.append(Part(BRANCHES, name, sum((branch.cost(words) for branch in branches), Count())))
    return found


def refuse_unknown(cfg: TransformerConfig) -> None:
    """Raises UserError where an option changes the model in a way that the formulas do not know."""
    for name in NO_FORMULA:
        if getattr(cfg, name, None):
            raise UserError(f"there is no formula for the cost of {name_of_flag(name)}: leave it out.")


def one_table(cfg: TransformerConfig) -> bool:
    """Whether encoder and decoder share their embeddings."""
    return cfg.share_all_embeddings or cfg.merge_src_tgt_embed


def embedding_parts(cfg: TransformerConfig, source: Side, target: Side) -> list[Part]:
    """Tables are looked up without a product; scaling what is found, and counting positions, takes some."""
    widths = (cfg.encoder.embed_dim, cfg.encoder.embed_dim if one_table(cfg) else cfg.decoder.embed_dim)
    scaled = (source.length * widths[0], target.length * widths[1])
    tables = (source.vocabulary * widths[0], 0 if one_table(cfg) else target.vocabulary * widths[1])
    found = [
        Part(EMBEDDINGS, "source tokens", Count(tables[0], scaled[0])),
        Part(EMBEDDINGS, "target tokens", Count(tables[1], scaled[1]), "source tokens" if one_table(cfg) else None),
    ]
    if cfg.no_token_positional_embeddings:
        return found
    limits = (cfg.max_source_positions, cfg.max_target_positions)
    learned = [
        (limit + UNUSED_POSITIONS) * side.embed_dim * side.learned_pos
        for side, limit in zip((cfg.encoder, cfg.decoder), limits, strict=True)
    ]
    return [*found, Part(EMBEDDINGS, "positions", Count(sum(learned), source.length + target.length))]


def encoder_parts(cfg: TransformerConfig, attention: AttentionCost, masked: bool) -> list[Part]:
    """Args: masked: whether padding is cleared by a product, as fairseq does."""
    side, words = cfg.encoder, attention.queries
    mask = Count(macs=words * (side.embed_dim + 1) * masked)
    norms = 2 * side.layers + side.normalize_before + cfg.layernorm_embedding
    return [
        Part(ENCODER, "self-attention projections", attention.projections),
        Part(ENCODER, "self-attention maps", attention.maps),
        Part(ENCODER, "feed-forward", feed_forward(side, words)),
        Part(ENCODER, "layer norms", Count(2 * side.embed_dim, words * side.embed_dim) * norms),
        Part(ENCODER, "element-wise", mask + attention.element_wise + activation(cfg, side, words)),
    ]


def decoder_parts(cfg: TransformerConfig, own: AttentionCost, cross: AttentionCost) -> list[Part]:
    """The decoder's parts: both attentions, feed-forward, norms, element-wise operations and a change of width."""
    side, words = cfg.decoder, own.queries
    alignment = Count(macs=words * cross.keys)  # the mean over heads that the last layer returns
    norms = 3 * side.layers + (side.normalize_before and not cfg.no_decoder_final_norm) + cfg.layernorm_embedding
    found = [
        Part(DECODER, "self-attention projections", own.projections),
        Part(DECODER, "self-attention maps", own.maps),
        Part(DECODER, "cross-attention projections", cross.projections),
        Part(DECODER, "cross-attention maps", cross.maps),
        Part(DECODER, "feed-forward", feed_forward(side, words)),
        Part(DECODER, "layer norms", Count(2 * side.embed_dim, words * side.embed_dim) * norms),
        Part(
            DECODER,
            "element-wise",
            own.element_wise + cross.element_wise + alignment + activation(cfg, side, words),
        ),
    ]
    if side.output_dim != side.embed_dim:
        found.append(Part(DECODER, "output width", linear(side.embed_dim, side.output_dim, words, bias=False)))
    return found


def feed_forward(side, words: int) -> Count:
    """Of all layers of a side (``cfg.encoder`` or ``cfg.decoder``), for a number of words."""
    into = linear(side.embed_dim, side.ffn_embed_dim, words)
    return (into + linear(side.ffn_embed_dim, side.embed_dim, words)) * side.layers


def activation(cfg: TransformerConfig, side, words: int) -> Count:
    """The products of the activation function in all layers of a side."""
    return Count(macs=ACTIVATION_MACS.get(cfg.activation_fn, 0) * side.ffn_embed_dim * words * side.layers)


def output_part(cfg: TransformerConfig, target: Side) -> Part:
    """The product with the table of the target vocabulary, whose parameters may be tied."""
    projection = linear(cfg.decoder.output_dim, target.vocabulary, target.length, bias=False)
    if not cfg.share_decoder_input_output_embed:
        return Part(OUTPUT, OUTPUT, projection)
    return Part(OUTPUT, OUTPUT, Count(0, projection.macs), "target tokens")
