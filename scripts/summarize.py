"""Prints what trained models cost and how well and fast they translate, side by side."""

import argparse
import gzip
import logging
import re
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from experiments.text_table import table  # before all else that imports much, see experiments

# isort: split
from fairseq import checkpoint_utils
from sacrebleu.metrics import BLEU

from ea_fairseq.cost import CONVENTION, Cost, cost

LENGTH = 30
SHOWN = 10


@dataclass(frozen=True)
class Result:
    """A trained model: where `fairseq-train` and `fairseq-generate` left it, and what they found."""

    name: str
    cost: Cost
    translations: list[str]
    updates: int
    training_speed: float
    translation_speed: float


def read_result(folder: Path, data_bin: Path) -> Result:
    """Reads a folder with checkpoint_last.pt, train.log, translate.log and translation/generate-test.txt."""
    models, _, _ = checkpoint_utils.load_model_ensemble_and_task(
        [str(folder / "checkpoint_last.pt")], arg_overrides={"data": str(data_bin)}
    )
    log = (folder / "train.log").read_text(encoding="utf-8")
    translation_log = (folder / "translate.log").read_text(encoding="utf-8")
    generated = (folder / "translation" / "generate-test.txt").read_text(encoding="utf-8")
    return Result(
        name=folder.name,
        cost=cost(models[0], LENGTH),
        translations=detokenized(generated),
        updates=max(int(number) for number in re.findall(r"\bnum_updates[= ](\d+)", log)),
        training_speed=statistics.median(float(wps) for wps in re.findall(r"\| train.* wps[= ]([\d.]+)", log)),
        translation_speed=float(re.findall(r"([\d.]+) tokens/s\)", translation_log)[-1]),
    )


def detokenized(generated: str) -> list[str]:
    """The best translation of each sentence in the output of fairseq-generate, in the order of the test set."""
    lines = {}
    for number, text in re.findall(r"^D-(\d+)\t[^\t\n]*\t(.*)$", generated, re.MULTILINE):
        lines.setdefault(int(number), text)
    return [lines[number] for number in sorted(lines)]


def read_text(corpus: Path, name: str) -> list[str]:
    """The lines of a plain or gzipped file of a corpus."""
    plain = corpus / name
    if plain.is_file():
        return plain.read_text(encoding="utf-8-sig").rstrip("\n").split("\n")
    with gzip.open(corpus / f"{name}.gz", "rt", encoding="utf-8-sig") as file:
        return file.read().rstrip("\n").split("\n")


def summary(results: list[Result], source: list[str], reference: list[str], word_for_word: list[str] | None) -> str:
    """The report: a table, the conventions behind it, and translations of sentences spread over the test set."""
    bleu = BLEU()
    scores = [bleu.corpus_score(result.translations, [reference]).score for result in results]
    rows = [
        ["", *(result.name for result in results)],
        ["BLEU", *(f"{score:.2f}" for score in scores)],
        ["parameters", *(f"{result.cost.parameters:,}" for result in results)],
        ["FLOPs", *(f"{result.cost.flops / 1e6:,.2f}M" for result in results)],
        ["updates", *(f"{result.updates:,}" for result in results)],
        ["training, target words/s", *(f"{result.training_speed:,.0f}" for result in results)],
        ["translation, words/s", *(f"{result.translation_speed:,.0f}" for result in results)],
    ]
    notes = [f"BLEU: sacreBLEU {bleu.get_signature()}.", CONVENTION.format(length=LENGTH)]
    notes.append("Words are those of the models' vocabulary: words and pieces of words.")
    if word_for_word:
        score = bleu.corpus_score(word_for_word, [reference]).score
        notes.insert(0, f"Translating word for word, in the order of the source, scores BLEU {score:.2f}.")
    blocks = [table(rows), "\n".join(notes)]
    labels = ["source", "reference", *(result.name for result in results)]
    for index in range(0, len(source), max(1, len(source) // SHOWN))[:SHOWN]:
        lines = [source[index], reference[index], *(result.translations[index] for result in results)]
        blocks.append(table_of_lines(labels, lines))
    return "\n\n".join(blocks)


def table_of_lines(labels: list[str], lines: list[str]) -> str:
    width = max(map(len, labels))
    return "\n".join(f"{label.ljust(width)}  {line}" for label, line in zip(labels, lines, strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", metavar="folder", help="of a trained model")
    parser.add_argument("--corpus", type=Path, required=True, help="folder of the raw text")
    parser.add_argument("--data-bin", type=Path, required=True, help="folder of the binarised data")
    parser.add_argument("--source-lang", required=True)
    parser.add_argument("--target-lang", required=True)
    args = parser.parse_args()
    logging.disable(logging.INFO)
    word_for_word = args.corpus / f"test.word-for-word.{args.target_lang}"
    results = [read_result(folder, args.data_bin) for folder in args.folders]
    source, reference = (read_text(args.corpus, f"test.{lang}") for lang in (args.source_lang, args.target_lang))
    for result in results:
        if len(result.translations) != len(reference):
            sys.exit(
                f"summarize: {result.name} has {len(result.translations)} translations for {len(reference)} sentences: "
                "remove its folder 'translation' and run again."
            )
    glosses = read_text(args.corpus, word_for_word.name) if word_for_word.exists() else None
    print(summary(results, source, reference, glosses))


if __name__ == "__main__":
    main()
