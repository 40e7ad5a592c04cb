"""``ea-fairseq rationales``: the words that a classifier's decisions rest on, by several sources."""

import argparse
import hashlib
import json
import sys
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ea_fairseq.errors import UserError, printable
from ea_fairseq.experiments.environment import commit, versions
from ea_fairseq.experiments.rationales.options import ALWAYS, Settings, parse_arguments
from ea_fairseq.experiments.rationales.results import NAME, ExplainedModel, RationaleResults
from ea_fairseq.experiments.tables import text_table
from ea_fairseq.plain.commands import quiet
from ea_fairseq.plain.files import write_whole
from ea_fairseq.plain.output_folder import OutputFolder
from ea_fairseq.plain.records import FileName, Record, as_record, read_json, written_by

if TYPE_CHECKING:
    from ea_fairseq.data.documents import Document
    from ea_fairseq.experiments.rationales.classifier import DocumentClassifier
    from ea_fairseq.experiments.rationales.evaluation import Explanations, Predictions

PAGE = "rationales.html"
OWN_CODE = "experiments/rationales"
LARGEST = 1 << 30  # bytes of a file of scores


@dataclass(frozen=True)
class Explained:
    """A model's data set and its part of rationales.json, its predictions and each source's explanations of them."""

    dataset: FileName
    model: ExplainedModel
    predictions: "Predictions"
    sources: "dict[str, Explanations]"


def main() -> None:
    """Explains what the command line asks for, prints the table and writes the files."""
    args = parse_arguments()
    from ea_fairseq.data.documents import read_documents
    from ea_fairseq.experiments.rationales.page import rationales_page
    from ea_fairseq.experiments.sample import drawn

    quiet()
    documents = read_documents(args.documents)
    chosen = [documents[number] for number in drawn(len(documents), args.limit, args.seed)]
    settings = Settings(args.seed, args.draws, args.lime_samples, args.word_score)
    with OutputFolder(args.out, "rationales").opened() as out:
        models = {
            name: explain_all(out, name, checkpoint, classifier, chosen, (*args.source, *ALWAYS), settings)
            for name, checkpoint, classifier in load(args)
        }
        RationaleResults(
            dataset=next(iter(models.values())).dataset,
            documents=str(args.documents),
            documents_sha256=checksum(chosen),
            count=len(chosen),
            drawn_from=len(documents),
            settings=settings,
            models={name: one.model for name, one in models.items()},
            versions=versions(),
            commit=commit(),
        ).write(out.path)
        shown = {name: (one.predictions, one.sources) for name, one in models.items()}
        write_whole(out.path / PAGE, rationales_page(chosen, shown))
        print(f"\n{table(models, len(chosen), settings)}\n")
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
    from ea_fairseq.experiments.rationales.evaluation import Explanations, Predictions, explain, predict
    from ea_fairseq.experiments.runs.binarised import Binarised
    from ea_fairseq.experiments.scoring.encoder_outcome import working_family
    from ea_fairseq.experiments.scoring.evaluate import OF_MODELS, code

    digest = sha256(checkpoint)
    facts = [digest, checksum(documents), code((*OF_MODELS, OWN_CODE))]
    folder, stamp = digest[:12], "\n".join(facts)
    out.say(f"{printable(name)}: {len(documents)} documents, files in {folder}")

    def saved(kind: type[Record], file: str, stamp: str, make: partial) -> Record:
        path = out.path / folder / f"{file}.json"
        out.stage(f"{folder}/{file}.json", stamp, lambda place: place.write_text(json.dumps(asdict(make()))))
        with written_by("ea-fairseq rationales", path, "remove it and run the command again"):
            return as_record(kind, read_json(path, LARGEST))

    predictions = saved(Predictions, "predictions", stamp, partial(predict, classifier, documents))
    found = {}
    for source in sources:
        make = partial(explain, source, classifier, documents, predictions, settings)
        found[source] = saved(Explanations, source, f"{stamp}\n{settings.of(source)}", make)
    family, cfg = working_family(classifier.hub.model), classifier.hub.cfg
    model = ExplainedModel(
        checkpoint=str(checkpoint),
        sha256=digest,
        seed=cfg.common.seed,
        family=None if family is None else family.name,
        performance=predictions.performance(documents),
        sources={source: one.means() for source, one in found.items()},
    )
    return Explained(FileName(Binarised(Path(cfg.task.data)).name), model, predictions, found)


def checksum(documents: "list[Document]") -> str:
    """SHA-256 of the documents' content."""
    return hashlib.sha256(repr(documents).encode()).hexdigest()


def table(models: dict[str, Explained], documents: int, settings: Settings) -> str:
    """Formats the printed tables, one for each model, below the model's own scores."""
    lines = []
    for name, one in models.items():
        scores = ", ".join(f"{score} {value:.3f}" for score, value in one.model.performance.items())
        rows = [["rationale", "AUPRC", "comprehensiveness", "sufficiency"]]
        for source, means in one.model.sources.items():
            rows.append([source, *("-" if value is None else f"{value:.3f}" for value in means.values())])
        lines += [f"{printable(name)}: {scores}, {documents} documents", text_table(rows), ""]
    lines.append(f"random: AUPRC is the mean of {settings.draws} draws, the other columns are of the first draw.")
    return "\n".join(lines)
