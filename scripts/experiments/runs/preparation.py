"""preparation.json: how the text that a model learnt from was prepared."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from apply_subword import make_segmenter
from step import StepError
from tokenization import Tokenization

from experiments.fairseq_path import require_path
from experiments.own_file import own_file
from experiments.records import MEGABYTE, FileName, Language, as_record, read_json

PREPARATION = "preparation.json"
ENCODERS = {"bpe": ("subword_nmt", "bpe_codes"), "sentencepiece": ("sentencepiece", "sentencepiece_model")}
LARGEST_MODEL = 100 * MEGABYTE


@dataclass(frozen=True)
class Preparation:
    """How the text that a model learnt from was prepared, as preparation.json beside its dictionaries tells.

    Args:
        models: of subwords, one for each language or one for both; none where the subword is ``none``.
    """

    folder: Path
    source_lang: Language
    target_lang: Language
    tokenizer: Literal["moses", "none"]
    lowercase: bool
    subword: Literal["bpe", "sentencepiece", "none"]
    models: list[FileName]
    normalize: bool = True
    dash_splits: bool = False

    @classmethod
    def read(cls, folder: Path) -> "Preparation":
        """Reads it; every subword model must be there and sound.

        Raises:
            StepError: naming the file, and of preparation.json the field, that is missing or not what it should be.
        """
        preparation = cls.described(folder)
        for path in preparation.model_files():
            if not path.is_file():
                raise StepError(f"there is no subword model {path}: copy it from the folder of the data.")
            make_segmenter(preparation.subword, own_file(path, LARGEST_MODEL))
        return preparation

    @classmethod
    def described(cls, folder: Path) -> "Preparation":
        """The same without a look at the subword models."""
        path = require_path(folder) / PREPARATION
        if not path.is_file():
            raise StepError(f"there is no {path}: copy it from the folder that prepare-corpus.sh made.")
        try:
            preparation = as_record(cls, read_json(own_file(path, MEGABYTE)), folder=folder)
            preparation.check()
        except ValueError as error:
            raise StepError(f"{path} is not what prepare-corpus.sh writes ({error}): copy it again.") from None
        return preparation

    def check(self) -> None:
        """Raises ValueError unless the fields fit each other."""
        if self.source_lang == self.target_lang:
            raise ValueError("'source_lang' and 'target_lang' must differ")
        if len(self.models) not in ((0,) if self.subword == "none" else (1, 2)):
            raise ValueError("'models' must be one or two, and none where 'subword' is none")

    def model_files(self) -> list[Path]:
        """The files of the subword models."""
        return [self.folder / name for name in self.models]

    def preparer(self, language: str) -> Callable[[str], str]:
        """A function that prepares a line of a language, which may be either of the two."""
        tokenization = Tokenization(self.tokenizer, self.normalize, self.dash_splits, self.lowercase)
        tokenize = tokenization.tokenizer_for(language)
        if self.subword == "none":
            return lambda line: tokenize([line])[0]
        model = self.model_files()[-1 if language == self.target_lang else 0]  # often one for both
        segment = make_segmenter(self.subword, model)
        return lambda line: segment(tokenize([line])[0])

    def hub_options(self) -> dict[str, str]:
        """What makes fairseq turn its output into raw text again."""
        options = {}
        if self.tokenizer != "none":
            options["tokenizer"] = self.tokenizer
        if self.subword != "none":
            options["bpe"], model = ENCODERS[self.subword]
            options[model] = str(self.model_files()[0])
        return options
