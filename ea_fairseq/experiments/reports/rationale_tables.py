"""Tables of rationales: the scores by ea-fairseq rationales for each model and source, and those that papers print."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.rationales.results import METRICS, NAME, PERFORMANCE, ExplainedModel, RationaleResults
from ea_fairseq.experiments.reports.comparison import Spread
from ea_fairseq.experiments.reports.comparison_table import listed, signed, spread
from ea_fairseq.experiments.tables import MINUS, NONE, Table
from ea_fairseq.plain.files import read_tsv

DIGITS = 3
HEADINGS = [*PERFORMANCE, "AUPRC", *METRICS[1:]]
PRINTED = Path(__file__).with_name("printed_rationales.tsv")
SOURCE = (
    "(printed): Wang et al., Convolution-enhanced Evolving Attention Networks, table XIII; the rows of LIME are in "
    "Wang et al. 2021, too. Their model is BERT-Base below an LSTM."
)
DEFINITIONS = (
    "F1 (mean over both classes) and accuracy are of the model, the other columns of its rationales, as the ERASER "
    "benchmark defines them. AUPRC is agreement with human rationales. Comprehensiveness is how much the probability "
    "of the predicted class drops without the best words (high is good), sufficiency how much it drops with the best "
    "words alone (low is good).",
    "All are means over seeds, ± the sample standard deviation if there are several seeds. Compare AUPRC with that of "
    "random scores, not with 0.",
)


@dataclass(frozen=True)
class Comparison:
    """Models that were explained on the same documents.

    Args:
        results: the files' contents.
        models: what was found for each model, by name and by seed, in the order of seeds.
        settings: that the scores of each source depend on.
    """

    results: list[RationaleResults]
    models: dict[str, dict[int, ExplainedModel]]
    settings: dict[str, dict[str, int | str]]

    @classmethod
    def of(cls, found: dict[Path, RationaleResults]) -> "Comparison":
        """
        Args:
            found: the results for one data set, by file.

        Raises:
            UserError: naming two files that cannot be compared.
        """
        first, *_ = found
        models: dict[str, dict[int, ExplainedModel]] = {}
        places: dict[tuple[str, int], Path] = {}
        origins: dict[str, Path] = {}  # the first file with each source
        for path, results in found.items():
            unlike = [first] * (kind(results) != kind(found[first]))
            for source in sources(results.models.values()):
                origin = origins.setdefault(source, path)
                if results.settings.of(source) != found[origin].settings.of(source):
                    unlike.append(origin)
            if unlike:
                raise UserError(
                    f"{unlike[0]} and {path} are of other documents of {results.dataset}, or differ in settings: "
                    "report them apart."
                )
            for name, model in results.models.items():
                seeds, place = models.setdefault(name, {}), places.setdefault((name, model.seed), path)
                other = seeds.setdefault(model.seed, model)
                if model.sha256 != other.sha256:
                    raise UserError(f"{place} and {path} both have {name} with seed {model.seed}: leave one out.")
                seeds[model.seed] = replace(model, sources=other.sources | model.sources)
        settings = {source: found[path].settings.of(source) for source, path in origins.items()}
        ordered = sorted(models.items(), key=lambda item: (has_mechanism(item[1].values()), item[0]))
        return cls(list(found.values()), {name: dict(sorted(seeds.items())) for name, seeds in ordered}, settings)

    def baseline_of(self, name: str, chosen: str | None) -> str | None:
        """The model to compare with: the chosen one or, for a model with a mechanism, a plain one in a file with it."""
        if chosen is not None:
            return chosen if name != chosen else None
        if not has_mechanism(self.models[name].values()):
            return None
        together = (other for results in self.results if name in results.models for other in results.models)
        return next((other for other in together if not has_mechanism(self.models[other].values())), None)

    def shown(self, name: str) -> str:
        """A model's name without its flags, which are below the table, unless another model has the same name."""
        return name if [*map(bare, self.models)].count(bare(name)) > 1 else bare(name)

    def flags(self) -> list[str]:
        """Sentences with the flags that rows leave out."""
        models: dict[str, list[str]] = {}
        for name in self.models:
            models.setdefault(name.removeprefix(self.shown(name)), []).append(self.shown(name))
        whose = "All models were" if len(models) == 1 else "{}:"
        return [f"{whose.format(', '.join(names))} trained with{flags}." for flags, names in models.items() if flags]

    def table(self) -> Table:
        """A row for each model and source, then those that the papers print."""
        rows = []
        for name, seeds in self.models.items():
            for source in sources(seeds.values()):
                values = [scores(model, source) for model in seeds.values() if source in model.sources]
                cells = [cell(column) for column in zip(*values, strict=True)]
                rows.append([self.shown(name), source, str(len(values)), *cells])
        printed = printed_rows(self.results[0].dataset)
        return Table(
            ["model", "rationale", "seeds", *HEADINGS],
            rows + printed,
            [*DEFINITIONS, *[SOURCE] * bool(printed), *self.facts()],
        )

    def differences(self, chosen: str | None) -> Table | None:
        """A row for each source and model that has a baseline with two of its seeds; None if there is none.

        Raises:
            UserError: if there is no model of the chosen name.
        """
        if chosen is not None and chosen not in self.models:
            raise UserError(f"--baseline: there is no {chosen}; there are {', '.join(self.models)}.")
        rows, pairs = [], []
        for name, ours in self.models.items():
            theirs = self.models.get(self.baseline_of(name, chosen) or "", {})
            for source in sources(ours.values()):
                both = [
                    (scores(ours[seed], source), scores(theirs[seed], source))
                    for seed in ours.keys() & theirs.keys()
                    if source in ours[seed].sources.keys() & theirs[seed].sources.keys()
                ]
                if len(both) > 1:  # scores vary with the seed, so one seed shows no difference
                    changes = [[minus(*pair) for pair in zip(*each, strict=True)] for each in both]
                    cells = [cell(column, signed) for column in zip(*changes, strict=True)]
                    rows.append([self.shown(name), source, str(len(both)), *cells])
                    pairs.append(f"{self.shown(name)} to {self.shown(self.baseline_of(name, chosen) or '')}")
        notes = [
            f"Differences compare a model with its baseline ({listed(pairs)}): means over the seeds that both have, ± "
            "the sample standard deviation. They do not show how much other documents would change them."
        ]
        return Table(["model", "rationale", "seeds", *HEADINGS], rows, notes) if rows else None

    def facts(self) -> list[str]:
        """Sentences about the documents and what was computed."""
        one = self.results[0]
        some = "" if one.count == one.drawn_from else f" of {one.drawn_from:,}, drawn with seed {one.settings.seed}"
        computed = {
            "lime": "lime: {lime_samples} texts for each document.",
            "random": "random: AUPRC is the mean of {draws} draws, the other columns are of the first.",
        }
        return [
            *self.flags(),
            f"{one.dataset}: {one.count:,} documents{some}, SHA-256 {one.documents_sha256}. The score of a word is the "
            f"{one.settings.word_score} of its subwords'.",
            *(text.format(**self.settings[source]) for source, text in computed.items() if source in self.settings),
            f"Commit of this project: {listed(found.commit or 'unknown' for found in self.results)}; versions: "
            f"{listed(', '.join(map(' '.join, found.versions.items())) for found in self.results)}.",
        ]


def rationale_files(places: Iterable[Path]) -> list[Path]:
    """The files rationales.json that are given, or in folders at any depth; each once."""
    found = (sorted(place.rglob(NAME)) if place.is_dir() else [place] * (place.name == NAME) for place in places)
    return list({path.resolve(): path for paths in found for path in paths}.values())


def rationale_tables(files: Sequence[Path], baseline: str | None = None) -> dict[str, Table]:
    """The tables of each data set, by the names of their files.

    Args:
        baseline: the model that all others are compared with; by default a plain one that is in a file with them.

    Raises:
        UserError: naming a file that is not what ea-fairseq rationales writes, or two that cannot be compared.
    """
    by_dataset: dict[str, dict[Path, RationaleResults]] = {}
    for path in files:
        results = RationaleResults.read(path)
        by_dataset.setdefault(results.dataset, {})[path] = results
    tables = {}
    for dataset, found in sorted(by_dataset.items()):
        comparison = Comparison.of(found)
        tables[dataset] = comparison.table()
        if differences := comparison.differences(baseline):
            tables[f"{dataset}-differences"] = differences
    return tables


def kind(results: RationaleResults) -> tuple[str, int, str]:
    """What all files must have in common for one table."""
    return results.documents_sha256, results.settings.seed, results.settings.word_score


def has_mechanism(models: Iterable[ExplainedModel]) -> bool:
    """Whether models of one name have an active mechanism."""
    return any(model.family is not None for model in models)


def bare(name: str) -> str:
    """A model's name without flags."""
    return name.partition(" --")[0]


def sources(models: Iterable[ExplainedModel]) -> list[str]:
    """All sources of models of one name, in their order."""
    return list(dict.fromkeys(source for model in models for source in model.sources))


def scores(model: ExplainedModel, source: str) -> list[float | None]:
    """A model's scores and those of one source, in the order of HEADINGS."""
    return [*(model.performance[name] for name in PERFORMANCE), *(model.sources[source][name] for name in METRICS)]


def minus(ours: float | None, theirs: float | None) -> float | None:
    """How much higher the first score is; None if one of them is missing."""
    return None if ours is None or theirs is None else ours - theirs


def cell(values: Sequence[float | None], shown: Callable[[Spread, int], str] = spread) -> str:
    """Mean ± deviation of scores as text."""
    known = [value for value in values if value is not None]
    return shown(Spread.of(known), DIGITS).replace("-", MINUS) if len(known) == len(values) else NONE


def printed_rows(dataset: str) -> list[list[str]]:
    """Returns the rows that papers print for a data set."""
    return [
        [f"{row['model']} (printed)", row["rationale"], NONE, row["F1"], NONE]
        + [row[name].replace("-", MINUS) for name in METRICS]
        for row in read_tsv(PRINTED)
        if row["dataset"] == dataset
    ]
