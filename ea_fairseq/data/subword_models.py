"""Subword models, BPE or sentencepiece: learns them from tokenized text, and segments text with them."""

import io
from collections.abc import Callable
from functools import partial
from itertools import cycle, islice
from pathlib import Path

from ea_fairseq.data.byte_pairs import learn_merges
from ea_fairseq.data.parallel import count_words, read_lines
from ea_fairseq.data.text_folder import TextFolder
from ea_fairseq.data.transform import Lines, Transform, each_side
from ea_fairseq.errors import UserError
from ea_fairseq.plain.text_lines import progress
from ea_fairseq.text.subwords import make_segmenter

MAX_BYTES = 64_000_000  # of text for sentencepiece, which takes 22 bytes of memory for each
THREADS = 16  # sentencepiece's rounding depends on it, so it is the same on every machine


def learn_model(
    output: Path,
    *,
    kind: str,
    size: int,
    model_type: str | None,
    folder: TextFolder,
    sides: tuple[str, ...],
    workers: int,
) -> None:
    """Learns a model from the text of some sides of a text folder: ``kind`` is bpe or sentencepiece."""
    files = [folder.file(side) for side in sides]
    if kind == "bpe":
        learn_bpe(files, size, output, workers)
    else:
        learn_sentencepiece(files, size, output, model_type or "unigram")


def learn_bpe(files: list[Path], merges: int, output: Path, workers: int = 1) -> None:
    """Learns BPE merges from plain or gzipped files and writes them as subword-nmt does.

    Raises:
        UserError: if no word has two letters.
    """
    counts = count_words(files, workers)
    if max(map(len, counts), default=0) < 2:
        raise UserError("there is too little text to learn BPE merges from: add text.")
    pairs = progress(learn_merges(counts, merges), "learning merges", "merges", merges)
    with output.open("w", encoding="utf-8", newline="\n") as codes:
        codes.write("#version: 0.2\n")
        codes.writelines(f"{first} {second}\n" for first, second in pairs)


def learn_sentencepiece(files: list[Path], size: int, output: Path, model_type: str = "unigram") -> None:
    """Learns a sentencepiece model, from every n-th sentence if the text has more than ``MAX_BYTES``.

    Args:
        size: size of the vocabulary.

    Raises:
        UserError: with sentencepiece's reason, if it cannot learn this vocabulary.
    """
    from sentencepiece import SentencePieceTrainer

    step = sum(map(len, read_lines(files, "measuring"))) // MAX_BYTES + 1
    lines = islice(read_lines(files, "reading"), 0, None, step)
    model = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=(line.decode().rstrip("\n") for line in lines),
            model_writer=model,
            model_type=model_type,
            vocab_size=size,
            character_coverage=1.0,
            num_threads=THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        reason = str(error).rpartition("] ")[2]
        raise UserError(f"sentencepiece cannot learn --vocab-size {size}: {reason}") from None
    output.write_bytes(model.getvalue())


def make_segmenters(kind: str, models: list[Path], sides: int) -> Transform:
    """A transform that segments each of the sides, with one model for all or one for each."""
    segmenters = [make_segmenter(kind, model) for model in models]
    return each_side(partial(segmented, segment) for segment in islice(cycle(segmenters), sides))


def segmented(segment: Callable[[str], str], lines: Lines) -> Lines:
    """The lines, each of them segmented."""
    return list(map(segment, lines))
