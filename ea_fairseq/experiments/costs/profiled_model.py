"""Models built from flags of fairseq-train, and what they cost, counted on them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from fairseq.models.roberta import RobertaModel
from fairseq.models.transformer import TransformerModelBase
from torch import Tensor, nn

from ea_fairseq.analysis import encoder_cost, time_series_cost
from ea_fairseq.analysis.cost import Pass, count_macs, pair
from ea_fairseq.analysis.parts import EMBEDDINGS, LAST, LM_HEAD, OUTPUT, Part, parts, total
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.benchmark.costs import saved_for_backward
from ea_fairseq.experiments.costs.built_model import HEAD, build, build_encoder, build_series, parse
from ea_fairseq.plain.commands import Parser
from ea_fairseq.series.description import SeriesDescription


class Side(NamedTuple):
    """Types in a dictionary, special symbols included, and tokens of a sentence."""

    vocabulary: int
    length: int


@dataclass(frozen=True)
class ProfiledModel:
    """What a model costs.

    Args:
        parts: as they are counted.
        kept: bytes that autograd keeps for the backward pass, by precision; empty where it is not counted.
    """

    parts: list[Part]
    kept: dict[str, int]

    @classmethod
    def of(cls, model: TransformerModelBase, source: int, target: int) -> "ProfiledModel":
        """Profiles a built model, of which it changes the precision, on one pair of sentences of these lengths."""
        found = parts(model, count_macs(model, source, target))
        return cls(found, kept_for_backward(model, *pair(model, source, target)))

    @property
    def as_published(self) -> tuple[int, int]:
        """Parameters and FLOPs in the papers' convention."""
        parameters = total(self.parts, without=(EMBEDDINGS, OUTPUT)).parameters
        return parameters, 2 * total(self.parts, without=(OUTPUT,)).macs


def kept_for_backward(model: nn.Module, *inputs: Tensor) -> dict[str, int]:
    """Bytes that autograd keeps of a pass in training, parameters left out, in single and in half precision."""
    return {
        name: saved_for_backward(lambda: model(*inputs), model.to(dtype).train().parameters())
        for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16))
    }


def profiled(flags: list[str], source: Side, target: Side, parser: Parser) -> ProfiledModel:
    """Builds the model that flags of fairseq-train describe, and profiles it.

    Args:
        parser: ends with one sentence where fairseq cannot read a flag.

    Raises:
        UserError: where the model cannot be built, or does not read sentences of these lengths.
    """
    with building():
        model = build(parse(flags, parser), source.vocabulary, target.vocabulary)
        sides = (("src", "source", source.length), ("tgt", "target", target.length))
        for (flag, name, length), limit in zip(sides, model.max_positions(), strict=True):
            if length > limit:
                raise UserError(
                    f"--{flag}-len {length} is more than the {limit} positions of the model: raise "
                    f"--max-{name}-positions."
                )
        return ProfiledModel.of(model, source.length, target.length)


@contextmanager
def building() -> Iterator[None]:
    """Turns what goes wrong while fairseq makes a model of flags into a UserError of one sentence."""
    try:
        yield
    except UserError:
        raise
    except (AssertionError, AttributeError, ImportError, RuntimeError, ValueError, ZeroDivisionError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UserError(f"fairseq makes no model of these flags ({reason}): check its sizes.") from None


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
        found, tokens = (
            parts(model, encoder_cost.count_macs(model, length)),
            torch.full((1, length), model.encoder.dictionary.unk()),
        )
        classifier = Pass(model, features_only=True, classification_head_name=HEAD)
        return cls(
            found, kept_for_backward(classifier, tokens), encoder_cost.as_published(model), encoder_cost.layout(model)
        )

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


def profiled_encoder(flags: list[str], sentence: Side, parser: Parser) -> ProfiledEncoder:
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


def profiled_series(flags: list[str], steps: int, channels: int, classes: int, parser: Parser) -> ProfiledModel:
    """Builds the model that flags of fairseq-train describe, and profiles it on one series of the longest.

    Args:
        classes: 0 where a number is predicted.

    Raises:
        UserError: where the model cannot be built.
    """
    labels = tuple(map(str, range(classes))) or None
    description = SeriesDescription((0.0,) * channels, (1.0,) * channels, True, steps, labels)
    with building():
        model = build_series(parse(flags, parser), description)
        return ProfiledModel(parts(model, time_series_cost.count_macs(model)), kept={})
