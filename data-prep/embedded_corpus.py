"""Write the embedded corpus: distinct German-English sentence pairs in disjoint train, valid and test sets.

    python data-prep/embedded_corpus.py --out DIR [--train 24000] [--valid 500] [--test 500] [--seed 1]

DIR receives {train,valid,test}.{de,en}, one sentence a line, and test.word-for-word.en, the German test set
with every word replaced by its dictionary gloss and nothing reordered. The same seed writes the same bytes.
"""

import argparse
import sys
from pathlib import Path
from random import Random

from grammar.sentence import Sentence
from grammar.writer import Writer

GLOSSES = "test.word-for-word.en"  # which no other corpus has
PATIENCE = 2000
LENGTHS = range(4, 15)


def distinct(count: int, rng: Random) -> list[Sentence]:
    """`count` sentences of 4 to 14 words, no two alike in German or in English.

    Raises ValueError when PATIENCE sentences in a row bring nothing new.
    """
    writer, seen, found, misses = Writer(rng), set(), [], 0
    while len(found) < count:
        sentence = writer.write()
        german, english = ("de", sentence.german), ("en", sentence.english)
        if german in seen or english in seen or len(sentence.german.split()) not in LENGTHS:
            misses += 1
            if misses == PATIENCE:
                raise ValueError(f"the grammar gave only {len(found)} of the {count} distinct sentences asked for")
            continue
        misses = 0
        seen |= {german, english}
        found.append(sentence)
    return found


def files(sentences: list[Sentence], sizes: dict[str, int]) -> dict[str, list[str]]:
    """The lines of each file, the sentences dealt out to the sets in turn."""
    lines, start = {}, 0
    for name, size in sizes.items():
        part = sentences[start : start + size]
        start += size
        lines[f"{name}.de"] = [sentence.german for sentence in part]
        lines[f"{name}.en"] = [sentence.english for sentence in part]
        if name == "test":
            lines[GLOSSES] = [sentence.word_for_word for sentence in part]
    return lines


def write(out: Path, lines: dict[str, list[str]]) -> None:
    """Write the files into `out`, each under a temporary name first; on an error none is left.

    Raises ValueError where there are others that it may be meant to be a folder of.
    """
    out.mkdir(parents=True, exist_ok=True)
    temporary = {out / f"{name}.tmp": out / name for name in sorted(lines, key=GLOSSES.__ne__)}
    there = set(out.iterdir()) - temporary.keys()
    if there and out / GLOSSES not in there:
        raise ValueError(f"{out} holds other files: give a new folder, or that of an earlier run")
    try:
        for path, final in temporary.items():
            path.write_text("".join(f"{line}\n" for line in lines[final.name]), "utf-8", newline="\n")
    except OSError:
        for path in temporary:
            path.unlink(missing_ok=True)
        raise
    for path, final in temporary.items():
        path.replace(final)


def size(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is negative")
    return number


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Write the embedded German-English corpus.")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the files go")
    parser.add_argument("--train", type=size, default=24000, help="training pairs (24000)")
    parser.add_argument("--valid", type=size, default=500, help="validation pairs (500)")
    parser.add_argument("--test", type=size, default=500, help="test pairs (500)")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other sentences (1)")
    options = parser.parse_args(arguments)
    # Test and validation come first, so a larger training set keeps them.
    sizes = {"test": options.test, "valid": options.valid, "train": options.train}
    try:
        sentences = distinct(sum(sizes.values()), Random(options.seed))
        write(options.out, files(sentences, sizes))
    except ValueError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        sys.exit(f"error: cannot write {error.filename or options.out}: {error.strerror}")


if __name__ == "__main__":
    main()
