"""The models of a sweep, the best on the validation set first."""

from pathlib import Path
from statistics import mean

from ea_fairseq.experiments.reports.comparison import Spread, require_same_data
from ea_fairseq.experiments.reports.comparison_table import spread
from ea_fairseq.experiments.scoring.results import Results
from ea_fairseq.experiments.scoring.task_scores import LOW_IS_GOOD, digits_of
from ea_fairseq.experiments.text_table import table


def ranking_table(folders: list[Path]) -> str:
    """The models of evaluations, the best first; raises UserError where they were scored on different sentences."""
    results = [Results.read(folder) for folder in folders]
    require_same_data(results)
    ranked, score = ranking(results), first_score(results)
    rows = [[model, spread(Spread.of(scores), digits_of(score)), str(len(scores))] for model, scores in ranked]
    rows = table([["model", score, "seeds"], *rows])
    return f"{rows}\n{score}: on the validation set, mean over the seeds ± their standard deviation."


def ranking(results: list[Results]) -> list[tuple[str, list[float]]]:
    """Each model with its first scores by seed, the best means first; equal ones in the order of their names."""
    score, by_model = first_score(results), {}
    for result in sorted(results, key=lambda result: result.seed):
        by_model.setdefault(result.model, []).append(result.scores[score].score)
    sign = 1 if score in LOW_IS_GOOD else -1
    return sorted(by_model.items(), key=lambda item: (sign * mean(item[1]), item[0]))


def first_score(results: list[Results]) -> str:
    """The score that papers print first."""
    return next(iter(results[0].scores))
