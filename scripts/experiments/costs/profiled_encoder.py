"""A model that is an encoder alone, built from flags of fairseq-train, and its costs by formula and counted."""

from dataclasses import dataclass

from fairseq.models.roberta import RobertaModel
from step import StepError

from ea_fairseq.analysis.cost import LM_HEAD, count_parameters
from ea_fairseq.analysis.cost_formula import Side
from ea_fairseq.analysis.encoder_cost import LAST, as_published, attentions, count_macs, layout, parts
from ea_fairseq.models.roberta import MechanismRoberta
from experiments.arguments import Parser
from experiments.costs.built_model import build_encoder, parse
from experiments.costs.profiled_model import ProfiledModel, building


@dataclass(frozen=True)
class ProfiledEncoder(ProfiledModel):
    """What an encoder costs.

    Args:
        published: parameters as papers count them, by what they count.
        layout: in what fairseq's layout differs: parameters that ``published`` has beyond it, by what they are.
    """

    published: dict[str, int]
    layout: dict[str, int]

    @classmethod
    def of(cls, model: RobertaModel, sentence: Side) -> "ProfiledEncoder":
        """Profiles a built model, its classification head included, on one sentence."""
        found = parts(model, sentence)
        return cls(
            found,
            attentions(model, sentence.length),
            count_parameters(model),
            count_macs(model, sentence.length),
            model.family.attention if isinstance(model, MechanismRoberta) else None,
            model.max_positions(),
            as_published(model, found),
            layout(model),
        )

    @property
    def flops(self) -> int:
        """Of one sentence, as papers count them: without what scores words or classes."""
        counted = (part.count.macs for part in self.parts if part.group != LM_HEAD and part.name != LAST)
        return 2 * sum(counted)

    @property
    def has_lm_head(self) -> bool:
        """Whether it can score words."""
        return any(part.group == LM_HEAD for part in self.parts)

    @property
    def classes(self) -> int:
        """Parameters of the layer to classes, which published models of encoders do not count."""
        return sum(part.count.parameters for part in self.parts if part.name == LAST)


def profiled(flags: list[str], sentence: Side, parser: Parser) -> ProfiledEncoder:
    """Builds the encoder that flags of fairseq-train describe, and profiles it.

    Args:
        parser: ends with one sentence where fairseq cannot read a flag.

    Raises:
        StepError: where the model cannot be built, or does not read a sentence of this length.
    """
    with building():
        args = parse(flags, parser)
        model = build_encoder(args, sentence.vocabulary, max(2, getattr(args, "num_classes", 2)))
        if sentence.length > model.max_positions():
            raise StepError(
                f"--src-len {sentence.length} is more than the {model.max_positions()} positions of the model: raise "
                "--max-positions."
            )
        return ProfiledEncoder.of(model, sentence)
