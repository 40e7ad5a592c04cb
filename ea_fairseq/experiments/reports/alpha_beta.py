"""The papers' figure 9: scores by the weights of the skip connection and of the convolution."""

import json
import shlex
from collections import defaultdict

import numpy as np
from matplotlib.figure import Figure

from ea_fairseq.experiments.figures import COLUMN, literal
from ea_fairseq.experiments.reports.comparison import Comparison, Spread
from ea_fairseq.experiments.runs.training_run import DATA, flags_of
from ea_fairseq.experiments.scoring.results import Results

EVOLUTION = ("ea_alpha", "ea_beta")
NOT_THE_MODEL = {DATA, "--ea-alpha", "--ea-beta", "--seed", "--save-dir", "--log-file", "--user-dir"}


def alpha_beta_grids(comparison: Comparison, dataset: str) -> list[list[Results]]:
    """Groups results that differ only in alpha, beta and seed; drops groups with a single pair of alpha and beta."""
    grids = defaultdict(list)
    results = [result for result in comparison.all_results() if result.dataset.name == dataset]
    results = [result for result in results if set(EVOLUTION) <= result.settings.keys()]
    # A setting that an older version did not know has its default unless a flag sets it.
    known = set.intersection(*(set(result.settings) for result in results)) - set(EVOLUTION) if results else ()
    for result in results:
        others = {name: result.settings[name] for name in known}
        grids[json.dumps([result.arch, others, training_flags(result)], sort_keys=True)].append(result)
    return [grid for _, grid in sorted(grids.items()) if len({place(result) for result in grid}) > 1]


def training_flags(result: Results) -> dict[str, str]:
    """Returns the last value of each flag that a model was trained with, except alpha, beta, seed and folders."""
    flags = flags_of(shlex.split(result.training_command or ""))
    return {name: " ".join(values) for name, values in flags.items() if name not in NOT_THE_MODEL}


def differences(grids: list[list[Results]]) -> list[list[str]]:
    """The flags of each grid that not all of them share."""
    found = [training_flags(grid[0]).items() for grid in grids]
    shared = set.intersection(*map(set, found)) if found else set()
    return [[f"{name} {value}".strip() for name, value in sorted(flags - shared)] for flags in found]


def place(result: Results) -> tuple[float, float]:
    """Alpha and beta of a result."""
    alpha, beta = (float(str(result.settings[name])) for name in EVOLUTION)
    return alpha, beta


def alpha_beta_figure(grid: list[Results], score: str) -> Figure:
    """Mean scores over seeds as a map, alpha from left to right, beta upwards."""
    scores = defaultdict(list)
    for result in grid:
        scores[place(result)].append(result.scores[score].score)
    spreads = {where: Spread.of(values) for where, values in sorted(scores.items())}
    alphas, betas = (sorted({where[axis] for where in spreads}) for axis in (0, 1))
    cells = np.full((len(betas), len(alphas)), np.nan)
    for (alpha, beta), value in spreads.items():
        cells[betas.index(beta), alphas.index(alpha)] = value.mean
    figure = Figure(figsize=(COLUMN, 2.8))
    panel = figure.subplots()
    image = panel.imshow(cells, cmap="cividis", origin="lower", aspect="auto")
    middle = (np.nanmin(cells) + np.nanmax(cells)) / 2
    for (row, column), value in np.ndenumerate(cells):
        if not np.isnan(value):
            shade = "white" if value < middle else "black"
            panel.text(column, row, f"{value:.2f}", ha="center", va="center", color=shade)
    panel.grid(False)
    panel.set_xticks(range(len(alphas)), [f"{alpha:g}" for alpha in alphas])
    panel.set_yticks(range(len(betas)), [f"{beta:g}" for beta in betas])
    panel.set_xlabel("alpha")
    panel.set_ylabel("beta")
    figure.colorbar(image, label=literal(score))
    return figure
