"""A Transformer's parameters and multiply-accumulates part by part, by formula from its options."""

from dataclasses import dataclass

from fairseq.models.transformer import TransformerConfig

from ea_fairseq.analysis.attention_cost import AttentionCost, Count, linear
from ea_fairseq.analysis.cost import CONVOLUTIONS, DECODER, EMBEDDINGS, ENCODER, OUTPUT
from ea_fairseq.mechanisms.evolution import EvolutionOptions
from ea_fairseq.user_error import UserError

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


def attentions(
    cfg: TransformerConfig, evolution: EvolutionOptions | None, source_length: int, target_length: int
) -> dict[str, AttentionCost]:
    """The three kinds of attention: ``encoder``, ``decoder`` and ``cross``."""
    encoder, decoder = cfg.encoder, cfg.decoder
    evolve = {kind: evolution and getattr(evolution, kind) for kind in ("encoder", "decoder", "cross")}
    of_encoder = (encoder.embed_dim, encoder.embed_dim, encoder.attention_heads, encoder.layers)
    of_decoder = (decoder.attention_heads, decoder.layers, target_length)
    return {
        "encoder": AttentionCost(*of_encoder, source_length, source_length, evolve["encoder"]),
        "decoder": AttentionCost(
            decoder.embed_dim, decoder.embed_dim, *of_decoder, target_length, evolution=evolve["decoder"]
        ),
        "cross": AttentionCost(
            decoder.embed_dim, encoder.embed_dim, *of_decoder, source_length, evolve["cross"], cross=True
        ),
    }


def parts(cfg: TransformerConfig, evolution: EvolutionOptions | None, source: Side, target: Side) -> list[Part]:
    """The parts of a model, for one pair of sentences without padding.

    Args:
        cfg: the options, as the built model has them: ``model.cfg``.
        evolution: those of evolving attention, None for fairseq's own Transformer.

    Raises:
        UserError: naming the flag of an option that has no formula here.
    """
    refuse_unknown(cfg)
    kinds = attentions(cfg, evolution, source.length, target.length)
    return [
        *embedding_parts(cfg, source, target),
        *encoder_parts(cfg, kinds["encoder"], masked=evolution is None),
        *decoder_parts(cfg, kinds["decoder"], kinds["cross"]),
        Part(CONVOLUTIONS, "encoder self-attention", kinds["encoder"].convolutions),
        Part(CONVOLUTIONS, "decoder self-attention", kinds["decoder"].convolutions),
        Part(CONVOLUTIONS, "encoder-decoder attention", kinds["cross"].convolutions),
        output_part(cfg, target),
    ]


def refuse_unknown(cfg: TransformerConfig) -> None:
    """Raises UserError where an option changes the model in a way that the formulas do not know."""
    for name in NO_FORMULA:
        if getattr(cfg, name, None):
            raise UserError(f"there is no formula for the cost of --{name.replace('_', '-')}: leave it out.")


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
    padding = 2  # positions that fairseq leaves free: those up to the number of the padding symbol
    limits = (cfg.max_source_positions, cfg.max_target_positions)
    sides = (cfg.encoder, cfg.decoder)
    learned = [(limit + padding) * side.embed_dim * side.learned_pos for side, limit in zip(sides, limits, strict=True)]
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
    into = linear(side.embed_dim, side.ffn_embed_dim, words)
    return (into + linear(side.ffn_embed_dim, side.embed_dim, words)) * side.layers


def activation(cfg: TransformerConfig, side, words: int) -> Count:
    return Count(macs=ACTIVATION_MACS.get(cfg.activation_fn, 0) * side.ffn_embed_dim * words * side.layers)


def output_part(cfg: TransformerConfig, target: Side) -> Part:
    projection = linear(cfg.decoder.output_dim, target.vocabulary, target.length, bias=False)
    if not cfg.share_decoder_input_output_embed:
        return Part(OUTPUT, OUTPUT, projection)
    return Part(OUTPUT, OUTPUT, Count(0, projection.macs), "target tokens")
