"""Binarised data for models that are an encoder alone: sentences with labels, and text whose words are masked."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ea_fairseq.experiments.runs.binarised import Binarised

EMBEDDING = "encoder.sentence_encoder.embed_tokens.weight"
MASK = 1  # fairseq's tasks add <mask> to the dictionary


@dataclass(frozen=True)
class SentenceData(Binarised):
    """Sentences, or pairs of them, with labels or scores: ``input0/``, for pairs ``input1/``, and ``label/``."""

    task = "sentence_prediction"
    folder: Path

    def file_names(self, subset: str) -> list[str]:
        """The dictionaries and the files of a subset; a regression has scores in text and no dictionary of labels."""
        inputs = ["input0", *(["input1"] if (self.folder / "input1").is_dir() else [])]
        names = ["input0/dict.txt", *(f"{part}/{subset}.{kind}" for part in inputs for kind in ("bin", "idx"))]
        if (self.folder / "label" / f"{subset}.label").is_file():
            return [*names, f"label/{subset}.label"]
        return [*names, "label/dict.txt", *(f"label/{subset}.{kind}" for kind in ("bin", "idx"))]

    def vocabularies(self) -> Iterator[tuple[str, str, int]]:
        """That of words."""
        yield EMBEDDING, "input0", dictionary_size(self.folder / "input0" / "dict.txt")


@dataclass(frozen=True)
class TextData(Binarised):
    """Text of one language, for models of masked words."""

    task = "masked_lm"
    folder: Path

    def file_names(self, subset: str) -> list[str]:
        """The dictionary and the files of a subset."""
        return ["dict.txt", f"{subset}.bin", f"{subset}.idx"]

    def vocabularies(self) -> Iterator[tuple[str, str, int]]:
        """That of words."""
        yield EMBEDDING, "words", dictionary_size(self.folder / "dict.txt")


def dictionary_size(path: Path) -> int:
    """The types of a dictionary as fairseq's tasks of encoders read it, special symbols included."""
    from fairseq.data import Dictionary

    return len(Dictionary.load(str(path))) + MASK
