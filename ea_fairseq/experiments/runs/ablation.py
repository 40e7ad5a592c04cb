"""``ea-fairseq ablation``: the models of the papers' ablation, trained and evaluated."""

import shlex
import sys
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.jobs import Jobs, add_options, split_flags
from ea_fairseq.experiments.runs.recipe import Recipe, ablation
from ea_fairseq.plain.commands import PROGRAM, Parser
from ea_fairseq.plain.files import require_path
from ea_fairseq.plain.output_folder import OutputFolder
from ea_fairseq.plain.project import PROJECT

DESCRIPTION = """\
Trains the eight models of the papers' ablation as train does: the baseline, EA-Transformer-Lite, and the latter without
the convolution of encoder, decoder or encoder-decoder attention, without skip connection, with kernels of 1x1 and 5x5.
It evaluates each as the recipe says and prints the command that makes the table. If interrupted, run it again to
resume. Failures do not stop the other models and are listed at the end."""
EXAMPLE = f"""\
{PROGRAM} ablation --devices 0,1,2,3 data/iwslt14-deen/data-bin
  {PROGRAM} ablation --encoder --recipe handwriting/ea_dc_transformer_series \\
    --baseline-recipe handwriting/transformer_series data/handwriting/data-bin"""
OF_DECODERS = ("-decoder-", "-cross-")  # in the flags of rows about decoders


def parser() -> Parser:
    """The options."""
    usage = f"{PROGRAM} ablation [options] DATA_BIN [-- flags of fairseq-train for all]"
    options = Parser("ablation", DESCRIPTION, EXAMPLE, usage=usage)
    add = options.add_argument
    add("data", type=Path, metavar="DATA_BIN", help="the binarised data")
    text = "recipe of the full model (default: DATASET/ea_transformer_lite for data/DATASET/data-bin)"
    add("--recipe", metavar="NAME", help=text)
    add("--baseline-recipe", metavar="NAME", help="recipe of the baseline (default: the same without ea_)")
    add_options(options, "1,2,3")
    add("--encoder", action="store_true", help="the model has no decoder: leave out the rows about decoders")
    add("--out", type=Path, metavar="DIR", help="folder for all of it (default: runs/ablation/RECIPE)")
    return options


def without_ea(recipe: str) -> str:
    """The name of the baseline's recipe: that of the model without ``ea_``, in the same folder."""
    folder, slash, model = recipe.rpartition("/")
    return folder + slash + model.removeprefix("ea_")


def main() -> None:
    """Trains and evaluates the rows of the table."""
    arguments, of_all = split_flags(sys.argv[1:])
    args = parser().parse_intermixed_args(arguments)
    if not args.data.is_dir():
        raise UserError(f"there is no folder {args.data}: make it with a script of data-prep.")
    data = require_path(args.data.absolute())
    name = args.recipe or f"{data.parent.name}/ea_transformer_lite"
    full = Recipe.find(name)
    baseline = Recipe.find(args.baseline_recipe or without_ea(name))
    if full.place == baseline.place:
        raise UserError(f"--recipe and --baseline-recipe are both {full.place}: name a recipe for each.")
    rows = [(recipe.name.rpartition("/")[2], recipe, list[str]()) for recipe in (baseline, full)]
    for label, flags in ablation().items():
        if not args.encoder or not any(part in flag for part in OF_DECODERS for flag in flags):
            rows.append((label, full, flags))
    out = OutputFolder(args.out or PROJECT / "runs/ablation" / full.name, "ablation")
    with out.opened():
        jobs = Jobs(out, data, args, of_all)
        for label, recipe, flags in rows:
            jobs.add(label, recipe, ["--model", label, recipe.place, *flags])
        jobs.run()
        out.say(f"the table: {PROGRAM} report {shlex.quote(str(out.path))}/*/*/evaluation")
        jobs.report_failures()
