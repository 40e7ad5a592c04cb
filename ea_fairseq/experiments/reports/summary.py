"""The end of the quick start: the costs, scores and speed of its models, and some translations."""

import re
import statistics
from pathlib import Path

from ea_fairseq.experiments.reports.comparison_table import LENGTH, ONE_SEED, OTHER_SEEDS
from ea_fairseq.experiments.reports.papers import CONVENTION
from ea_fairseq.experiments.reports.samples import spread
from ea_fairseq.experiments.reports.seed_range import seed_range
from ea_fairseq.experiments.runs.training_log import speeds
from ea_fairseq.experiments.scoring.results import Results
from ea_fairseq.experiments.scoring.scores import raw_score
from ea_fairseq.experiments.tables import text_table
from ea_fairseq.plain.text_lines import read_lines

SHOWN = 10
SCORE = "BLEU"


def read_text(corpus: Path, name: str) -> list[str]:
    """The lines of a plain or gzipped file of a corpus."""
    plain = corpus / name
    return list(read_lines(plain if plain.is_file() else corpus / f"{name}.gz"))


def translation_speed(folder: Path) -> float:
    """Words per second, as fairseq-generate logged it at the evaluation."""
    log = (folder / "evaluation" / "logs" / "generate.log").read_text(encoding="utf-8")
    return float(re.findall(r"([\d.]+) tokens/s\)", log)[-1])


def costs(folders: list[Path], results: list[Results]) -> str:
    """A table with a column for each model."""
    return text_table(
        [
            ["", *(result.model for result in results)],
            [SCORE, *(f"{result.scores[SCORE].score:.2f}" for result in results)],
            *seeds(results),
            ["parameters", *(f"{result.parameters:,}" for result in results)],
            ["FLOPs", *(f"{result.flops / 1e6:,.2f}M" for result in results)],
            ["updates", *(f"{result.updates:,}" for result in results)],
            ["training, target words/s", *(f"{statistics.median(speeds(folder)):,.0f}" for folder in folders)],
            ["translation, words/s", *(f"{translation_speed(folder):,.0f}" for folder in folders)],
        ]
    )


def seeds(results: list[Results]) -> list[list[str]]:
    """A row with the range of the published seeds, if it is known for each model."""
    ranges = [seed_range(result, SCORE) for result in results]
    return [[f"{SCORE} of {OTHER_SEEDS}", *map(str, ranges)]] if all(ranges) else []


def notes(results: list[Results]) -> list[str]:
    """Sentences that explain the table."""
    apart = {found.source for result in results if (found := seed_range(result, SCORE))}
    return [
        ONE_SEED,
        *(f"{OTHER_SEEDS.capitalize()}: {source}" for source in sorted(apart)),
        f"BLEU: sacreBLEU {results[0].scores[SCORE].signature}.",
        CONVENTION.format(length=LENGTH),
        "Words are tokens of the models' vocabulary: words and pieces of words.",
    ]


def translations(results: list[Results], source: list[str], reference: list[str]) -> str:
    """Sentences spread over the test set, each in a block with its translations."""
    texts = {"source": source, "reference": reference} | {result.model: result.raw()[0] for result in results}
    width = max(map(len, texts))
    return "\n\n".join(
        "\n".join(f"{label.ljust(width)}  {line}" for label, line in sample.items()) for sample in spread(texts, SHOWN)
    )


def summary(folders: list[Path], corpus: Path, source_lang: str, target_lang: str) -> str:
    """Returns the whole text.

    Args:
        folders: of trained and evaluated models.
        corpus: folder of the raw text.
    """
    results = [Results.read(folder / "evaluation") for folder in folders]
    source, reference = (read_text(corpus, f"test.{language}") for language in (source_lang, target_lang))
    glosses = corpus / f"test.word-for-word.{target_lang}"
    said = notes(results)
    if glosses.is_file():
        score = raw_score(SCORE, list(read_lines(glosses)), reference).score
        said.insert(0, f"Word-for-word translation, in the order of the source, scores BLEU {score:.2f}.")
    return "\n\n".join([costs(folders, results), "\n".join(said), translations(results, source, reference)])
