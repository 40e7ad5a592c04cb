"""The papers' tables of encoders with our own figures: a row for each model, a column for each task."""

from collections.abc import Iterable, Mapping

from tqdm import tqdm

from ea_fairseq.experiments.reports.comparison import Comparison, Pair, Spread
from ea_fairseq.experiments.reports.comparison_table import comparison_table, difference_cells, listed, pairs, spread
from ea_fairseq.experiments.reports.kept_p_value import p_value
from ea_fairseq.experiments.reports.papers import PRINTED, PrintedRow
from ea_fairseq.experiments.reports.series_columns import OVER_DATA, columns_over_data, first_number
from ea_fairseq.experiments.runs.binarised import GraphData, ImageData, SeriesData
from ea_fairseq.experiments.scoring.significance import RESAMPLES, SEED
from ea_fairseq.experiments.scoring.task_scores import DEFINITIONS, digits_of
from ea_fairseq.experiments.tables import NONE, Table, short

SIZE = (
    "Parameters: all that the model uses. Those of BERT and RoBERTa include word embeddings; those of classifiers that "
    "are trained from scratch do not."
)
WITHOUT_WORDS = (SeriesData.task, GraphData.task, ImageData.task)
SIZE_WITHOUT_WORDS = "Parameters: all of them. The sizes of the input and output layers depend on the data."
TEST = (
    "p: the p-value of approximate randomisation over examples ({resamples:,} exchanges, random seed {seed}), with all "
    "seeds of both models or those in parentheses: the probability that the choice of examples alone makes such a "
    "difference. It does not cover the choice of seeds; the deviation of the difference does."
)
Scores = Mapping[int, float]


def task_table(comparison: Comparison) -> Table:
    """Makes a row for each model, then the rows that the papers print; a column for each task, and their mean."""
    datasets = comparison.datasets
    averaged = len(datasets) > 1 and not any(map(comparison.low_is_good, datasets))
    headings = [f"{dataset}: {' / '.join(comparison.names(dataset))}" for dataset in datasets]
    header = ["model", "parameters", "seeds", *headings]
    rows = [row(comparison, model) for model in comparison.models]
    printed = shown_rows(comparison)
    for each in printed:
        rows.append([each.model, each.parameters or NONE, NONE, *(each.scores.get(name, NONE) for name in datasets)])
    if averaged:
        header.append("mean")
        means = [mean_of_ours(comparison, model) for model in comparison.models]
        means += [mean_of_printed(each, datasets) for each in printed]
        rows = [[*cells, mean] for cells, mean in zip(rows, means, strict=True)]
    sentences = notes(comparison, printed, averaged)
    for name, cells in columns_over_data(comparison, printed).items():
        header.append(name)
        rows = [[*row, cell] for row, cell in zip(rows, cells, strict=True)]
        sentences.insert(-len(datasets), OVER_DATA[name])
    return Table(header, rows, sentences)


def difference_table(comparison: Comparison, p_values: bool = True) -> Table | None:
    """Makes a row for each task and model: the best seed, the difference to its baseline, and the p-value.

    None if no model has a baseline, or no two trainings can be compared.

    Raises:
        UserError: if p-values are asked for and cannot be computed.
    """
    header = ["model", "data", "score", "mean", "best seed", "seeds", "difference", *["p"] * p_values]
    trained = [
        (model, data) for data in comparison.datasets for model in comparison.models if comparison.results(model, data)
    ]
    shown = tqdm(trained, "comparing", unit=" models", delay=2, leave=False, disable=None)
    rows = [difference_row(comparison, model, dataset, p_values) for model, dataset in shown]
    if all(cells[6] == NONE for cells in rows):
        return None
    sentences = [
        f"Differences compare a model with its baseline ({listed(pairs(comparison))}): means over the seeds that both "
        "have, ± the sample standard deviation if there are several seeds.",
        "The papers print single numbers, which may be those of the best seed.",
    ]
    return Table(header, rows, sentences + [TEST.format(resamples=RESAMPLES, seed=SEED)] * p_values)


def difference_row(comparison: Comparison, model: str, dataset: str, p_values: bool) -> list[str]:
    """The cells of a model on a data set."""
    score, scores = comparison.names(dataset)[0], comparison.scores(model, dataset)
    best = (min if comparison.low_is_good(dataset) else max)(scores.values())
    digits = digits_of(score)
    cells = [model, dataset, score, spread(Spread.of(scores.values()), digits), f"{best:.{digits}f}", str(len(scores))]
    return cells + difference_cells(comparison, model, dataset, p_cell if p_values else None)


def p_cell(pair: Pair) -> str:
    """The p-value of a difference, with the seeds that it covers if these are not all."""
    from ea_fairseq.experiments.scoring.randomization import OtherExamplesError  # takes a second

    try:
        found = p_value(pair)
    except OtherExamplesError:
        return f"{NONE} (each seed has other examples)"
    if found.seeds == pair.seeds:
        return f"{found.p:.3f}"
    return f"{found.p:.3f} (seed{'s' * (len(found.seeds) > 1)} {', '.join(map(str, found.seeds))})"


def row(comparison: Comparison, model: str) -> list[str]:
    """The cells of a model."""
    seeds = sorted({len(comparison.results(model, name)) for name in comparison.datasets} - {0})
    sizes = sorted(
        {comparison.parameters(model, name) for name in comparison.datasets if comparison.results(model, name)}
    )
    cells = [
        model,
        " to ".join(dict.fromkeys(map(short, sizes[:: max(1, len(sizes) - 1)]))),
        " to ".join(map(str, dict.fromkeys((seeds[0], seeds[-1])))),
    ]
    for dataset in comparison.datasets:
        names = comparison.names(dataset) if comparison.results(model, dataset) else []
        spreads = (
            spread(Spread.of(comparison.scores(model, dataset, name).values()), digits_of(name)) for name in names
        )
        cells.append(" / ".join(spreads) or NONE)
    return cells


def mean_of_ours(comparison: Comparison, model: str) -> str:
    """The mean over tasks of the first score, with its deviation if all have the same seeds."""
    by_task: list[Scores] = [comparison.scores(model, dataset) for dataset in comparison.datasets]
    if not all(by_task):
        return NONE
    if len({tuple(scores) for scores in by_task}) == 1:
        return spread(Spread.of(Spread.of(scores[seed] for scores in by_task).mean for seed in by_task[0]))
    return f"{Spread.of(Spread.of(scores.values()).mean for scores in by_task).mean:.2f}"


def mean_of_printed(printed: PrintedRow, datasets: Iterable[str]) -> str:
    """The mean of the first scores in a paper's row; the papers' own means do not always add up."""
    first = [first_number(printed.scores.get(dataset, "")) for dataset in datasets]
    numbers = [number for number in first if number is not None]
    return f"{Spread.of(numbers).mean:.2f}" if len(numbers) == len(first) else NONE


def shown_rows(comparison: Comparison) -> list[PrintedRow]:
    """Returns the papers' rows for the data sets and the families or models that are compared."""
    families = {comparison.example(model).family for model in comparison.models}
    return [
        each
        for each in PRINTED
        if each.scores.keys() & {*comparison.datasets}
        and (each.beside in comparison.models if each.beside else each.family in families)
    ]


def notes(comparison: Comparison, printed: list[PrintedRow], averaged: bool) -> list[str]:
    """Sentences that say what the columns mean and how the scores were computed."""
    results = comparison.all_results()
    signatures = {name: listed(r.scores[name].signature for r in results if name in r.scores) for name in DEFINITIONS}
    found = [f"{name}: {DEFINITIONS[name]}; {by}." for name, by in signatures.items() if by != "none"]
    found.append("Scores are means over seeds, ± the sample standard deviation if there are several seeds.")
    if averaged:
        found.append("mean: the mean of the tasks' first scores in this table, recomputed for the papers' rows.")
    for source in dict.fromkeys(each.source for each in printed):
        found.append(f"{listed(each.model for each in printed if each.source == source)}: {source}.")
    found.append(SIZE_WITHOUT_WORDS if all(result.task in WITHOUT_WORDS for result in results) else SIZE)
    found += sorted(
        {f"{data.name}: {data.subset}, SHA-256 {data.checksum}." for data in (result.dataset for result in results)}
    )
    return found


def tables_of(comparison: Comparison, p_values: bool = True) -> dict[str, Table]:
    """The tables of a report by the names of their files."""
    if comparison.all_results()[0].translates:
        return {"table": comparison_table(comparison, p_values)}
    differences = difference_table(comparison, p_values)
    return {"table": task_table(comparison)} | ({"differences": differences} if differences else {})
