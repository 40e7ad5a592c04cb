"""preparation.json beside a model, and its subword models, as the scripts read them."""

from collections.abc import Callable
from pathlib import Path

from ea_fairseq.data.apply_subword import make_segmenter
from ea_fairseq.errors import UserError
from ea_fairseq.plain.fairseq_path import require_path
from ea_fairseq.plain.own_file import own_file
from ea_fairseq.plain.preparation import ENCODERS, LARGEST_MODEL, PREPARATION, TextPreparation
from ea_fairseq.plain.records import MEGABYTE, read_json

__all__ = ["ENCODERS", "PREPARATION", "Preparation"]


class Preparation(TextPreparation):
    """How the text that a model learnt from was prepared."""

    @classmethod
    def read(cls, folder: Path) -> "Preparation":
        """Reads it; every subword model must be there and sound.

        Raises:
            UserError: naming the file, and of preparation.json the field, that is missing or not what it should be.
        """
        preparation = cls.described(folder)
        for path in preparation.model_files():
            if not path.is_file():
                raise UserError(f"there is no subword model {path}: copy it from the folder of the data.")
            make_segmenter(preparation.subword, own_file(path, LARGEST_MODEL))
        return preparation

    @classmethod
    def described(cls, folder: Path) -> "Preparation":
        """The same without a look at the subword models."""
        path = require_path(folder) / PREPARATION
        if not path.is_file():
            raise UserError(f"there is no {path}: copy it from the folder that prepare-corpus.sh made.")
        file = own_file(path, MEGABYTE)
        try:
            return cls.of_json(read_json(file), folder)
        except ValueError as error:
            raise UserError(f"{path} is not what prepare-corpus.sh writes ({error}): copy it again.") from None

    def preparer(self, language: str) -> Callable[[str], str]:
        """A function that prepares a line of a language, which may be either of the two."""
        tokenize = self.tokenizer_for(language)
        if self.subword == "none":
            return tokenize
        segment = make_segmenter(self.subword, self.model_for(language))
        return lambda line: segment(tokenize(line))
