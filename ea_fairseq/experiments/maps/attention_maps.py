"""Shows what the attentions of trained models do with a sentence, over a whole test set, or whatever they read."""

import argparse
import logging
import sys
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from ea_fairseq.errors import UserError, printable
from ea_fairseq.experiments.environment import require_matplotlib
from ea_fairseq.experiments.maps.map_options import ATTENTIONS, COMPARED, STAGES, parse_arguments
from ea_fairseq.experiments.runs.run_facts import MAPS
from ea_fairseq.experiments.runs.series_data import SeriesData
from ea_fairseq.experiments.runs.trained_model import find_model, load_encoder, load_translation, require_same_task
from ea_fairseq.experiments.runs.training_run import TrainingRun
from ea_fairseq.plain.model_folder import usual_checkpoint
from ea_fairseq.plain.project import PROJECT

if TYPE_CHECKING:
    from ea_fairseq.hub.encoder import EncoderHub
    from ea_fairseq.hub.files import ModelFiles
    from ea_fairseq.hub.translation import TranslationHub


def load_all(args: argparse.Namespace, files: "list[ModelFiles]") -> "dict[str, TranslationHub]":
    """The model, and that to compare, by the names that figures give them.

    Raises:
        UserError: naming what is not there, or a model of other languages or words than the first.
    """
    if args.second is not None:
        raise UserError(f"--second: {args.checkpoint} translates: give a translation with --target.")
    models = [load_translation(found, args.cpu) for found in files]
    require_same_task(models, checkpoints(args))
    return named(checkpoints(args), models)


def load_encoders(args: argparse.Namespace, files: "list[ModelFiles]") -> "dict[str, EncoderHub]":
    """The encoder, and that to compare, by the names that figures give them.

    Raises:
        UserError: naming what is not there, an option of translation, or a model of other words than the first.
    """
    from ea_fairseq.experiments.maps.encoder_maps import refuse_options_of_translation, require_same_words

    refuse_options_of_translation(args)
    models = [load_encoder(found, args.cpu) for found in files]
    require_same_words(models, checkpoints(args))
    return named(checkpoints(args), models)


def named(paths: list[Path], models: list) -> "dict[str, TranslationHub | EncoderHub]":
    """The models by their names or, where these are alike, by their paths."""
    names = list(map(name_of, paths, models))
    return dict(zip(names if len(set(names)) == len(names) else map(str, paths), models, strict=True))


def checkpoints(args: argparse.Namespace) -> list[Path]:
    """The models that are shown: one, or two to compare."""
    return [args.checkpoint] if args.compare is None else [args.checkpoint, args.compare]


def find(checkpoint: Path, data: Path | None) -> "ModelFiles":
    """The files of a checkpoint, or of a training's folder."""
    folder, name = (checkpoint, None) if checkpoint.is_dir() else (checkpoint.parent, checkpoint.name)
    return find_model(folder, name, data)


def name_of(checkpoint: Path, model: "TranslationHub | EncoderHub") -> str:
    """What ea-fairseq train calls the model or, where something else trained it, its architecture."""
    run = TrainingRun.read(checkpoint if checkpoint.is_dir() else checkpoint.parent)
    return run.model if run else model.cfg.model.arch


def draw_sentence(models: "dict[str, TranslationHub]", args: argparse.Namespace, out: Path) -> list[Path]:
    """Draws the maps of one pair, says which it is, and returns the files."""
    from ea_fairseq.experiments.maps.sentence_maps import SentenceMaps, draw

    first = next(iter(models.values()))
    source = first.encode(args.source)
    if args.target is None:
        target = first.generate(source, beam=5)[0]["tokens"].cpu()
    else:
        target = first.encode_target(args.target)
    maps = [SentenceMaps.of_model(name, model, source, target) for name, model in models.items()]
    print("source:", printable(first.src_dict.string(source)))
    print("target:", printable(first.tgt_dict.string(target)))
    if args.html is not None:
        from ea_fairseq.experiments.maps.explorer_files import model_maps, write_explorer

        return write_explorer(list(map(model_maps, maps)), f"Attention of “{args.source}”", args.html)
    return draw(maps, args.attention or ATTENTIONS, args.heads, stages_of(args), out)


def stages_of(args: argparse.Namespace) -> tuple[str, ...]:
    """The stages that are drawn."""
    return args.stages or (STAGES if args.compare is None else COMPARED)


def measure(models: "dict[str, TranslationHub]", args: argparse.Namespace, out: Path) -> list[Path]:
    """Measures the maps of a test set, prints and draws what it finds, and returns the files."""
    from ea_fairseq.experiments.maps.attention_alignment import AttentionAlignment
    from ea_fairseq.experiments.maps.map_statistics import map_statistics
    from ea_fairseq.experiments.maps.statistics_figures import draw_statistics
    from ea_fairseq.experiments.maps.statistics_files import table, write_statistics
    from ea_fairseq.experiments.maps.word_alignment import read_alignments

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
    out = args.out or usual_folder(args.checkpoint)
    if args.centres:
        from ea_fairseq.experiments.maps.head_centres import draw_centres

        announce(draw_centres(args.checkpoint, out), out)
        return
    if args.series is not None:
        announce(show_series(args, out), out if args.html is None else args.html.parent)
        return
    files = [find(path, args.data) for path in checkpoints(args)]
    if files[0].task_name == SeriesData.task:
        raise UserError(f"{args.checkpoint} reads time series: name one with --series.")
    with redirect_stdout(sys.stderr):
        models = (load_encoders if files[0].is_encoder else load_all)(args, files)
    announce(show(models, args, out), out if args.html is None else args.html.parent)


def usual_folder(checkpoint: Path) -> Path:
    """Where the files of a model go by default: beside it, or of a model that git has, into runs/."""
    folder = (checkpoint if checkpoint.is_dir() else checkpoint.parent).absolute()
    if folder.resolve().is_relative_to(PROJECT / "checkpoints"):
        folder = PROJECT / "runs" / folder.resolve().name
    return folder / MAPS


def show_series(args: argparse.Namespace, out: Path) -> list[Path]:
    """Draws the maps of a time series, or writes their page; returns the files."""
    from ea_fairseq.experiments.maps.series_maps import draw_series, maps_of_series

    paths = checkpoints(args)
    runs = [TrainingRun.read(path if path.is_dir() else path.parent) for path in paths]
    names = [run.model if run else path.name for run, path in zip(runs, paths, strict=True)]
    files = [path / usual_checkpoint(path) if path.is_dir() else path for path in paths]
    models = dict(zip(names if len({*names}) == len(names) else map(str, paths), files, strict=True))
    maps = maps_of_series(models, args.series, args.subset or "test", args.data)
    if args.html is None:
        return draw_series(maps, args.series, args.heads, stages_of(args), out)
    from ea_fairseq.experiments.maps.explorer_files import write_explorer
    from ea_fairseq.explorer.page import ModelMaps

    pages = [ModelMaps.of(name, found, found.series) for name, found in maps.items()]
    return write_explorer(pages, f"Attention of series {args.series}", args.html)


def show(models: "dict[str, TranslationHub | EncoderHub]", args: argparse.Namespace, out: Path) -> list[Path]:
    """Draws or measures the maps of translation models or of encoders; returns the files."""
    from ea_fairseq.hub.translation import TranslationHub

    if all(isinstance(model, TranslationHub) for model in models.values()):
        return (measure if args.statistics else draw_sentence)(models, args, out)
    from ea_fairseq.experiments.maps import encoder_maps

    if args.statistics:
        return encoder_maps.measure(models, args, checkpoints(args), out)
    return encoder_maps.draw_sentence(models, args, stages_of(args), out)


def announce(paths: list[Path], out: Path) -> None:
    """Says which files were written."""
    print(f"written to {out}: {', '.join(path.name for path in paths)}")
