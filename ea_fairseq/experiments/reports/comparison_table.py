"""The papers' tables 5 and 6 with our own figures: what models cost and how well they translate."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import mean

from ea_fairseq.experiments.reports.comparison import Comparison, Pair, Spread
from ea_fairseq.experiments.reports.consistency import require_same_data
from ea_fairseq.experiments.reports.papers import CONVENTION, PAPER
from ea_fairseq.experiments.reports.relative_speed import RelativeSpeed
from ea_fairseq.experiments.reports.seed_range import SeedRange, seed_range
from ea_fairseq.experiments.scoring.results import Results
from ea_fairseq.experiments.scoring.scores import DEFINITIONS
from ea_fairseq.experiments.scoring.significance import RESAMPLES, SEED, p_value
from ea_fairseq.experiments.scoring.task_scores import LOW_IS_GOOD, digits_of
from ea_fairseq.experiments.tables import MINUS, NONE, Table, short, text_table

LENGTH = 30  # in tokens, of the sentence pair for which FLOPs are counted
OTHER_SEEDS = "published seeds"
ONE_SEED = (
    "Each model was trained once; scores vary with the seed, so this table cannot rank the models. Train more seeds "
    "(--seed) to compare them."
)
OTHER_MANIFESTS = (
    "Manifests of one data set differ if, for example, tools had other versions; the checksum of its dictionaries and "
    "test set is the same."
)
WIDEST = 9  # columns of a table that has several data sets


def comparison_table(
    comparison: Comparison, p_values: bool = True, losses: bool = False, speeds: RelativeSpeed | None = None
) -> Table:
    """A row for each model, and for each data set the score over seeds and its difference to the baseline's.

    Trainings with a single seed are not compared. If other seeds are published, their range of scores is shown instead.

    Args:
        losses: whether to show the validation loss of the last epoch.
        speeds: of models, relative to fairseq's Transformer of the same size.

    Raises:
        UserError: if p-values are asked for and cannot be computed.
    """
    models, datasets, score = comparison.models, comparison.datasets, comparison.names(comparison.datasets[0])[0]
    in_papers = {dataset for dataset in datasets for model in models if dataset in bleu_in_paper(model)}
    costs_in_papers = any(model in PAPER and PAPER[model].parameters for model in models) and bool(in_papers)
    seeds, compared = single_seeds(comparison), is_compared(comparison)
    p_values = p_values and compared
    header = ["model", *columns("parameters", costs_in_papers), *columns("FLOPs", costs_in_papers)]
    header += speeds.header if speeds else ()
    for dataset in datasets:
        prefix = f"{dataset}: " if len(datasets) > 1 else ""
        header += columns(prefix + score, dataset in in_papers) + [f"{prefix}loss"] * losses
        header += [prefix + name for name in ("seeds", *[OTHER_SEEDS] * bool(seeds))]
        header += [prefix + name for name in (*["difference"] * compared, *["p"] * p_values)]
    rows = []
    for model in models:
        example, paper = comparison.example(model), PAPER.get(model)
        row = [model, *beside(short(example.parameters), paper.parameters if paper else None, costs_in_papers)]
        row += beside(short(example.flops), paper.flops if paper else None, costs_in_papers)
        row += speeds.of(model) if speeds else ()
        for dataset in datasets:
            scores = comparison.scores(model, dataset)
            printed = bleu_in_paper(model).get(dataset)
            row += beside(
                spread(Spread.of(scores.values())) if scores else NONE,
                f"{printed:.2f}" if printed is not None else None,
                dataset in in_papers,
            )
            row += [last_loss(comparison.results(model, dataset).values())] * losses
            row.append(str(len(scores)) if scores else NONE)
            if seeds:
                row.append(str(seeds.get((model, dataset), NONE)))
            if compared:
                row += difference_cells(comparison, model, dataset, bootstrap_cell if p_values else None)
        rows.append(row)
    sentences = notes(comparison, seeds, compared, p_values)
    if losses:
        sentences.insert(1, "loss: the label-smoothed validation loss after the last epoch, in bits per token.")
    return Table(header, rows, [*sentences, *(speeds.notes if speeds else ())])


def tables_by_dataset(
    comparison: Comparison, p_values: bool = True, losses: bool = False, speeds: RelativeSpeed | None = None
) -> list[Table]:
    """The comparison table or, if it is wide, one for each data set, which its head names; the last has the notes."""
    table = comparison_table(comparison, p_values, losses, speeds)
    if len(comparison.datasets) == 1 or len(table.header) <= WIDEST:
        return [table]
    apart = [comparison_table(comparison.on(dataset), p_values, losses, speeds) for dataset in comparison.datasets]
    headed = [
        replace(part, header=[dataset, *part.header[1:]], notes=[])
        for dataset, part in zip(comparison.datasets, apart, strict=True)
    ]
    return [*headed[:-1], replace(headed[-1], notes=table.notes)]


def last_loss(results: Iterable[Results]) -> str:
    """The validation loss at the end of trainings, mean ± deviation."""
    found = [result.valid_curve[-1].loss for result in results if result.valid_curve]
    if not found:
        return NONE
    value = Spread.of(found)
    return f"{value.mean:.3f}" + ("" if value.deviation is None else f" ± {value.deviation:.3f}")


def single_seeds(comparison: Comparison) -> dict[tuple[str, str], SeedRange]:
    """The range of the published seeds for each model and data set with one training, if it is known."""
    single = {key: next(iter(found.values())) for key, found in comparison.by_seed.items() if len(found) == 1}
    ranges = {key: seed_range(result, comparison.names(result.dataset.name)[0]) for key, result in single.items()}
    return {key: found for key, found in ranges.items() if found}


def is_compared(comparison: Comparison) -> bool:
    """Whether there are differences to show: a model or its baseline was trained with several seeds."""
    return any(
        (baseline := comparison.baseline_of(model, dataset)) is not None
        and max(len(seeds), len(comparison.results(baseline, dataset))) > 1
        for (model, dataset), seeds in comparison.by_seed.items()
    )


def columns(name: str, in_paper: bool) -> list[str]:
    """The headings of a quantity: ours and, if its figures are shown, the paper's."""
    return [name, f"{name} (paper)"] if in_paper else [name]


def beside(ours: str, paper: str | None, in_paper: bool) -> list[str]:
    """The cells of a quantity: ours and, if its figures are shown, the paper's."""
    return [ours, paper or NONE] if in_paper else [ours]


def bleu_in_paper(model: str) -> dict[str, float]:
    """BLEU in the paper by data set; empty if the paper does not have the model."""
    return PAPER[model].bleu if model in PAPER else {}


def difference_cells(
    comparison: Comparison, model: str, dataset: str, p_cell: Callable[[Pair], str] | None
) -> list[str]:
    """The difference to the baseline and, with ``p_cell``, its p-value."""
    pair = comparison.pair(model, dataset)
    if pair is None:
        return [NONE, *[NONE] * bool(p_cell)]
    return [signed(pair.difference, digits_of(pair.score)), *([p_cell(pair)] if p_cell else [])]


def bootstrap_cell(pair: Pair) -> str:
    """A p-value for each seed."""
    return " / ".join(
        f"{p_value(theirs, ours, pair.score):.3f}" for theirs, ours in zip(pair.theirs, pair.ours, strict=True)
    )


def spread(value: Spread, digits: int = 2) -> str:
    """Mean ± deviation as text, with this number of decimals."""
    deviation = "" if value.deviation is None else f" ± {value.deviation:.{digits}f}"
    return f"{value.mean:z.{digits}f}{deviation}"


def signed(value: Spread, digits: int = 2) -> str:
    """A difference as text: with its sign, ± its deviation."""
    mean = f"{value.mean:+z.{digits}f}".replace("-", MINUS)
    return mean if value.deviation is None else f"{mean} ± {value.deviation:.{digits}f}"


def notes(
    comparison: Comparison, seeds: Mapping[tuple[str, str], SeedRange], compared: bool, p_values: bool
) -> list[str]:
    """Sentences that say what the columns mean and how the scores were computed."""
    results, score = comparison.all_results(), comparison.names(comparison.datasets[0])[0]
    found = [
        f"{score}: {DEFINITIONS.get(score, 'as results.json has it')}; "
        f"{listed(result.scores[score].signature for result in results)}.",
        "Scores are means over seeds, ± the sample standard deviation if there are several seeds.",
    ]
    if compared:
        found[-1] += f" Differences compare each model with its baseline ({listed(pairs(comparison))}), seed by seed."
    elif len(comparison.models) > 1 and all(len(trained) == 1 for trained in comparison.by_seed.values()):
        found.append(ONE_SEED)
    found += sorted({f"{OTHER_SEEDS}: {apart.source}" for apart in seeds.values()})
    if p_values:
        found.append(
            f"p: the p-value of sacreBLEU's paired bootstrap test for each seed ({RESAMPLES:,} resamples, random seed "
            f"{SEED}), the probability that the choice of test sentences alone makes such a difference.",
        )
    found.append(CONVENTION.format(length=LENGTH))
    if any(bleu_in_paper(model) for model in comparison.models if bleu_in_paper(model).keys() & {*comparison.datasets}):
        found.append("(paper): as printed in Wang et al. 2021, tables 5 and 6, which do not say how BLEU was counted.")
    found += sorted(
        {
            f"{data.name}: {data.subset}, {data.source_lang} to {data.target_lang}, SHA-256 of manifest.json "
            f"{data.manifest or 'unknown, there is none'}."
            for data in (result.dataset for result in results)
        }
    )
    if len({(data.name, data.manifest) for data in (result.dataset for result in results)}) > len(comparison.datasets):
        found.append(OTHER_MANIFESTS)
    searches = listed(f"beam {result.search['beam']}, length penalty {result.search['lenpen']:g}" for result in results)
    return [*found, f"Search: {searches}."]


def pairs(comparison: Comparison) -> Iterable[str]:
    """Yields which model is compared with which, as text."""
    for model in comparison.models:
        for dataset in comparison.datasets:
            if comparison.results(model, dataset) and (baseline := comparison.baseline_of(model, dataset)):
                yield f"{model} to {baseline}"


def listed(texts: Iterable[str]) -> str:
    """Joins the different texts, in their order."""
    return "; ".join(dict.fromkeys(texts)) or "none"


def ranking_table(folders: list[Path]) -> str:
    """Lists the evaluated models, the best first; raises UserError if they were scored on different sentences."""
    results = [Results.read(folder) for folder in folders]
    require_same_data(results)
    ranked, score = ranking(results), first_score(results)
    rows = [[model, spread(Spread.of(scores), digits_of(score)), str(len(scores))] for model, scores in ranked]
    table = text_table([["model", score, "seeds"], *rows])
    return f"{table}\n{score}: on the validation set, mean over the seeds ± their standard deviation."


def ranking(results: list[Results]) -> list[tuple[str, list[float]]]:
    """Returns each model with its main score by seed, the best mean first; ties are in the order of names."""
    score = first_score(results)
    by_model: dict[str, list[float]] = {}
    for result in sorted(results, key=lambda result: result.seed):
        by_model.setdefault(result.model, []).append(result.scores[score].score)
    sign = 1 if score in LOW_IS_GOOD else -1
    return sorted(by_model.items(), key=lambda item: (sign * mean(item[1]), item[0]))


def first_score(results: list[Results]) -> str:
    """The score that papers print first."""
    return next(iter(results[0].scores))
