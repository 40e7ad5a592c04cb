"""The flags for the terms of the scores, which every mechanism has."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.term import Term
from ea_fairseq.errors import UserError
from ea_fairseq.options import Options, one_of, option, switch, whole
from ea_fairseq.terms.additive import Additive
from ea_fairseq.terms.concatenative import Concatenative
from ea_fairseq.terms.dot_product import DotProduct
from ea_fairseq.terms.forget_gates import ForgetGates
from ea_fairseq.terms.image_positions import IMAGE_POSITIONS
from ea_fairseq.terms.lightweight_convolution import DynamicConvolution, FixedConvolution, KeyConvolution
from ea_fairseq.terms.mixture import Mixture
from ea_fairseq.terms.multiplicative import Multiplicative
from ea_fairseq.terms.quadratic import QuadraticPositions
from ea_fairseq.terms.shaw import ShawPositions
from ea_fairseq.terms.synthesizer import DenseSynthesizer, RandomSynthesizer
from ea_fairseq.terms.t5 import T5Positions

ATTENTION_TYPES: dict[str, type[Term]] = {  # by the value of --attention-type other than "dot"
    "multiplicative": Multiplicative,
    "additive": Additive,
    "concatenative": Concatenative,
}
MAPS = {"dense": DenseSynthesizer, "random": RandomSynthesizer}  # by the first word of --synthesizer
SYNTHESIZERS = ("none", *MAPS, *(f"{name}+dot" for name in MAPS))
LONGEST = 1024  # limit of --synthesizer-length; fairseq's Transformer has as many positions by default
CONVOLUTIONS: dict[str, tuple[Callable[..., Term], ...]] = {  # by the value of --lightweight-conv
    "none": (),
    "fixed": (FixedConvolution,),
    "dynamic": (DynamicConvolution,),
    "composite": (DynamicConvolution, FixedConvolution),  # COMP eq. 6
    "composite+key": (DynamicConvolution, FixedConvolution, KeyConvolution),
}
POSITIONS: dict[str, tuple[Callable[..., Term], ...]] = {  # by the value of --relative-positions
    "none": (),
    "shaw": (ShawPositions,),
    "t5": (T5Positions.of_stack,),
    "rope": (),  # rotates queries and keys, see query_key.py
    "composite": CONVOLUTIONS["composite"],
    "quadratic": (QuadraticPositions,),
    **{name: (term,) for name, term in IMAGE_POSITIONS.items()},
}


@dataclass(frozen=True)
class TermOptions(Options):
    """The terms of the scores.

    Raises:
        UserError: naming the flag, if a value is invalid or two flags contradict each other.
    """

    attention_type: str = option(
        "dot",
        one_of("dot", *ATTENTION_TYPES),
        "how all attentions score queries and keys: " + ", ".join(("dot", *ATTENTION_TYPES)),
    )
    synthesizer: str = option(
        "none",
        one_of(*SYNTHESIZERS),
        "scores that replace the dot products of self-attentions, or are mixed with them: from the query alone (dense) "
        "or from no token at all (random): " + ", ".join(SYNTHESIZERS),
    )
    synthesizer_length: int = option(
        256, whole(1, LONGEST), "the longest sentence, in tokens, that a synthesizer supports"
    )
    relative_positions: str = option(
        "none",
        one_of(*POSITIONS),
        "what self-attentions add to their scores by the distance of two tokens: " + ", ".join(POSITIONS),
    )
    shaw_distance: int = option(
        ShawPositions.REACH,
        whole(1, LONGEST),
        "the largest distance, in tokens, with an embedding of its own in --relative-positions shaw",
    )
    shaw_values: bool = switch(
        "--relative-positions shaw adds embeddings of the distance to the values as well as to the scores"
    )
    t5_published: bool = switch(
        "the table of --relative-positions t5 has all 32 buckets of published weights, one of which is never read"
    )
    lightweight_conv: str = option(
        "none",
        one_of(*CONVOLUTIONS),
        "a convolution over 17 tokens that self-attentions add to their scores: " + ", ".join(CONVOLUTIONS),
    )
    forget_gates: bool = switch(
        "in self-attentions, gates of the words between a query and a key lower the key's score"
    )
    no_content_scores: bool = switch(
        "self-attentions score by the distance of two tokens alone, without the tokens themselves"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        synthesizer, by_distance = self.synthesizer != "none", (self.relative_positions, self.lightweight_conv)
        if synthesizer and self.attention_type != "dot":
            given = f"--attention-type {self.attention_type} and --synthesizer {self.synthesizer}"
            raise UserError(f"{given} both take the place of dot products: leave out one of them")
        if "none" not in by_distance:
            raise UserError(
                f"--relative-positions {self.relative_positions} and --lightweight-conv {self.lightweight_conv} both "
                "add scores by the distance of two tokens: set one of them to none"
            )
        if self.shaw_values and self.relative_positions != "shaw":
            raise UserError("--shaw-values is for --relative-positions shaw: give that, or leave it out")
        if self.no_content_scores and synthesizer:
            raise UserError(
                f"--no-content-scores removes the scores of --synthesizer {self.synthesizer}: leave out one of them"
            )
        has_dot_products = self.attention_type == "dot" and self.synthesizer not in MAPS and not self.no_content_scores
        if self.rotates and not has_dot_products:
            raise UserError(
                "--relative-positions rope rotates the queries and keys of dot products: leave out --attention-type, "
                "--no-content-scores and a --synthesizer without dot products"
            )
        if self.no_content_scores and {*by_distance} == {"none"}:
            raise UserError(
                "--no-content-scores leaves self-attentions nothing to score by: give --relative-positions or "
                "--lightweight-conv"
            )

    @property
    def rotates(self) -> bool:
        """Whether queries and keys of self-attentions are rotated by their positions."""
        return self.relative_positions == "rope"

    def build(self, context: LayerContext, width: int, heads: int) -> tuple[Term, ...]:
        """Builds the terms of an attention of ``width`` C and K heads; none if scores are plain dot products.

        Raises:
            UserError: if a term is for images and the model is not, or the other way round.
        """
        if context.kind == "cross":
            terms = [self.content(context, width, heads)]
        else:
            if self.relative_positions in IMAGE_POSITIONS and context.grid is None:
                raise UserError(f"--relative-positions {self.relative_positions} is for models of images, such as vit")
            if self.rotates and context.grid is not None:
                raise UserError(
                    "--relative-positions rope is for sequences: for a model of images, give quadratic_image, say"
                )
            terms = [] if self.no_content_scores else [self.content(context, width, heads)]
            if self.forget_gates and context.grid is not None:
                raise UserError("--forget-gates is for sequences, not for images: leave it out")
            options: dict[str, dict[str, Any]] = {
                "shaw": {"reach": self.shaw_distance, "values": self.shaw_values},
                "t5": {"published": self.t5_published},
            }
            given = options.get(self.relative_positions, {})
            terms += [term(context, width, heads, **given) for term in POSITIONS[self.relative_positions]]
            others = CONVOLUTIONS[self.lightweight_conv] + (ForgetGates,) * self.forget_gates
            terms += [term(context, width, heads) for term in others]
        return () if [*map(type, terms)] == [DotProduct] else tuple(terms)

    def content(self, context: LayerContext, width: int, heads: int) -> Term:
        """The term of queries and keys, or the synthesizer that replaces it in self-attentions."""
        if self.synthesizer == "none" or context.kind == "cross":
            kind = ATTENTION_TYPES.get(self.attention_type)
            return DotProduct() if kind is None else kind(context, width, heads)
        name, _, dot = self.synthesizer.partition("+")
        synthesizer = MAPS[name](context, width, heads, self.synthesizer_length)
        return Mixture(DotProduct(), synthesizer, heads) if dot else synthesizer
