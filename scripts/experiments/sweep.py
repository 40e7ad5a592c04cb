"""The models of a sweep, the best on the validation set first."""

from pathlib import Path
from statistics import mean, stdev

from step import run

from experiments.arguments import Parser
from experiments.results import Results

SCORE = "tokenized BLEU"


def ranking(results: list[Results]) -> list[tuple[str, list[float]]]:
    """Each model with its scores by seed, in the order of their means; equal ones in that of their names."""
    by_model = {}
    for result in sorted(results, key=lambda result: result.seed):
        by_model.setdefault(result.model, []).append(result.scores[SCORE].score)
    return sorted(by_model.items(), key=lambda item: (-mean(item[1]), item[0]))


def table(results: list[Results]) -> str:
    width = max(len(result.model) for result in results)
    lines = [f"{'model':{width}}  {'BLEU':>6}  deviation  seeds"]
    for model, scores in ranking(results):
        deviation = f"{stdev(scores):.2f}" if len(scores) > 1 else ""
        lines.append(f"{model:{width}}  {mean(scores):6.2f}  {deviation:>9}  {len(scores):5}")
    return "\n".join([*lines, f"BLEU: {SCORE} on the validation set, mean over the seeds."])


def main() -> None:
    parser = Parser("sweep.py", __doc__, "see scripts/sweep.sh")
    parser.add_argument("folders", type=Path, nargs="+", metavar="folder", help="of an evaluation")
    print(table([Results.read(folder) for folder in parser.parse_args().folders]))


if __name__ == "__main__":
    run(main)
