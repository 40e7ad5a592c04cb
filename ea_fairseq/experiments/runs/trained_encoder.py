"""A trained encoder or classifier with all that raw text needs to go in."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ea_fairseq.data.apply_subword import WORDPIECE
from ea_fairseq.data.tokenization import Tokenization
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.checkpoint import Checkpoint
from ea_fairseq.experiments.runs.preparation import ENCODERS, PREPARATION
from ea_fairseq.experiments.runs.trained_model import recorded_data
from ea_fairseq.plain.own_file import own_file
from ea_fairseq.plain.records import MEGABYTE, FileName, as_record, read_json
from ea_fairseq.plain.text_lines import tidy

if TYPE_CHECKING:
    from torch import Tensor

    from ea_fairseq.hub.encoder import EncoderHub

LANGUAGE = "en"  # as in data/labelled.py
TASKS = ("masked_lm", "sentence_prediction")
SUBWORDS = ENCODERS | dict.fromkeys(WORDPIECE, ("wordpiece", "wordpiece_vocab"))


def is_encoder(checkpoint: Path) -> bool:
    """Whether a checkpoint is of a model that is an encoder alone."""
    return Checkpoint.read(checkpoint).options("task").get("_name") in TASKS


@dataclass(frozen=True)
class Pieces:
    """How the words of the data were cut; without preparation.json, not at all.

    Args:
        models: of subwords; none where the subword is ``none``.
    """

    subword: Literal["bpe", "sentencepiece", "wordpiece", "cased_wordpiece", "none"] = "none"
    tokenizer: Literal["moses", "none"] = "none"
    lowercase: bool = False
    models: list[FileName] = field(default_factory=list)
    normalize: bool = True
    dash_splits: bool = False

    @classmethod
    def read(cls, folder: Path) -> "Pieces":
        """
        Raises:
            UserError: naming the file, where it is not what a preparation writes.
        """
        path = folder / PREPARATION
        if not path.is_file():
            return cls()
        file = own_file(path, MEGABYTE)
        try:
            pieces = as_record(cls, read_json(file))
            if (pieces.subword == "none") != (not pieces.models):
                raise ValueError("'models' must name the subword model, and none where 'subword' is none")
            return pieces
        except ValueError as error:
            raise UserError(f"{path} is not what a preparation writes ({error}): copy it again.") from None

    def words(self, text: str) -> str:
        """The words of a raw text, separated by spaces, by the rules of English where they are those of Moses."""
        tokenization = Tokenization(self.tokenizer, self.normalize, self.dash_splits, self.lowercase)
        (words,) = tokenization.tokenizer_for(LANGUAGE)([tidy(text)])
        return words

    def hub_options(self, folder: Path) -> dict[str, str | bool]:
        """What makes fairseq cut words into the same subwords."""
        options = {}
        if self.subword != "none":
            options["bpe"], model = SUBWORDS[self.subword]
            options[model] = str(folder / self.models[0])
        if self.subword == "cased_wordpiece":
            options["wordpiece_cased"] = True
        return options


@dataclass(frozen=True)
class TrainedEncoder:
    """A model that is an encoder alone, and how words are cut for it."""

    hub: "EncoderHub"
    pieces: Pieces

    @classmethod
    def load(cls, checkpoint: Path, data: Path | None = None, cpu: bool = False) -> "TrainedEncoder":
        """Loads it, onto a GPU where there is one.

        Args:
            data: folder of the binarised data; by default the one that the model was trained on.

        Raises:
            UserError: naming what is not there.
        """
        import torch

        from ea_fairseq import EARobertaModel
        from ea_fairseq.errors import UserError

        data = data or recorded_data(checkpoint)
        pieces = Pieces.read(data)
        try:
            folder, options = checkpoint.parent, pieces.hub_options(data)
            hub = EARobertaModel.from_pretrained(folder, checkpoint.name, data.absolute(), **options)
        except UserError as error:
            raise UserError(str(error)) from None
        if torch.cuda.is_available() and not cpu:
            hub.cuda()
        return cls(hub, pieces)

    def tokens(self, sentence: str, second: str | None = None) -> "Tensor":
        """The tokens (S,) of a raw sentence or a pair."""
        return self.hub.encode(*(self.pieces.words(text) for text in (sentence, second) if text is not None))

    def subset(self, name: str) -> "list[Tensor]":
        """The tokens (S,) of each example of a subset of the binarised data, none of them masked."""
        task = self.hub.task
        try:
            task.load_dataset(name)
        except (AssertionError, FileNotFoundError):  # sentence_prediction asserts
            raise UserError(
                f"there is no {name} in {task.cfg.data}: name a subset, and with --data the folder of the data."
            ) from None
        dataset, pad = task.dataset(name), self.hub.dictionary.pad()
        examples = (dataset[number] for number in range(len(dataset)))
        if hasattr(task, "label_dictionary"):
            return [example["net_input.src_tokens"] for example in examples]
        return [unmasked(example["net_input.src_tokens"], example["target"], pad) for example in examples]


def unmasked(tokens: "Tensor", target: "Tensor", pad: int) -> "Tensor":
    """Tokens (S,), what masks hide of them in the place of masks; ``target`` is padding elsewhere."""
    return tokens.where(target.eq(pad), target)
