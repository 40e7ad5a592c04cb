"""A model built from flags of fairseq-train, and what it costs, counted on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from fairseq.models.transformer import TransformerModelBase
from torch import Tensor, nn

from ea_fairseq.analysis.cost import count_macs, pair
from ea_fairseq.analysis.parts import EMBEDDINGS, OUTPUT, Part, parts, total
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.benchmark.costs import saved_for_backward
from ea_fairseq.experiments.costs.built_model import build, parse
from ea_fairseq.plain.commands import Parser


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
