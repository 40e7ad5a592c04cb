"""The models of a sweep, the best on the validation set first."""

from pathlib import Path
from statistics import mean

from step import run

from experiments.arguments import Parser
from experiments.reports.comparison import Spread
from experiments.reports.comparison_table import spread
from experiments.scoring.results import Results
from experiments.text_table import table

SCORE = "tokenized BLEU"


def ranking(results: list[Results]) -> list[tuple[str, list[float]]]:
    """Each model with its scores by seed, in the order of their means; equal ones in that of their names."""
    by_model = {}
    for result in sorted(results, key=lambda result: result.seed):
        by_model.setdefault(result.model, []).append(result.scores[SCORE].score)
    return sorted(by_model.items(), key=lambda item: (-mean(item[1]), item[0]))


def main() -> None:
    parser = Parser("sweep.py", __doc__, "see scripts/sweep.sh")
    parser.add_argument("folders", type=Path, nargs="+", metavar="folder", help="of an evaluation")
    ranked = ranking([Results.read(folder) for folder in parser.parse_args().folders])
    rows = [[model, spread(Spread.of(scores)), str(len(scores))] for model, scores in ranked]
    print(table([["model", "BLEU", "seeds"], *rows]))
    print(f"BLEU: {SCORE} on the validation set, mean over the seeds ± their standard deviation.")


if __name__ == "__main__":
    run(main)
