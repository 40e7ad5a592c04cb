"""rationales.json: the results of ea-fairseq rationales, from which ea-fairseq report makes tables."""

import json
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path

from ea_fairseq.experiments.rationales.options import Settings
from ea_fairseq.experiments.scoring.results import shown
from ea_fairseq.plain.files import own_file, write_whole
from ea_fairseq.plain.records import MEGABYTE, FileName, as_record, read_json, written_by

NAME = "rationales.json"
PERFORMANCE = ("F1", "accuracy")
METRICS = ("auprc", "comprehensiveness", "sufficiency")


@dataclass(frozen=True)
class ExplainedModel:
    """The results of a model.

    Args:
        sha256: of the checkpoint.
        seed: of the training.
        family: as in results.json, None for a model without a mechanism.
        performance: the scores named in PERFORMANCE of the model itself.
        sources: for each source, the means of METRICS over documents; None if no document has the metric.
    """

    checkpoint: str
    sha256: str
    seed: int
    family: str | None
    performance: dict[str, float]
    sources: dict[str, dict[str, float | None]]

    def check(self) -> None:
        """Raises ValueError if tables cannot be made from these results."""
        if self.performance.keys() != {*PERFORMANCE}:
            raise ValueError(f"'performance' must have {' and '.join(PERFORMANCE)}")
        if any(means.keys() != {*METRICS} for means in self.sources.values()):
            raise ValueError(f"'sources' must have {', '.join(METRICS)} each")
        means = (mean for each in self.sources.values() for mean in each.values() if mean is not None)
        if not all(map(isfinite, (*self.performance.values(), *means))):
            raise ValueError("all scores must be finite")


@dataclass(frozen=True)
class RationaleResults:
    """The results of one or two models on the same documents.

    Args:
        dataset: the name of the models' data, such as ``movies``.
        documents: the file.
        documents_sha256: of the documents that were explained.
        count: number of documents that were explained.
        drawn_from: number of documents in the file.
        models: by name.
        versions: of Python and packages.
        commit: of this project, with ``+`` if files were changed.
    """

    dataset: FileName
    documents: str
    documents_sha256: str
    count: int
    drawn_from: int
    settings: Settings
    models: dict[str, ExplainedModel]
    versions: dict[str, str]
    commit: str | None

    @classmethod
    def read(cls, path: Path) -> "RationaleResults":
        """
        Raises:
            UserError: naming the file, if ea-fairseq rationales did not write it.
        """
        file = own_file(path, MEGABYTE)
        with written_by("ea-fairseq rationales", path, "run the command again"):
            found = as_record(cls, shown(read_json(file)))
            for model in found.models.values():
                model.check()
            return found

    def write(self, folder: Path) -> None:
        """Writes rationales.json into a folder, whole or not at all."""
        write_whole(folder / NAME, json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n")
