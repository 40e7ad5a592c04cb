"""The flags that say what own logits are the sum of, which every mechanism takes."""

from dataclasses import dataclass

from ea_fairseq.attention.mechanism import Place
from ea_fairseq.attention.term import Term
from ea_fairseq.options import Options, one_of, option
from ea_fairseq.terms.dot_product import DotProduct
from ea_fairseq.terms.shaw import ShawPositions

POSITIONS = {"none": (), "shaw": (ShawPositions,)}  # terms by the value of --relative-positions


@dataclass(frozen=True)
class TermOptions(Options):
    """Which terms own logits have.

    Raises:
        UserError: naming the flag, when a value is none of those there are.
    """

    relative_positions: str = option(
        "none",
        one_of(*POSITIONS),
        "what self-attentions add to their scores by the distance of two words",
        ", ".join(POSITIONS),
        "NAME",
    )

    def build(self, place: Place, width: int, heads: int) -> tuple[Term, ...]:
        """The terms of an attention of ``width`` C and K heads; none where own logits are dot products alone."""
        terms = (
            [] if place.kind == "cross" else [term(place, width, heads) for term in POSITIONS[self.relative_positions]]
        )
        return (DotProduct(), *terms) if terms else ()
