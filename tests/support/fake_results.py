"""Results of models that nobody trained, as evaluate.sh writes them, and reports of them."""

import random
import sys
from dataclasses import replace
from pathlib import Path

from ea_fairseq.experiments.reports import report
from ea_fairseq.experiments.scoring.results import COUNTS, REFERENCE, TOKENIZED, TRANSLATION, Dataset, Point, Results
from ea_fairseq.experiments.scoring.scores import all_scores, hidden, multi_bleu, sentence_counts

WORDS = ["the", "dog", "sees", "a", "cat", "under", "old", "trees", "and", "runs", "home", "with", "it"]
PLAIN, EVOLVING = "transformer_lite", "ea_transformer_lite"
SCORE = "tokenized BLEU"
PARAMETERS = {PLAIN: 2_482_560, EVOLVING: 2_485_224}
SENTENCES = 40


def references(sentences: int = SENTENCES) -> list[str]:
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=draw.randint(4, 12))) for _ in range(sentences)]


def translations(wrong: float, seed: int, sentences: int = SENTENCES) -> list[str]:
    """The references with a part of their words replaced."""
    draw = random.Random(seed)
    return [
        " ".join(draw.choice(WORDS) if draw.random() < wrong else word for word in line.split())
        for line in references(sentences)
    ]


def curve(height: float, points: int, rate: float, bleu: float | None = None) -> list[Point]:
    return [
        Point(
            updates=100 * step,
            seconds=rate * 100 * step,
            loss=height + 8 / step,
            bleu=None if bleu is None else bleu * (1 - 1 / (step + 1)),
        )
        for step in range(1, points + 1)
    ]


def write_results(
    folder: Path, model: str = PLAIN, seed: int = 1, wrong: float = 0.2, dataset: str = "multi30k-deen", **changes
) -> Results:
    """Writes a folder with results and texts; ``changes`` are fields of Results."""
    folder.mkdir(parents=True)
    lines = translations(wrong, seed), references()
    rate = 0.5 if model == PLAIN else 0.55
    arch = changes.pop("arch", EVOLVING if model != PLAIN else PLAIN)
    family = None if arch in ("transformer", PLAIN) else "ea_transformer"
    results = Results(
        folder=folder,
        model=model,
        arch=arch,
        settings=changes.pop("settings", {"ea_alpha": 0.1, "ea_beta": 0.1} if family else {}),
        recipe=f"multi30k-deen/{model}",
        seed=seed,
        updates=changes.pop("updates", 4000),
        epochs=16,
        seconds=4000 * rate,
        parameters=changes.pop("parameters", PARAMETERS.get(model, PARAMETERS[EVOLVING])),
        flops=158_200_000,
        dataset=changes.pop("data", Dataset(dataset, "de", "en", "test", "a" * 64, "b" * 64)),
        checkpoints=["checkpoint15.pt", "checkpoint16.pt"],
        search={"beam": 5, "lenpen": 1.0},
        scores=all_scores(lines, lines),
        training_command=changes.pop("training_command", f"fairseq-train data --arch {arch} --seed {seed}"),
        commands=[f"bash scripts/train.sh {model} --seed {seed}", f"bash scripts/evaluate.sh data runs/{model}"],
        training_device="some processor",
        device="some processor",
        versions={"python": "3.11", "torch": "2.13"},
        commit="c" * 40,
        train_curve=changes.pop("train_curve", curve(3.5 + wrong + seed / 20, 40, rate)),
        valid_curve=changes.pop("valid_curve", curve(3.7 + wrong + seed / 20, 16, 2.5 * rate, 40 - 10 * wrong)),
        family=family,
        **changes,
    )
    results.write()
    for names in ((TRANSLATION, REFERENCE), TOKENIZED):
        for name, text in zip(names, lines, strict=True):
            (folder / name).write_text("".join(line + "\n" for line in text))
    counts = sentence_counts(multi_bleu(), *map(hidden, lines))
    (folder / COUNTS).write_text("".join("\t".join(map(str, sentence)) + "\n" for sentence in counts))
    return results


def write_two_models(folder: Path) -> Path:
    """Three seeds of one model and two of another; returns the folder."""
    for seed in (1, 2, 3):
        write_results(folder / f"plain-{seed}", PLAIN, seed, wrong=0.3)
    for seed in (1, 3):
        write_results(folder / f"evolving-{seed}", EVOLVING, seed, wrong=0.1)
    return folder


def rewrite(folder, **changes):
    replace(Results.read(folder), **changes).write()


def make(monkeypatch, out, *arguments) -> dict[str, bytes]:
    """Runs report.py in this process; returns what it wrote."""
    monkeypatch.setattr(sys, "argv", ["report.py", "--out", str(out), *map(str, arguments)])
    report.main()
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}
