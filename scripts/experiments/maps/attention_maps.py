"""Shows what the attentions of trained models do with a sentence, over a whole test set, or whatever they read."""

import argparse
import logging
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

from step import StepError
from text_lines import printable

from experiments.arguments import Parser, at_least
from experiments.environment import require_matplotlib
from experiments.runs.checkpoint import Checkpoint
from experiments.runs.series_data import SeriesData
from experiments.runs.trained_encoder import TrainedEncoder, is_encoder
from experiments.runs.trained_model import TrainedModel, usual_checkpoint
from experiments.runs.training_run import TrainingRun

ATTENTIONS = ("encoder", "decoder", "cross")
STAGES = ("own", "input", "logits", "probabilities")
COMPARED = ("logits", "probabilities")
NEEDED = dict.fromkeys(("target", "second", "attention"), ("source",))  # of each option, one that it goes with
NEEDED |= dict.fromkeys(("heads", "stages"), ("source", "series"))
NEEDED |= dict.fromkeys(("alignment", "max_pairs"), ("statistics",))
NEEDED["subset"] = ("statistics", "series")
EXAMPLE = """python scripts/attention_maps.py runs/multi30k-deen/ea_transformer_lite/seed-1 \\
    --source 'ein hund läuft über die wiese.' --compare runs/multi30k-deen/transformer_lite/seed-1"""


def choices(names: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    """A parser of a list such as ``encoder,cross``, in the order of ``names``."""

    def parse(text: str) -> tuple[str, ...]:
        chosen = text.split(",")
        for name in chosen:
            if name not in names:
                raise argparse.ArgumentTypeError(f"there is no '{name}': choose from {', '.join(names)}")
        return tuple(name for name in names if name in chosen)

    return parse


def heads(text: str) -> list[str]:
    """Parses a list such as ``1,3,mean``."""
    chosen = list(dict.fromkeys(text.split(",")))
    for head in chosen:
        if head != "mean" and not (head.isascii() and head.isdecimal() and int(head) > 0):
            raise argparse.ArgumentTypeError(f"needs numbers from 1, or 'mean', not '{head}'")
    return chosen


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = Parser(
        "python scripts/attention_maps.py",
        "Draws the attention maps of a trained model while it reads a sentence and its translation: all layers in\n"
        "a row, before and after skip connection and convolution; or measures, over all pairs of a test set, the\n"
        "entropy of attention, the similarity of adjacent layers and the alignment error of the cross-attention.\n"
        "Works for evolving attention and for fairseq's plain Transformer, and for encoders and classifiers, which\n"
        "read a sentence or a pair, and for models of time series. Of a model with quadratic attention it draws where\n"
        "its heads looked while it was trained.",
        EXAMPLE,
        usage="%(prog)s CHECKPOINT (--source TEXT | --series N | --statistics | --centres) [options]",
    )
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="a checkpoint, or the folder of a training")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--source", metavar="TEXT", help="draw the maps of this raw sentence")
    what.add_argument("--series", type=at_least(1), metavar="N", help="draw the maps of the Nth time series")
    what.add_argument("--statistics", action="store_true", help="measure the maps of a whole test set")
    what.add_argument(
        "--centres", action="store_true", help="draw centres and widths of quadratic attention, over a folder's updates"
    )
    parser.add_argument("--compare", type=Path, metavar="CHECKPOINT", help="show another model beside it")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of the binarised data (default: the model's)")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="for the files (default: attention_maps beside the checkpoint)"
    )
    parser.add_argument("--cpu", action="store_true", help="use the CPU even where there is a GPU")
    sentence = parser.add_argument_group("with --source, and the last two with --series")
    sentence.add_argument("--target", metavar="TEXT", help="raw translation (default: the model's own, beam 5)")
    sentence.add_argument("--second", metavar="TEXT", help="the second raw sentence of a pair, for an encoder")
    sentence.add_argument(
        "--attention",
        type=choices(ATTENTIONS),
        metavar="LIST",
        help=f"of {', '.join(ATTENTIONS)} (default: all)",
    )
    sentence.add_argument("--heads", type=heads, metavar="LIST", help="numbers from 1, or mean (default: all and mean)")
    sentence.add_argument(
        "--stages",
        type=choices(STAGES),
        metavar="LIST",
        help=f"of {', '.join(STAGES)} (default: all; with --compare {', '.join(COMPARED)})",
    )
    statistics = parser.add_argument_group("with --statistics, and the first with --series")
    statistics.add_argument("--subset", help="of the data (default: test)")
    statistics.add_argument(
        "--alignment",
        type=Path,
        metavar="FILE",
        help="the subset's links of tokenized words, a pair a line: 0-0 for a sure and 1?2 for a possible link of "
        "source and target word, counted from 0",
    )
    statistics.add_argument("--max-pairs", type=at_least(1), metavar="N", help="measure the first N pairs only")
    args = parser.parse_args()
    for option, needed in NEEDED.items():
        if getattr(args, option) is not None and not any(getattr(args, other) for other in needed):
            parser.error(f"--{option.replace('_', '-')} goes with --{' or --'.join(needed)}")
    if args.centres and args.compare is not None:
        parser.error("--compare goes with --source, --series or --statistics")
    return args


def load_all(args: argparse.Namespace) -> dict[str, TrainedModel]:
    """The model, and that to compare, by the names that figures give them.

    Raises:
        StepError: naming what is not there, or a model of other languages or words than the first.
    """
    if args.second is not None:
        raise StepError(f"--second: {args.checkpoint} translates: give a translation with --target.")
    paths = checkpoints(args)
    models = [load(path, args) for path in paths]
    first, last = models[0], models[-1]
    if languages(first) != languages(last):
        raise StepError(
            f"{paths[-1]} translates {languages(last)}, not {languages(first)}: compare models of one task."
        )
    if (first.hub.src_dict, first.hub.tgt_dict) != (last.hub.src_dict, last.hub.tgt_dict):
        raise StepError(f"{paths[-1]} has another vocabulary than {paths[0]}: compare models of the same data.")
    return named(paths, models)


def load_encoders(args: argparse.Namespace) -> dict[str, TrainedEncoder]:
    """The encoder, and that to compare, by the names that figures give them.

    Raises:
        StepError: naming what is not there, an option of translation, or a model of other words than the first.
    """
    from experiments.maps.encoder_maps import refuse_options_of_translation, require_same_words

    refuse_options_of_translation(args)
    paths = checkpoints(args)
    models = [TrainedEncoder.load(file_of(path), args.data, args.cpu) for path in paths]
    require_same_words(models, paths)
    return named(paths, models)


def named(paths: list[Path], models: list) -> dict[str, TrainedModel | TrainedEncoder]:
    """The models by their names or, where these are alike, by their paths."""
    names = list(map(name_of, paths, models))
    return dict(zip(names if len(set(names)) == len(names) else map(str, paths), models, strict=True))


def file_of(checkpoint: Path) -> Path:
    """The file of a checkpoint, or of a training's folder."""
    return checkpoint / usual_checkpoint(checkpoint) if checkpoint.is_dir() else checkpoint


def checkpoints(args: argparse.Namespace) -> list[Path]:
    """The models that are shown: one, or two to compare."""
    return [args.checkpoint] if args.compare is None else [args.checkpoint, args.compare]


def load(checkpoint: Path, args: argparse.Namespace) -> TrainedModel:
    """The model of a checkpoint, or of a training's folder."""
    folder, name = (checkpoint, None) if checkpoint.is_dir() else (checkpoint.parent, checkpoint.name)
    return TrainedModel.load(folder, name, args.data, args.cpu)


def languages(model: TrainedModel) -> str:
    """SOURCE-TARGET of a model."""
    return "{source_lang}-{target_lang}".format_map(model.hub.task.cfg)


def name_of(checkpoint: Path, model: TrainedModel | TrainedEncoder) -> str:
    """What train.sh calls the model or, where something else trained it, its architecture."""
    run = TrainingRun.read(checkpoint if checkpoint.is_dir() else checkpoint.parent)
    return run.model if run else model.hub.cfg.model.arch


def draw_sentence(models: dict[str, TrainedModel], args: argparse.Namespace, out: Path) -> list[Path]:
    """Draws the maps of one pair, says which it is, and returns the files."""
    from experiments.maps.sentence_maps import SentenceMaps, draw

    first = next(iter(models.values()))
    source = first.tokens("source", args.source)
    if args.target is None:
        target = first.hub.generate(source, beam=5)[0]["tokens"].cpu()
    else:
        target = first.tokens("target", args.target)
    maps = [SentenceMaps.of_model(name, model, source, target) for name, model in models.items()]
    print("source:", printable(first.hub.src_dict.string(source)))
    print("target:", printable(first.hub.tgt_dict.string(target)))
    return draw(maps, args.attention or ATTENTIONS, args.heads, stages_of(args), out)


def stages_of(args: argparse.Namespace) -> tuple[str, ...]:
    """The stages that are drawn."""
    return args.stages or (STAGES if args.compare is None else COMPARED)


def measure(models: dict[str, TrainedModel], args: argparse.Namespace, out: Path) -> list[Path]:
    """Measures the maps of a test set, prints and draws what it finds, and returns the files."""
    from experiments.maps.attention_alignment import AttentionAlignment
    from experiments.maps.map_statistics import map_statistics
    from experiments.maps.statistics_figures import draw_statistics
    from experiments.maps.statistics_files import table, write_statistics
    from experiments.maps.word_alignment import read_alignments

    subset = args.subset or "test"
    sources, targets = next(iter(models.values())).pairs(subset)
    gold = None if args.alignment is None else read_alignments(args.alignment, len(sources))
    sources, targets = sources[: args.max_pairs], targets[: args.max_pairs]
    statistics, left_out = {}, 0
    for name, model in models.items():
        alignment = None if gold is None else AttentionAlignment(model, gold)
        statistics[name] = map_statistics(model, sources, targets, alignment)
        left_out = 0 if alignment is None else alignment.left_out
    unknown = f"; {left_out} with unknown pieces count not in the alignment error" if left_out else ""
    print(f"{table(statistics)}\n\n{len(sources)} pairs of {subset}{unknown}.")
    about = {
        "checkpoints": dict(zip(models, map(str, checkpoints(args)), strict=True)),
        "subset": subset,
        "pairs": len(sources),
        "alignment": None if gold is None else str(args.alignment),
        "pairs left out of the alignment error": left_out,
    }
    out.mkdir(parents=True, exist_ok=True)
    return [*write_statistics(statistics, about, out), *draw_statistics(statistics, out)]


def main() -> None:
    args = parse_arguments()
    require_matplotlib()
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")
    from ea_fairseq import UserError

    folder = args.checkpoint if args.checkpoint.is_dir() else args.checkpoint.parent
    out = args.out or folder / "attention_maps"
    if args.centres:
        from experiments.maps.head_centres import draw_centres

        announce(draw_centres(args.checkpoint, out), out)
        return
    try:
        if args.series is not None:
            announce(draw_series_of(args, out), out)
            return
        if Checkpoint.read(file_of(args.checkpoint)).task == SeriesData.task:
            raise StepError(f"{args.checkpoint} reads time series: name one with --series.")
        with redirect_stdout(sys.stderr):
            models = (load_encoders if is_encoder(file_of(args.checkpoint)) else load_all)(args)
        paths = show(models, args, out)
    except UserError as error:
        raise StepError(str(error)) from None
    announce(paths, out)


def draw_series_of(args: argparse.Namespace, out: Path) -> list[Path]:
    """Draws the maps of a time series; returns the files."""
    from experiments.maps.series_maps import draw_series

    paths = checkpoints(args)
    runs = [TrainingRun.read(path if path.is_dir() else path.parent) for path in paths]
    names = [run.model if run else path.name for run, path in zip(runs, paths, strict=True)]
    models = dict(zip(names if len({*names}) == len(names) else map(str, paths), map(file_of, paths), strict=True))
    return draw_series(models, args.series, args.subset or "test", args.data, args.heads, stages_of(args), out)


def show(
    models: dict[str, TrainedModel] | dict[str, TrainedEncoder], args: argparse.Namespace, out: Path
) -> list[Path]:
    """Draws or measures the maps of translation models or of encoders; returns the files."""
    if all(isinstance(model, TrainedModel) for model in models.values()):
        return (measure if args.statistics else draw_sentence)(models, args, out)
    from experiments.maps import encoder_maps

    if args.statistics:
        return encoder_maps.measure(models, args, checkpoints(args), out)
    return encoder_maps.draw_sentence(models, args, stages_of(args), out)


def announce(paths: list[Path], out: Path) -> None:
    """Says which files were written."""
    print(f"written to {out}: {', '.join(path.name for path in paths)}")
