"""``ea-fairseq rationales``: the words that a classifier's decisions rest on, by several sources."""

import argparse
import hashlib
import logging
import sys
import warnings
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ea_fairseq.errors import UserError, printable
from ea_fairseq.experiments.environment import commit, versions
from ea_fairseq.experiments.rationales.options import ALWAYS, Settings, parse_arguments
from ea_fairseq.experiments.rationales.results import NAME, ExplainedModel, RationaleResults
from ea_fairseq.experiments.tables import text_table
from ea_fairseq.plain.files import write_whole
from ea_fairseq.plain.output_folder import OutputFolder
from ea_fairseq.plain.records import FileName

if TYPE_CHECKING:
    from ea_fairseq.data.documents import Document
    from ea_fairseq.experiments.rationales.classifier import DocumentClassifier
    from ea_fairseq.experiments.rationales.evaluation import Explanations, Predictions

PAGE = "rationales.html"
MODEL_CODE = ("attention", "hub", "kernels", "mechanisms", "models", "subwords", "terms", "text")
OWN_CODE = "experiments/rationales"


@dataclass(frozen=True)
class Explained:
    """A model, its predictions and each source's explanations of them.

    Args:
        sha256: of the checkpoint.
        dataset: the name of its data.
        seed, family: as in rationales.json.
    """

    name: str
    checkpoint: Path
    sha256: str
    predictions: "Predictions"
    sources: "dict[str, Explanations]"
    dataset: FileName
    seed: int
    family: str | None


def main() -> None:
    """Explains what the command line asks for, prints the table and writes the files."""
    args = parse_arguments()
    from ea_fairseq.data.documents import read_documents
    from ea_fairseq.experiments.rationales.page import rationales_page
    from ea_fairseq.experiments.sample import drawn

    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")
    documents = read_documents(args.documents)
    chosen = [documents[number] for number in drawn(len(documents), args.limit, args.seed)]
    settings = Settings(args.seed, args.draws, args.lime_samples, args.word_score)
    with OutputFolder(args.out, "rationales").opened() as out:
        models = [explain_all(out, *model, chosen, (*args.source, *ALWAYS), settings) for model in load(args)]
        results_of(args, models, chosen, len(documents), settings).write(out.path)
        shown = {one.name: (one.predictions, one.sources) for one in models}
        write_whole(out.path / PAGE, rationales_page(chosen, shown))
        print(f"\n{table(models, chosen, settings)}\n")
        out.say(f"written to {out.path}: {NAME}, {PAGE}")


def load(args: argparse.Namespace) -> "list[tuple[str, Path, DocumentClassifier]]":
    """Loads the models; returns the name, checkpoint and classifier of each.

    Raises:
        UserError: if a model is missing, is not a classifier, has other classes than the first, or lacks the head that
            a source needs.
    """
    from ea_fairseq.experiments.rationales.classifier import DocumentClassifier
    from ea_fairseq.experiments.runs.trained_model import find_trained, load_encoder
    from ea_fairseq.experiments.runs.training_run import model_names

    paths = [path for path in (args.model, args.compare) if path is not None]
    files = [find_trained(path, args.data) for path in paths]
    with redirect_stdout(sys.stderr):
        hubs = [load_encoder(found, args.cpu) for found in files]
    names = model_names(paths, [hub.cfg.model.arch for hub in hubs])
    models = [(name, found.path, DocumentClassifier(hub)) for name, found, hub in zip(names, files, hubs, strict=True)]
    if {*models[0][2].classes} != {*models[-1][2].classes}:
        raise UserError(f"{args.compare} has other classes than {args.model}: compare models of one task.")
    if "pooling" in args.source:
        for _, _, classifier in models:
            classifier.pooled_head()
    return models


def explain_all(
    out: OutputFolder,
    name: str,
    checkpoint: Path,
    classifier: "DocumentClassifier",
    documents: "list[Document]",
    sources: tuple[str, ...],
    settings: Settings,
) -> Explained:
    """Computes a model's predictions and each source's explanations; each is a file, written whole or not at all."""
    from ea_fairseq.data.manifest import sha256
    from ea_fairseq.experiments.rationales.evaluation import (
        explain,
        predict,
        read_explanations,
        read_predictions,
        write,
    )
    from ea_fairseq.experiments.runs.binarised import Binarised
    from ea_fairseq.experiments.scoring.encoder_outcome import working_family
    from ea_fairseq.experiments.scoring.evaluate import code

    digest = sha256(checkpoint)
    facts = [digest, checksum(documents), code((*MODEL_CODE, OWN_CODE))]
    folder, stamp = digest[:12], "\n".join(facts)
    out.say(f"{printable(name)}: {len(documents)} documents, files in {folder}")

    def saved(file: str, stamp: str, make: partial) -> Path:
        out.stage(f"{folder}/{file}.json", stamp, lambda path: write(path, make()))
        return out.path / folder / f"{file}.json"

    predictions = read_predictions(saved("predictions", stamp, partial(predict, classifier, documents)))
    found = {}
    for source in sources:
        make = partial(explain, source, classifier, documents, predictions, settings)
        found[source] = read_explanations(saved(source, f"{stamp}\n{settings.of(source)}", make))
    family, cfg = working_family(classifier.hub.model), classifier.hub.cfg
    return Explained(
        name,
        checkpoint,
        digest,
        predictions,
        found,
        dataset=FileName(Binarised(Path(cfg.task.data)).name),
        seed=cfg.common.seed,
        family=None if family is None else family.name,
    )


def results_of(
    args: argparse.Namespace, models: list[Explained], documents: "list[Document]", known: int, settings: Settings
) -> RationaleResults:
    """Builds the content of rationales.json.

    Args:
        known: the number of documents in the file.
    """
    return RationaleResults(
        dataset=models[0].dataset,
        documents=str(args.documents),
        documents_sha256=checksum(documents),
        count=len(documents),
        drawn_from=known,
        settings=settings,
        models={
            one.name: ExplainedModel(
                checkpoint=str(one.checkpoint),
                sha256=one.sha256,
                seed=one.seed,
                family=one.family,
                performance=one.predictions.performance(documents),
                sources={source: found.means() for source, found in one.sources.items()},
            )
            for one in models
        },
        versions=versions(),
        commit=commit(),
    )


def checksum(documents: "list[Document]") -> str:
    """SHA-256 of the documents' content."""
    return hashlib.sha256(repr(documents).encode()).hexdigest()


def table(models: list[Explained], documents: "list[Document]", settings: Settings) -> str:
    """Formats the printed tables, one for each model, below the model's own scores."""
    lines = []
    for one in models:
        scores = ", ".join(f"{name} {value:.3f}" for name, value in one.predictions.performance(documents).items())
        rows = [["rationale", "AUPRC", "comprehensiveness", "sufficiency"]]
        for source, found in one.sources.items():
            rows.append([source, *("-" if value is None else f"{value:.3f}" for value in found.means().values())])
        lines += [f"{printable(one.name)}: {scores}, {len(documents)} documents", text_table(rows), ""]
    lines.append(f"random: AUPRC is the mean of {settings.draws} draws, the other columns are of the first draw.")
    return "\n".join(lines)
