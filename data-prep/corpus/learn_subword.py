"""Learn a subword model from tokenized text."""

import argparse
import io
import sys
from contextlib import redirect_stderr
from itertools import chain, islice
from pathlib import Path

from step import StepError, run
from text_lines import progress, read_lines

MOST_SENTENCES = 10_000_000
THREADS = 16  # part of what sentencepiece's rounding depends on, so the same on every machine


def learn_bpe(inputs: list[Path], merges: int, output: Path) -> None:
    """Learn BPE merges with subword-nmt."""
    from subword_nmt.learn_bpe import learn_bpe

    lines = progress(chain.from_iterable(map(read_lines, inputs)), "counting words")
    with output.open("w", encoding="utf-8", newline="\n") as codes, redirect_stderr(sys.stdout):
        try:
            learn_bpe(lines, codes, merges)
        except ValueError:
            raise StepError("there is too little text to learn BPE merges from: add text.") from None


def learn_sentencepiece(inputs: list[Path], size: int, output: Path) -> None:
    """Learn a sentencepiece unigram model, from evenly spaced sentences where there are very many."""
    from sentencepiece import SentencePieceTrainer

    step = sum(1 for path in inputs for _ in read_lines(path)) // MOST_SENTENCES + 1
    lines = islice(chain.from_iterable(map(read_lines, inputs)), 0, None, step)
    model = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=iter(progress(lines, "reading")),
            model_writer=model,
            vocab_size=size,
            character_coverage=1.0,
            num_threads=THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        reason = str(error).rpartition("] ")[2]
        raise StepError(f"sentencepiece cannot learn --vocab-size {size}: {reason}") from None
    output.write_bytes(model.getvalue())


def main() -> None:
    """Learn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("bpe", "sentencepiece"), required=True)
    parser.add_argument("--size", type=int, required=True, help="BPE merges, or sentencepiece vocabulary")
    parser.add_argument("inputs", type=Path, nargs="+", metavar="input", help="tokenized text")
    parser.add_argument("output", type=Path, help="file of the model")
    args = parser.parse_args()
    learn = learn_bpe if args.kind == "bpe" else learn_sentencepiece
    learn(args.inputs, args.size, args.output)


if __name__ == "__main__":
    run(main)
