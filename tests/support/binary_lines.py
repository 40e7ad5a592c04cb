"""Lines in fairseq's binary form, made in this process."""

from pathlib import Path

from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import make_builder


def write_binary(prefix: Path, words: Dictionary, lines: list[str]) -> None:
    """Binarises lines as fairseq-preprocess does."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    builder = make_builder(f"{prefix}.bin", "mmap", vocab_size=len(words))
    for line in lines:
        builder.add_item(words.encode_line(line, line_tokenizer=str.split, add_if_not_exist=False))
    builder.finalize(f"{prefix}.idx")
