"""A model that is an encoder alone, built from flags of fairseq-train, and what it costs."""

from dataclasses import dataclass

import torch
from fairseq.models.roberta import RobertaModel

from ea_fairseq.analysis.cost import Pass
from ea_fairseq.analysis.encoder_cost import as_published, count_macs, layout
from ea_fairseq.analysis.parts import LAST, LM_HEAD, parts, total
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.costs.built_model import HEAD, build_encoder, parse
from ea_fairseq.experiments.costs.profiled_model import ProfiledModel, Side, building, kept_for_backward
from ea_fairseq.plain.commands import Parser


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
    def of(cls, model: RobertaModel, length: int) -> "ProfiledEncoder":
        """Profiles a built model, its classification head included, on one sentence, and changes its precision."""
        found, tokens = parts(model, count_macs(model, length)), torch.full((1, length), model.encoder.dictionary.unk())
        classifier = Pass(model, features_only=True, classification_head_name=HEAD)
        return cls(found, kept_for_backward(classifier, tokens), as_published(model), layout(model))

    @property
    def flops(self) -> int:
        """Of one sentence, as papers count them: without what scores words or classes."""
        return 2 * total(self.parts, without=(LM_HEAD, LAST)).macs

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
        UserError: where the model cannot be built, or does not read a sentence of this length.
    """
    with building():
        args = parse(flags, parser)
        model = build_encoder(args, sentence.vocabulary, max(2, getattr(args, "num_classes", 2)))
        if sentence.length > model.max_positions():
            raise UserError(
                f"--src-len {sentence.length} is more than the {model.max_positions()} positions of the model: raise "
                "--max-positions."
            )
        return ProfiledEncoder.of(model, sentence.length)
