"""Drop the sentence pairs that are of no use for training, as Moses' clean-corpus-n does."""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from step import StepError, run
from text_lines import progress, read_lines, writing

REASONS = ("empty", "too_long", "ratio", "long_word")
LONGEST_WORD = 1000  # characters, as clean-corpus-n has it


@dataclass
class PairFilter:
    """Keeps the pairs within the limits and counts the others by the first reason to drop them."""

    max_length: int
    ratio: float
    counts: Counter = field(default_factory=Counter)

    def reason_to_drop(self, source: str, target: str) -> str | None:
        """Why this pair is dropped; None for a pair to keep."""
        words = source.split(), target.split()
        short, long = sorted(map(len, words))
        if short == 0:
            return "empty"
        if long > self.max_length:
            return "too_long"
        if long / short > self.ratio:
            return "ratio"
        return "long_word" if max(map(len, chain(*words))) > LONGEST_WORD else None

    def keep(self, pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """The pairs to keep, in order."""
        for pair in pairs:
            reason = self.reason_to_drop(*pair)
            self.counts[reason or "kept"] += 1
            if reason is None:
                yield pair

    def report(self) -> dict[str, object]:
        """How many pairs were read, dropped for each reason, and kept."""
        return {
            "read": self.counts.total(),
            "dropped": {reason: self.counts[reason] for reason in REASONS},
            "kept": self.counts["kept"],
        }


def main() -> None:
    """Clean."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-length", type=int, default=175, help="most tokens of a side")
    parser.add_argument("--ratio", type=float, default=1.5, help="most that one side is longer")
    parser.add_argument("source", type=Path, help="tokenized text")
    parser.add_argument("target", type=Path, help="tokenized text")
    parser.add_argument("output", type=Path, help="folder for the pairs kept and counts.json")
    args = parser.parse_args()
    pair_filter = PairFilter(args.max_length, args.ratio)
    args.output.mkdir()
    pairs = zip(progress(read_lines(args.source), "cleaning"), read_lines(args.target), strict=True)
    with (
        writing(args.output / args.source.name) as write_source,
        writing(args.output / args.target.name) as write_target,
    ):
        for source, target in pair_filter.keep(pairs):
            write_source(source)
            write_target(target)
    report = pair_filter.report()
    if not report["kept"]:
        raise StepError("cleaning leaves no pair of train: check the languages, --max-length and --ratio.")
    (args.output / "counts.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(report))


if __name__ == "__main__":
    run(main)
