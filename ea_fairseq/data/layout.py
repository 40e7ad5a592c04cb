"""Where binarised data has its texts and their dictionaries."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """The names of files in a folder of data for translation; ``sides`` are source and target."""

    sides: tuple[str, ...]

    def text(self, split: str, side: str) -> str:
        """Of a side's sentences, without .bin and .idx."""
        return f"{split}.{'-'.join(self.sides)}.{side}"

    def dictionary(self, side: str) -> str:
        """Of a side's dictionary."""
        return f"dict.{side}.txt"


class SentenceLayout(Layout):
    """The names of files in a folder of data for ``sentence_prediction``; ``sides`` are input0 and input1."""

    def text(self, split: str, side: str) -> str:
        """Of a side's sentences, without .bin and .idx."""
        return f"{side}/{split}"

    def dictionary(self, side: str) -> str:
        """Of a side's dictionary."""
        return f"{side}/dict.txt"
