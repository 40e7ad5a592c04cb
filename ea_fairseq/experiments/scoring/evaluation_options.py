"""The options of ``ea-fairseq evaluate``. A recipe next to the checkpoints gives their defaults."""

import re
import shlex
from argparse import ArgumentTypeError, Namespace
from functools import partial
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.binarised import Binarised
from ea_fairseq.experiments.runs.data_bin import DataBin, read_data
from ea_fairseq.experiments.runs.recipe import Recipe
from ea_fairseq.experiments.scoring.comet import CometModel
from ea_fairseq.experiments.scoring.results import RELEASED
from ea_fairseq.plain.commands import PROGRAM, Parser, at_least
from ea_fairseq.plain.files import require_path
from ea_fairseq.plain.output_folder import OutputFolder
from ea_fairseq.plain.project import portable

DESCRIPTION = """\
Averages checkpoints, runs the model on a subset of the data, and scores its output:
  translations: tokenized BLEU as multi-bleu.perl counts it; BLEU, chrF and TER of raw text, with sacreBLEU's
    signatures; COMET with --comet
  labelled sentences, time series, images and nodes of graphs: the scores of the training (accuracy, top-1 and top-5,
    Matthews, F1, Pearson, Spearman, RMSE)
  words for labels, of T5 (prepare glue --text-to-text): the same scores; a word that is no label counts as wrong
  masked words: perplexity, on the same words for all models
It prints a table and writes results.json, sources, translations and references or predictions.tsv, and the averaged
model.pt into one folder. If interrupted, run it again to resume; results of the same options are not computed again.

If train has written a recipe into CHECKPOINT_DIR, the options in its section [evaluate] are the defaults; --model,
--out, --reference, --source and --comet are only read from the command line. Sentence pairs without preparation.json
are assumed to have Moses' tokens with BPE."""
EXAMPLE = f"""\
{PROGRAM} evaluate --average 5 data/multi30k-deen/data-bin runs/multi30k-deen/ea_transformer_lite/seed-1
  {PROGRAM} evaluate data/glue-cola/data-bin runs/glue-cola/ea_bert_mini/seed-1"""
# The flags that a recipe next to checkpoints may set, and whether each takes a value.
OF_RECIPES = dict.fromkeys(
    ("--average", "--average-best", "--checkpoint", "--beam", "--lenpen", "--subset", "--max-tokens"), True
) | {"--compound-split": False, "--cpu": False}
OF_TEXTS = ("reference", "source", "comet", "compound-split")
OF_TRANSLATIONS = ("beam", "lenpen", *OF_TEXTS)


def parser() -> Parser:
    """The options."""
    options = Parser("evaluate", DESCRIPTION, EXAMPLE, usage=f"{PROGRAM} evaluate [options] DATA_BIN CHECKPOINT_DIR")
    add = options.add_argument
    add("data", type=Path, metavar="DATA_BIN", help="the binarised data")
    add("folder", type=Path, metavar="CHECKPOINT_DIR", help="the folder of a training")
    for flag, which, text in (
        ("--average", "last", "the last N epochs, or the last N saved by updates if no epoch was saved"),
        ("--average-best", "best", "the N best checkpoints by validation"),
    ):
        add(flag, dest="selection", type=partial(average_of, which), metavar="N", help=f"take the average of {text}")
    text = "use this checkpoint (default: checkpoint_best.pt, otherwise checkpoint_last.pt)"
    add("--checkpoint", dest="selection", type=checkpoint_name, metavar="NAME", help=text)
    add("--subset", default="test", metavar="NAME", help="test or valid (default: test)")
    add("--max-tokens", type=at_least(1), default=4096, metavar="N", help="source tokens in a batch (default: 4096)")
    add(
        "--beam",
        type=at_least(1),
        metavar="N",
        help="for translations: width of the beam (default: 5; for words for labels, 1)",
    )
    text = "for translations: length penalty, higher for longer ones (default: 1)"
    add("--lenpen", type=at_least(0, float), metavar="F", help=text)
    text = "for translations: also compute BLEU with words split at hyphens; only for WMT'14 English-German"
    add("--compound-split", action="store_true", help=text)
    text = "for translations: raw references (default: those of the data, detokenized)"
    add("--reference", type=Path, metavar="FILE", help=text)
    text = "for translations: raw sources for --comet (default: those of the data, detokenized)"
    add("--source", type=Path, metavar="FILE", help=text)
    text = "for translations: score with the COMET model in this folder; needs the program comet-score"
    add("--comet", type=Path, metavar="DIR", help=text)
    options.add_user_dir()
    add("--model", metavar="LABEL", help="name of the model in tables (default: the one given by train)")
    options.add_cpu()
    add("--out", type=Path, metavar="DIR", help="folder of the results (default: CHECKPOINT_DIR/evaluation)")
    return options


def average_of(which: str, text: str) -> tuple[str, int]:
    """Parses how many of the last or the best checkpoints to average."""
    return which, int(at_least(1)(text))


def checkpoint_name(text: str) -> str:
    """Checks the name of a file in CHECKPOINT_DIR."""
    if not re.fullmatch("[^/-][^/]*", text):
        raise ArgumentTypeError(f"needs the name of a file in CHECKPOINT_DIR, not '{text}'")
    return text


def options_of(arguments: list[str]) -> tuple[Namespace, Binarised]:
    """Returns the options, with defaults from the recipe next to the checkpoints, and the data.

    Raises:
        UserError: naming the option or folder that is missing or invalid.
    """
    args = parser().parse_intermixed_args(arguments)
    if not args.folder.is_dir():
        raise UserError(f"there is no folder {args.folder}: give the --save-dir of a training, CHECKPOINT_DIR.")
    folder = args.folder.absolute()
    if recipe := Recipe.beside(folder):
        args = parser().parse_intermixed_args([*recipe.flags("evaluate", OF_RECIPES), *arguments])
    if not args.data.is_dir():
        raise UserError(f"there is no folder {args.data}: give that of the binarised data, DATA_BIN.")
    args.data, args.folder = require_path(args.data.absolute()), folder
    args.command = portable(shlex.join([PROGRAM, "evaluate", *arguments]))
    args.out = args.out or own_folder(folder / "evaluation")
    OutputFolder(args.out, "evaluate")  # refuses folders of other commands
    for flag, path in (("--reference", args.reference), ("--source", args.source)):
        if path and not path.is_file():
            raise UserError(f"{flag}: there is no file {path}.")
    args.out = args.out.absolute()
    args.reference, args.source = args.reference and args.reference.resolve(), args.source and args.source.resolve()
    args.user_dir = args.user_dir and args.user_dir.absolute()
    best, last = "checkpoint_best.pt", "checkpoint_last.pt"
    args.selection = args.selection or (best if (folder / best).is_file() else last)
    data = read_data(args.data)
    refused = OF_TRANSLATIONS if not isinstance(data, DataBin) else () if data.task == DataBin.task else OF_TEXTS
    for flag, value in {name: getattr(args, name.replace("-", "_")) for name in refused}.items():
        if value not in (None, False):
            raise UserError(f"--{flag} is for translations, and {data.folder} has data for --task {data.task}.")
    if isinstance(data, DataBin):
        if args.compound_split:
            data.require_compounds()
        args.beam, args.lenpen = args.beam or data.beam, 1.0 if args.lenpen is None else args.lenpen
        args.comet = args.comet and CometModel.find(args.comet)
    return args, data


def own_folder(folder: Path) -> Path:
    """Returns the folder of an evaluation next to checkpoints; raises UserError if it is or has a link."""
    for path in [folder, *folder.rglob("*")]:
        if path.is_symlink():
            raise UserError(
                f"{path} is a link, and what is written to it would be elsewhere: name a folder with --out."
            )
    return folder


def named_checkpoints(args: Namespace) -> list[Path]:
    """Returns the checkpoints that the model depends on: the named one, or all candidates for an average."""
    if isinstance(args.selection, str) and (path := args.folder / args.selection).is_file():
        return [path]
    saved = sorted(path for path in args.folder.glob("checkpoint*.pt") if path.stem != f"checkpoint_{RELEASED}")
    if not saved:
        raise UserError(f"{args.folder} has no checkpoints: give the --save-dir of a training, CHECKPOINT_DIR.")
    if isinstance(args.selection, str):
        raise UserError(f"--checkpoint: there is no {path}.")
    numbered = [path for path in saved if re.fullmatch(r"checkpoint(_\d+_)?\d+\.pt", path.name)]
    return numbered if numbered and args.selection[0] == "last" else saved
