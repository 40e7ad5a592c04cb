"""preparation.json: how the text that a model learnt from was prepared."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from apply_subword import make_segmenter
from step import StepError
from tokenization import Tokenization

from experiments.data_bin import PREPARATION
from experiments.fairseq_path import require_path

ENCODERS = {"bpe": ("subword_nmt", "bpe_codes"), "sentencepiece": ("sentencepiece", "sentencepiece_model")}


@dataclass(frozen=True)
class Preparation:
    """How the text that a model learnt from was prepared, as preparation.json beside its dictionaries tells."""

    folder: Path
    source_lang: str
    target_lang: str
    tokenizer: str
    lowercase: bool
    subword: str
    models: list[str]
    normalize: bool = True
    dash_splits: bool = False

    @classmethod
    def read(cls, folder: Path) -> "Preparation":
        """Read it; every subword model must be there."""
        path = require_path(folder) / PREPARATION
        if not path.is_file():
            raise StepError(f"there is no {path}: copy it from the folder that prepare-corpus.sh made.")
        try:
            text = json.loads(path.read_text(encoding="utf-8"))
            preparation = cls(folder, **{name: text[name] for name in cls.__annotations__ if name in text})
        except (TypeError, ValueError) as error:
            raise StepError(f"{path} is not what prepare-corpus.sh writes ({error}): copy it again.") from None
        for name in preparation.models:
            if not (folder / name).is_file():
                raise StepError(f"there is no subword model {folder / name}: copy it from the folder of the data.")
        return preparation

    def preparer(self, language: str) -> Callable[[str], str]:
        """A function that prepares a line of a language, which may be either of the two."""
        tokenization = Tokenization(self.tokenizer, self.normalize, self.dash_splits, self.lowercase)
        tokenize = tokenization.tokenizer_for(language)
        if self.subword == "none":
            return lambda line: tokenize([line])[0]
        model = self.models[-1 if language == self.target_lang else 0]  # often one for both
        segment = make_segmenter(self.subword, self.folder / model)
        return lambda line: segment(tokenize([line])[0])

    def hub_options(self) -> dict[str, str]:
        """What makes fairseq turn its output into raw text again."""
        options = {}
        if self.tokenizer != "none":
            options["tokenizer"] = self.tokenizer
        if self.subword != "none":
            options["bpe"], model = ENCODERS[self.subword]
            options[model] = str(self.folder / self.models[0])
        return options
