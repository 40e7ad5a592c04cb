"""A model built from flags of fairseq-train, and its costs by formula, which must be those counted on it."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fairseq.models.transformer import TransformerModelBase
from step import StepError

from ea_fairseq import UserError
from ea_fairseq.analysis.attention_cost import AttentionCost
from ea_fairseq.analysis.cost import CONVOLUTIONS, EMBEDDINGS, OUTPUT, count_macs, count_parameters, mechanism_group
from ea_fairseq.analysis.cost_formula import Part, Side, attentions, parts
from ea_fairseq.attention.attention import Attention
from ea_fairseq.count import Count
from ea_fairseq.models.transformer import MechanismTransformer
from experiments.arguments import Parser
from experiments.costs.built_model import build, parse

CONVOLVES = "aten::_convolution"  # torch's operator that convolutions inside self-attention run, too


@dataclass(frozen=True)
class ProfiledModel:
    """What a model costs.

    Args:
        parts: by formula.
        attentions: the kinds of attention: three, or one of an encoder alone.
        parameters: of the built model by group.
        macs: that torchprofile counts, by torch's operator.
        attention: what the layers are built of; None in fairseq's Transformer.
        longest: sentence that it reads, in tokens.
    """

    parts: list[Part]
    attentions: dict[str, AttentionCost]
    parameters: Counter[str]
    macs: Counter[str]
    attention: type[Attention] | None
    longest: int

    @classmethod
    def of(cls, model: TransformerModelBase, source: Side, target: Side) -> "ProfiledModel":
        """Profiles a built model on one pair of sentences of these lengths."""
        return cls(
            parts(model, source, target),
            attentions(model, source.length, target.length),
            count_parameters(model),
            count_macs(model, source.length, target.length),
            model.family.attention if isinstance(model, MechanismTransformer) else None,
            min(model.max_positions()),
        )

    def total(self, *groups: str, without: tuple[str, ...] = ()) -> Count:
        """The sum of these groups, or of all, less those without which it is asked for."""
        chosen = (part for part in self.parts if (not groups or part.group in groups) and part.group not in without)
        return sum((part.count for part in chosen), Count())

    @property
    def as_published(self) -> tuple[int, int]:
        """Parameters and FLOPs in the papers' convention."""
        parameters = self.total(without=(EMBEDDINGS, OUTPUT)).parameters
        return parameters, 2 * self.total(without=(OUTPUT,)).macs

    @property
    def checks(self) -> dict[str, tuple[int, int]]:
        """By name, what the formula says and what was counted."""
        groups = dict.fromkeys([*(part.group for part in self.parts), *self.parameters])
        parameters = {
            f"parameters of {group}": (self.total(group).parameters, self.parameters[group]) for group in groups
        }
        added = {}
        if self.attention and (operator := self.attention.adds_macs_of):
            group = mechanism_group(self.attention)
            others = [CONVOLUTIONS] if operator == CONVOLVES else []
            added[f"MACs of {group}"] = self.total(group, *others).macs, self.macs[operator]
        return {
            **parameters,
            "parameters": (self.total().parameters, self.parameters.total()),
            **added,
            "MACs": (self.total().macs, self.macs.total()),
        }

    def require_match(self) -> None:
        """Raises StepError unless the formula says what was counted."""
        for name, (formula, counted) in self.checks.items():
            if formula != counted:
                raise StepError(
                    f"the formula says {formula:,} {name}, and the built model has {counted:,}: one of these flags, "
                    "or this version of torch, changes what the formula does not know."
                )


def profiled(flags: list[str], source: Side, target: Side, parser: Parser) -> ProfiledModel:
    """Builds the model that flags of fairseq-train describe, and profiles it.

    Args:
        parser: ends with one sentence where fairseq cannot read a flag.

    Raises:
        StepError: where the model cannot be built, or does not read sentences of these lengths.
    """
    with building():
        model = build(parse(flags, parser), source.vocabulary, target.vocabulary)
        sides = (("src", "source", source.length), ("tgt", "target", target.length))
        for (flag, name, length), limit in zip(sides, model.max_positions(), strict=True):
            if length > limit:
                raise StepError(
                    f"--{flag}-len {length} is more than the {limit} positions of the model: raise "
                    f"--max-{name}-positions."
                )
        return ProfiledModel.of(model, source, target)


@contextmanager
def building() -> Iterator[None]:
    """Turns what goes wrong while fairseq makes a model of flags into a StepError of one sentence."""
    try:
        yield
    except UserError as error:
        raise StepError(str(error)) from None
    except (AssertionError, AttributeError, RuntimeError, ZeroDivisionError) as error:
        reason = str(error).partition("\n")[0]
        raise StepError(f"fairseq makes no model of these flags ({reason}): check its sizes.") from None
