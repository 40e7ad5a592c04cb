"""preparation.json: how a model's training text was prepared, so that other text can be prepared the same way."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from ea_fairseq.errors import FileError, UserError, printable
from ea_fairseq.plain.files import own_file, require_path
from ea_fairseq.plain.records import MEGABYTE, FileName, Language, Tag, as_record, read_json, written_by
from ea_fairseq.plain.text_lines import tidy
from ea_fairseq.text.subwords import PIECES, WORDPIECE, join, make_segmenter
from ea_fairseq.text.tags import tag_token

PREPARATION = "preparation.json"
LANGUAGES = ("source_lang", "target_lang")
OF_ENCODERS = Language("en")  # of Moses' rules, for text that is not translated
# fairseq's --bpe of each kind of subwords.
ENCODERS = {"bpe": "subword_nmt"} | dict.fromkeys(PIECES, "sentencepiece") | dict.fromkeys(WORDPIECE, "wordpiece")
LARGEST_MODEL = 100 * MEGABYTE


@dataclass(frozen=True)
class Codec:
    """A step of a preparation and its inverse; fairseq's hub uses it as a tokenizer or a subword model."""

    encode: Callable[[str], str]
    decode: Callable[[str], str]


@dataclass(frozen=True)
class Preparation:
    """The content of the preparation.json next to a model's dictionaries.

    Args:
        folder: the folder of the file and of the subword models.
        models: subword models, one for each language or one for both; empty if ``subword`` is ``none``.
        source_lang, target_lang: None if the data is not for translation.
        language: of the text, if the data is not for translation.
        tags: those that source sentences may have.
        classes: names of the labels 0, 1, ... of labelled sentences, or T5's words for them; None without labels.
        task: the task of labelled sentences, also if these are translated to words for their labels.
    """

    folder: Path
    tokenizer: Literal["moses", "none"]
    lowercase: bool
    subword: Literal["bpe", "sentencepiece", "t5", "wordpiece", "cased_wordpiece", "none"]
    models: list[FileName]
    normalize: bool = True
    dash_splits: bool = False
    source_lang: Language | None = None
    target_lang: Language | None = None
    language: Language = OF_ENCODERS
    tags: list[Tag] = field(default_factory=list)
    classes: list[str] | None = None
    task: str | None = None

    @classmethod
    def read(cls, folder: Path) -> "Preparation":
        """Reads it; a subword model is read when it is first used.

        Raises:
            UserError: naming the file, and the field, that is missing or invalid.
        """
        path = require_path(folder) / PREPARATION
        if not path.is_file():
            raise FileError(f"there is no {path}: copy it from the folder of the binarised data.")
        with written_by("a preparation", path, "copy it again"):
            return cls.of_json(read_json(own_file(path, MEGABYTE)), folder)

    @classmethod
    def find(cls, *folders: Path, translates: bool) -> "Preparation | None":
        """Reads the preparation.json of the first of the folders that has one; None if none has.

        Args:
            translates: whether to skip those of data that is not for translation.
        """
        found = (cls.read(folder) for folder in folders if (folder / PREPARATION).is_file())
        return next((preparation for preparation in found if preparation.translates or not translates), None)

    @classmethod
    def of_json(cls, found: object, folder: Path) -> "Preparation":
        """Builds it from the JSON in a folder; raises ValueError if it is not what a preparation writes."""
        preparation = as_record(cls, found, folder=folder)
        for name in LANGUAGES:
            if preparation.translates and getattr(preparation, name) is None:
                raise ValueError(f"it has no '{name}'")
        if preparation.translates and preparation.source_lang == preparation.target_lang:
            raise ValueError("'source_lang' and 'target_lang' must differ")
        if preparation.translates and preparation.subword in WORDPIECE:
            raise ValueError("'subword' must be bpe, sentencepiece, t5 or none if text is translated")
        if len(preparation.models) not in ((0,) if preparation.subword == "none" else (1, 2)):
            raise ValueError("'models' must be one or two, and none if 'subword' is none")
        return preparation

    @property
    def translates(self) -> bool:
        """Whether the data has two languages."""
        return self.source_lang is not None or self.target_lang is not None

    def require_languages(self) -> "Preparation":
        """Returns this preparation; raises UserError if its data is not for translation."""
        if not self.translates:
            raise FileError(f"{self.folder / PREPARATION} has no 'source_lang': it is not of data for translation.")
        return self

    def tag_token(self, tag: str) -> str:
        """The token of a tag; raises UserError if source sentences do not have this tag."""
        if tag in self.tags:
            return tag_token(tag)
        known = f"it knows {', '.join(self.tags)}" if self.tags else "its training data had no tags"
        raise UserError(f"the model does not know the tag {printable(tag)!r}: {known}.")

    def model_for(self, language: str) -> Path:
        """The file of a language's subword model, often one for both."""
        return self.folder / self.models[-1 if language == self.target_lang else 0]

    def own_model_for(self, target: str) -> Path | None:
        """The file of the target's subword model, or None if the source has the same."""
        return self.model_for(target) if len(self.models) > 1 else None

    def tokens(self, language: str | None = None) -> Codec:
        """Returns the codec from raw lines to tokens, separated by single spaces.

        Args:
            language: one of the two languages, if the data is for translation.
        """
        from ea_fairseq.text.moses_port import make_detokenizer, make_tokenizer  # imports sacremoses, which takes time

        language = language or self.language
        tokenize = make_tokenizer(self.tokenizer, language, self.normalize, self.dash_splits, self.lowercase)
        return Codec(lambda line: tokenize(tidy(line)), make_detokenizer(self.tokenizer, language))

    def subwords(self, language: str | None = None, model: Path | None = None) -> Codec:
        """Returns the codec from tokens to subwords.

        Args:
            language: one of the two languages, if the data is for translation.
            model: used in place of the language's own.

        Raises:
            UserError: naming the subword model, if it is missing or invalid.
        """
        if self.subword == "none":
            return Codec(str, str)
        path = model or self.model_for(language or self.language)
        if not path.is_file():
            raise FileError(f"there is no subword model {path}: copy it from the folder of the data.")
        segment = make_segmenter(self.subword, path if model else own_file(path, LARGEST_MODEL))
        return Codec(segment, partial(join, self.subword))

    def preparer(self, language: str | None = None) -> Callable[[str], str]:
        """Returns a function that turns a raw line into subwords, as the model reads them."""
        tokens, subwords = self.tokens(language), self.subwords(language)
        return lambda line: subwords.encode(tokens.encode(line))
