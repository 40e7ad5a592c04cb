"""What evaluations of encoders share, whatever they predict."""

from abc import abstractmethod
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import ClassVar

import torch
from fairseq.models.roberta import RobertaModel
from fairseq.tasks import FairseqTask

from ea_fairseq.analysis.cost import Cost, Pass, traced_macs
from ea_fairseq.attention.attention import Attention
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.checkpoint import Checkpoint
from ea_fairseq.experiments.scoring.outcome import Description, Outcome
from ea_fairseq.experiments.scoring.predictions import Column, read_predictions
from ea_fairseq.experiments.scoring.results import PREDICTIONS, Score
from ea_fairseq.experiments.scoring.task_scores import DEFINITIONS, task_score
from ea_fairseq.models.classifier import SentenceClassifier
from ea_fairseq.models.roberta import MechanismRoberta

SETTINGS = ("encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads", "encoder_layers", "dropout")
LENGTH = 30  # tokens of the sentence whose FLOPs are counted


class EncoderOutcome(Outcome):
    """What an encoder predicted.

    Attributes:
        header: of predictions.tsv.
        noun: what an example is.
        overrides: options of the task that evaluation sets, whatever the training had.
    """

    definitions = DEFINITIONS
    header: ClassVar[tuple[str, str]]
    noun: ClassVar[str]
    overrides: ClassVar[Mapping[str, object]] = MappingProxyType({})

    def __init__(self, checkpoint: Checkpoint, columns: tuple[Column, Column]):
        self.checkpoint, self.columns = checkpoint, columns

    @classmethod
    def read(cls, args: Namespace, checkpoint: Checkpoint) -> "EncoderOutcome":
        """Reads predictions.tsv; raises UserError where it is not there."""
        return cls(checkpoint, read_predictions(args.out))

    @staticmethod
    @abstractmethod
    def predict(model: RobertaModel, task: FairseqTask, sample: dict) -> Iterator[tuple[object, object]]:
        """The rows of predictions.tsv of a batch, in the order of its examples."""

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """The scores that papers report of such a task, the first before the others."""

    @property
    @abstractmethod
    def head(self) -> str | None:
        """The classification head in use; None where words are predicted."""

    @property
    def signature(self) -> str:
        """What scores depend on beside labels and predictions."""
        return ""

    @property
    def size(self) -> str:
        """Examples."""
        return f"{len(self.columns[0]):,} {self.noun}"

    def scores(self) -> dict[str, Score]:
        """Those of ``names``."""
        try:
            return {name: task_score(name, *self.columns, self.signature) for name in self.names}
        except ValueError as error:
            raise UserError(
                f"{PREDICTIONS} has values that {', '.join(self.names)} cannot be counted of ({error})."
            ) from None

    def describe(self, model: RobertaModel) -> Description:
        """What tables say of the model; one whose mechanism is switched off has none."""
        found = {name: getattr(model.args, name) for name in SETTINGS}
        family = model.family if isinstance(model, MechanismRoberta) and not is_plain(model) else None
        if family:
            found |= asdict(family.attention.options.from_namespace(model.args))
        return Description(family and family.name, found, encoder_cost(model, self.head))


def is_plain(model: MechanismRoberta) -> bool:
    """Whether no mechanism is at work in a model."""
    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    return model.family.attention is Attention or (bool(attentions) and all(each.is_plain for each in attentions))


def encoder_cost(model: RobertaModel, head: str | None) -> Cost:
    """Parameters and FLOPs of an encoder.

    Parameters are all that are read, but for the embeddings of words of a classifier that is trained from scratch: so
    the papers print them. FLOPs are twice the multiply-accumulates that torchprofile counts on a sentence of 30 tokens,
    or of as many as the model takes.
    """
    unread = () if head is None else ("encoder.lm_head.",)
    if isinstance(model, SentenceClassifier):
        unread += ("encoder.sentence_encoder.embed_tokens.",)
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    parameters = sum(size for name, size in sizes.items() if not name.startswith(unread))
    tokens = torch.full((1, min(LENGTH, model.max_positions())), model.encoder.dictionary.unk())
    options = {} if head is None else {"features_only": True, "classification_head_name": head}
    return Cost(parameters, 2 * traced_macs(Pass(model, **options), tokens).total())
