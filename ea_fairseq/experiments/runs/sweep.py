"""``ea-fairseq sweep``: a search of hyper-parameters on the validation set."""

import sys
from itertools import product
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.jobs import Jobs, add_options, split_flags
from ea_fairseq.experiments.runs.recipe import Recipe
from ea_fairseq.experiments.runs.train import NOT_IN_NAMES, find_data
from ea_fairseq.plain.commands import PROGRAM, Parser
from ea_fairseq.plain.output_folder import OutputFolder
from ea_fairseq.plain.project import PROJECT

DESCRIPTION = """\
Trains with a recipe and every combination of the values to try, each as train does, evaluates each on the validation
set, in its folder validation, and prints them, the best first. If interrupted, run it again to resume. Failures do not
stop the other trainings and are listed at the end."""
EXAMPLE = f"""\
{PROGRAM} sweep iwslt14-deen/ea_transformer_lite --try --lr 1e-4 5e-4 1e-3 --try --dropout 0.1 0.2 0.3
  {PROGRAM} sweep iwslt14-deen/ea_transformer_lite --out runs/alpha-beta \\
    --try --ea-alpha 0.1 0.3 0.5 --try --ea-beta 0.1 0.3 0.5"""


def parser() -> Parser:
    """The options; ``--try`` is there only for --help, because argparse would take its flags for options."""
    usage = f"{PROGRAM} sweep RECIPE --try FLAG VALUE... [--try FLAG VALUE...] [options] [-- flags of fairseq-train]"
    options = Parser("sweep", DESCRIPTION, EXAMPLE, usage=usage)
    options.add_argument("recipe", metavar="RECIPE", help=f"a recipe that `{PROGRAM} train --help` lists, or a file")
    text = "values of a flag of fairseq-train to try"
    options.add_argument("--try", nargs="+", metavar=("FLAG", "VALUE"), help=text)
    add_options(options, "1")
    text = "the binarised data (default: what the recipe's [data] makes)"
    options.add_argument("--data", type=Path, metavar="DIR", help=text)
    text = "folder for all of it (default: runs/sweep/RECIPE)"
    options.add_argument("--out", type=Path, metavar="DIR", help=text)
    return options


def main() -> None:
    """Trains and evaluates all combinations, and prints them."""
    arguments, of_all = split_flags(sys.argv[1:])
    arguments, tried = split_tried(arguments)
    args = parser().parse_intermixed_args(arguments)
    if not tried:
        raise UserError("say what to try, such as --try --lr 5e-4 1e-3: see --help.")
    recipe = Recipe.find(args.recipe)
    data = find_data(args.data, recipe)
    out = OutputFolder(args.out or PROJECT / "runs/sweep" / recipe.name, "sweep")
    with out.opened():
        jobs = Jobs(out, data, args, of_all, "valid")
        for combination in product(*tried):
            flags = [word for flag in combination for word in flag]
            jobs.add(" ".join(word.removeprefix("--") for word in flags), recipe, [recipe.place, *flags])
        jobs.run()
        if jobs.done():
            from ea_fairseq.experiments.reports.comparison_table import ranking_table

            print(ranking_table(jobs.done()), flush=True)
        jobs.report_failures()


def split_tried(arguments: list[str]) -> tuple[list[str], list[list[list[str]]]]:
    """Returns the other arguments and, for each flag after ``--try``, the flag paired with each of its values."""
    others: list[str] = []
    tried: list[list[list[str]]] = []
    rest = list(arguments)
    while rest:
        if (word := rest.pop(0)) != "--try":
            others.append(word)
            continue
        end = next((place for place, word in enumerate(rest) if place and word.startswith("--")), len(rest))
        flag, *values = rest[:end] or [""]
        if not flag.startswith("--") or not values:
            given = " ".join(rest[:end])
            raise UserError(f"--try needs a flag and its values, such as --try --lr 5e-4 1e-3, not '{given}'.")
        if flag in NOT_IN_NAMES:
            raise UserError(
                f"--try: {flag} does not change the model, so there is nothing to rank; give seeds with --seeds."
            )
        tried.append([[flag, value] for value in values])
        del rest[:end]
    return others, tried
