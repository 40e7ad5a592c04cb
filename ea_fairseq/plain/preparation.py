"""preparation.json: how the text that a translation model learnt from was prepared."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .records import MEGABYTE, FileName, Language, as_record

PREPARATION = "preparation.json"
ENCODERS = {"bpe": ("subword_nmt", "bpe_codes"), "sentencepiece": ("sentencepiece", "sentencepiece_model")}
LARGEST_MODEL = 100 * MEGABYTE


@dataclass(frozen=True)
class TextPreparation:
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
    def of_json(cls, found: object, folder: Path) -> "TextPreparation":
        """What the JSON in a folder says; raises ValueError where it is not what prepare-corpus.sh writes."""
        preparation = as_record(cls, found, folder=folder)
        if preparation.source_lang == preparation.target_lang:
            raise ValueError("'source_lang' and 'target_lang' must differ")
        if len(preparation.models) not in ((0,) if preparation.subword == "none" else (1, 2)):
            raise ValueError("'models' must be one or two, and none where 'subword' is none")
        return preparation

    def model_files(self) -> list[Path]:
        """The files of the subword models."""
        return [self.folder / name for name in self.models]

    def model_for(self, language: str) -> Path:
        """The file of a language's subword model, often one for both."""
        return self.model_files()[-1 if language == self.target_lang else 0]

    def tokenizer_for(self, language: str) -> Callable[[str], str]:
        """A function that makes words, separated by single spaces, of a line of a language, which may be either."""
        from .moses_port import lowercase_as_perl, make_tokenizer

        if self.tokenizer == "moses":
            tokenize = make_tokenizer(language, self.normalize, self.dash_splits, self.lowercase)
        else:
            tokenize = lowercase_as_perl if self.lowercase else str
        return lambda line: " ".join(tokenize(line).split())

    def hub_options(self, language: str) -> dict[str, str]:
        """fairseq's options by which text of a language becomes words and subwords, and these raw text again."""
        options = {}
        if self.tokenizer != "none":
            options["tokenizer"] = self.tokenizer
        if self.subword != "none":
            options["bpe"], model = ENCODERS[self.subword]
            options[model] = str(self.model_for(language))
        return options
