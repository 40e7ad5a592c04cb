"""Evaluation of encoders: their predictions for words, sentences, time series, nodes and images, and the scores."""

import math
from abc import abstractmethod
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from fairseq.models.roberta import RobertaModel
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from torch import Tensor

from ea_fairseq.analysis.cost import Cost, Pass, graph_cost, image_cost, series_cost, traced_macs
from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.registry import Family
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.checkpoint import Checkpoint
from ea_fairseq.experiments.scoring.outcome import Description, Outcome
from ea_fairseq.experiments.scoring.results import PREDICTIONS, Column, Score, Setting, read_predictions
from ea_fairseq.experiments.scoring.task_scores import DEFINITIONS, SEPARATOR, task_score
from ea_fairseq.models.classifier import SentenceClassifier
from ea_fairseq.models.dc_transformer import DCTransformer
from ea_fairseq.models.graph import GraphModel
from ea_fairseq.models.graph_options import GraphOptions
from ea_fairseq.models.image import ImageModel
from ea_fairseq.models.roberta import MechanismRoberta
from ea_fairseq.models.time_series import TimeSeriesModel
from ea_fairseq.tasks.image_prediction import ImagePredictionTask, best_classes
from ea_fairseq.tasks.node_prediction import NodePredictionTask
from ea_fairseq.tasks.prediction import HEAD
from ea_fairseq.tasks.time_series_prediction import TimeSeriesPredictionTask

SETTINGS = ("encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads", "encoder_layers", "dropout")
LENGTH = 30  # in tokens, of the sentence for which FLOPs are counted
SEED = 1  # of the masks
Row = tuple[object, object]  # of predictions.tsv
MASKS = {  # the options of --task masked_lm for masking, and their names in signatures
    "mask_prob": "masked",
    "leave_unmasked_prob": "kept",
    "random_token_prob": "random",
    "tokens_per_sample": "tokens",
    "sample_break_mode": "break",
}
REPORTED = {  # scores in GLUE's tables, by the flag that makes fairseq's criterion report them
    "regression_target": ("Pearson", "Spearman"),
    "report_mcc": ("Matthews",),
    "report_acc_and_f1": ("F1", "accuracy"),
}


class EncoderOutcome(Outcome):
    """The predictions of an encoder.

    Attributes:
        header: of predictions.tsv.
        noun: what examples are called.
        overrides: options of the task that evaluation sets, whatever their values in training.
    """

    definitions = DEFINITIONS
    header: ClassVar[tuple[str, str]] = ("label", "prediction")
    noun: ClassVar[str]
    overrides: ClassVar[Mapping[str, object]] = MappingProxyType({})

    def __init__(self, checkpoint: Checkpoint, columns: tuple[Column, Column]) -> None:
        self.checkpoint, self.columns = checkpoint, columns

    @classmethod
    def read(cls, args: Namespace, checkpoint: Checkpoint) -> "EncoderOutcome":
        """Reads predictions.tsv; raises UserError if it is missing."""
        return cls(checkpoint, read_predictions(args.out))

    @staticmethod
    @abstractmethod
    def predict(model: Any, task: Any, sample: dict[str, Any]) -> Iterator[Row]:
        """Yields the rows of predictions.tsv for a batch."""

    @abstractmethod
    def names(self) -> Sequence[str]:
        """The names of the scores that papers report for such a task, the main one first."""

    def head(self) -> str | None:
        """The classification head in use; None if words are predicted."""
        return None

    def signature(self) -> str:
        """What scores depend on, in addition to labels and predictions."""
        return ""

    def size(self) -> str:
        """The number of examples."""
        return f"{len(self.columns[0]):,} {self.noun}"

    def scores(self) -> dict[str, Score]:
        """The scores of ``names``."""
        try:
            return {name: task_score(name, *self.columns, self.signature()) for name in self.names()}
        except ValueError as error:
            names = ", ".join(self.names())
            raise UserError(f"{PREDICTIONS} has values from which {names} cannot be computed ({error}).") from None

    def describe(self, model: RobertaModel) -> Description:
        """Describes the model for tables; a mechanism that is switched off is left out."""
        found = {name: getattr(model.args, name) for name in SETTINGS}
        return described(model, found, encoder_cost(model, self.head()))


def described(model: Any, settings: dict[str, Setting], cost: Cost) -> Description:
    """Describes an encoder for tables: its own settings, and those of its mechanism if that is active."""
    family = working_family(model)
    if family is None:
        return Description(None, settings, cost)
    options = family.attention.options.from_namespace(model.args)
    return Description(family.name, settings | asdict(options), cost)


def working_family(model: Any) -> Family | None:
    """Returns the family of an encoder whose mechanism is active, or None."""
    if not isinstance(model, MechanismRoberta | DCTransformer | GraphModel | ImageModel):
        return None
    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    is_plain = model.family.attention is Attention or (attentions and all(each.is_plain for each in attentions))
    return None if is_plain else model.family


def encoder_cost(model: RobertaModel, head: str | None) -> Cost:
    """Returns the parameters and FLOPs of an encoder.

    Parameters are all that are used but, as in the papers, not the word embeddings of a classifier that is trained from
    scratch. FLOPs are twice the multiply-accumulates that torchprofile counts on a sentence of 30 tokens, or of fewer
    if the model takes no more.
    """
    unread: tuple[str, ...] = () if head is None else ("encoder.lm_head.",)
    if isinstance(model, SentenceClassifier):
        unread += ("encoder.sentence_encoder.embed_tokens.",)
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    parameters = sum(size for name, size in sizes.items() if not name.startswith(unread))
    tokens = torch.full((1, min(LENGTH, model.max_positions())), model.encoder.dictionary.unk())
    options = {} if head is None else {"features_only": True, "classification_head_name": head}
    return Cost(parameters, 2 * traced_macs(Pass(model, **options), tokens).total())


class MaskedWords(EncoderOutcome):
    """Losses of masked words, block by block."""

    header = ("words", "bits")
    noun = "blocks of text"
    overrides = MappingProxyType({"seed": SEED})

    @staticmethod
    def predict(model: RobertaModel, task: MaskedLMTask, sample: dict[str, Any]) -> Iterator[Row]:
        """Yields, for each block, the number of masked words and the sum of their losses in bits."""
        targets = sample["target"]
        masked = targets.ne(task.source_dictionary.pad())
        bits = torch.zeros(len(targets), dtype=torch.float64, device=targets.device)
        if masked.any():
            logits = model(**sample["net_input"], masked_tokens=masked)[0].float()
            losses = F.cross_entropy(logits, targets[masked], reduction="none").double() / math.log(2)
            bits.index_add_(0, masked.nonzero()[:, 0], losses)
        for words, loss in zip(masked.sum(dim=1).tolist(), bits.tolist(), strict=True):
            yield words, f"{loss:.6f}"

    def names(self) -> tuple[str, ...]:
        """The perplexity."""
        return ("perplexity",)

    def signature(self) -> str:
        """How the text is cut and masked."""
        options = self.checkpoint.options("task")
        masks = [f"{name}:{options[option]}" for option, name in MASKS.items() if options.get(option) is not None]
        return "|".join([f"seed:{SEED}", *masks])


def labelled(targets: Tensor, output: Tensor, names: Sequence[str] | None) -> Iterator[Row]:
    """Yields targets, (B,), and predictions from a head's output, (B, classes): names or, without any, numbers."""
    if names is None:
        yield from zip(targets.tolist(), output.float().view(-1).tolist(), strict=True)
        return
    for target, prediction in zip(targets.tolist(), output.argmax(dim=1).tolist(), strict=True):
        yield names[target], names[prediction]


class SentencePredictions(EncoderOutcome):
    """Labels, or scores of a regression."""

    noun = "examples"

    @staticmethod
    def predict(model: RobertaModel, task: SentencePredictionTask, sample: dict[str, Any]) -> Iterator[Row]:
        """Yields label and prediction of each example; for regression, scores in the units of the data."""
        output, _ = model(
            **sample["net_input"], features_only=True, classification_head_name=task.cfg.classification_head_name
        )
        names = None if task.cfg.regression_target else task.label_dictionary.symbols[task.label_dictionary.nspecial :]
        return labelled(sample["target"].view(-1), output, names)

    def names(self) -> tuple[str, ...]:
        """The scores that the criterion's options name, or else the accuracy."""
        options = self.checkpoint.options("criterion")
        return next((names for flag, names in REPORTED.items() if options.get(flag)), ("accuracy",))

    def head(self) -> str:
        """The head that was trained."""
        return self.checkpoint.options("task").get("classification_head_name") or "sentence_classification_head"


class SeriesPredictions(EncoderOutcome):
    """Labels of series, or numbers."""

    noun = "series"

    @staticmethod
    def predict(model: TimeSeriesModel, task: TimeSeriesPredictionTask, sample: dict[str, Any]) -> Iterator[Row]:
        """Yields label and prediction of each series, or two numbers in the units of the file."""
        output, _ = model(**sample["net_input"], classification_head_name=HEAD)
        return labelled(sample["target"], output, task.description.labels)

    def names(self) -> tuple[str, ...]:
        """Accuracy for classes, RMSE for numbers."""
        return ("RMSE" if self.checkpoint.options("criterion").get("regression_target") else "accuracy",)

    def describe(self, model: TimeSeriesModel) -> Description:
        """Describes the model for tables; FLOPs are for one series of the greatest length."""
        return described(model, asdict(model.options.from_namespace(model.args)), series_cost(model))


class NodePredictions(SeriesPredictions):
    """Classes of nodes."""

    noun = "nodes"

    @staticmethod
    def predict(model: GraphModel, task: NodePredictionTask, sample: dict[str, Any]) -> Iterator[Row]:
        """Yields class and prediction of each node."""
        output, _ = model(**sample["net_input"], classification_head_name=HEAD)
        return labelled(sample["target"], output, [str(label) for label in range(task.description.classes)])

    def describe(self, model: GraphModel) -> Description:
        """Describes the model for tables; FLOPs are for the graph that it was trained on."""
        return described(model, asdict(GraphOptions.from_namespace(model.args)), graph_cost(model))


class ImagePredictions(SeriesPredictions):
    """Classes of images."""

    header = ("label", "predictions")
    noun = "images"

    @staticmethod
    def predict(model: ImageModel, task: ImagePredictionTask, sample: dict[str, Any]) -> Iterator[Row]:
        """Yields each image's class and its five most probable ones, in order; only one if there are five or fewer."""
        output, _ = model(**sample["net_input"], classification_head_name=HEAD)
        names = task.description.labels
        best = best_classes(output).tolist()
        for target, predicted in zip(sample["target"].tolist(), best, strict=True):
            yield names[target], SEPARATOR.join(names[number] for number in predicted)

    def names(self) -> tuple[str, ...]:
        """Top-1 and, for more than five classes, top-5."""
        return ("top-1", "top-5") if SEPARATOR in self.columns[1][0] else ("top-1",)

    def describe(self, model: ImageModel) -> Description:
        """Describes the model for tables; FLOPs are for one image."""
        return described(model, asdict(model.options.from_namespace(model.args)), image_cost(model))
