"""Shows what the attentions of trained models do with a sentence, over a whole test set, or whatever they read."""

import argparse
import logging
import sys
import warnings
from contextlib import redirect_stdout
from pathlib import Path

from ea_fairseq.errors import UserError, printable
from ea_fairseq.experiments.environment import require_matplotlib
from ea_fairseq.experiments.maps.map_options import ATTENTIONS, COMPARED, STAGES, parse_arguments
from ea_fairseq.experiments.runs.checkpoint import Checkpoint
from ea_fairseq.experiments.runs.run_facts import MAPS
from ea_fairseq.experiments.runs.series_data import SeriesData
from ea_fairseq.experiments.runs.trained_encoder import TrainedEncoder, is_encoder
from ea_fairseq.experiments.runs.trained_model import TrainedModel, require_same_task, usual_checkpoint
from ea_fairseq.experiments.runs.training_run import TrainingRun
from ea_fairseq.plain.project import PROJECT


def load_all(args: argparse.Namespace) -> dict[str, TrainedModel]:
    """The model, and that to compare, by the names that figures give them.

    Raises:
        UserError: naming what is not there, or a model of other languages or words than the first.
    """
    if args.second is not None:
        raise UserError(f"--second: {args.checkpoint} translates: give a translation with --target.")
    paths = checkpoints(args)
    models = [load(path, args) for path in paths]
    require_same_task(models, paths)
    return named(paths, models)


def load_encoders(args: argparse.Namespace) -> dict[str, TrainedEncoder]:
    """The encoder, and that to compare, by the names that figures give them.

    Raises:
        UserError: naming what is not there, an option of translation, or a model of other words than the first.
    """
    from ea_fairseq.experiments.maps.encoder_maps import refuse_options_of_translation, require_same_words

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


def name_of(checkpoint: Path, model: TrainedModel | TrainedEncoder) -> str:
    """What train.sh calls the model or, where something else trained it, its architecture."""
    run = TrainingRun.read(checkpoint if checkpoint.is_dir() else checkpoint.parent)
    return run.model if run else model.hub.cfg.model.arch


def draw_sentence(models: dict[str, TrainedModel], args: argparse.Namespace, out: Path) -> list[Path]:
    """Draws the maps of one pair, says which it is, and returns the files."""
    from ea_fairseq.experiments.maps.sentence_maps import SentenceMaps, draw

    first = next(iter(models.values()))
    source = first.tokens("source", args.source)
    if args.target is None:
        target = first.hub.generate(source, beam=5)[0]["tokens"].cpu()
    else:
        target = first.tokens("target", args.target)
    maps = [SentenceMaps.of_model(name, model, source, target) for name, model in models.items()]
    print("source:", printable(first.hub.src_dict.string(source)))
    print("target:", printable(first.hub.tgt_dict.string(target)))
    if args.html is not None:
        from ea_fairseq.experiments.maps.explorer_files import model_maps, write_explorer

        return write_explorer(list(map(model_maps, maps)), f"Attention of “{args.source}”", args.html)
    return draw(maps, args.attention or ATTENTIONS, args.heads, stages_of(args), out)


def stages_of(args: argparse.Namespace) -> tuple[str, ...]:
    """The stages that are drawn."""
    return args.stages or (STAGES if args.compare is None else COMPARED)


def measure(models: dict[str, TrainedModel], args: argparse.Namespace, out: Path) -> list[Path]:
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
    from ea_fairseq.errors import UserError

    out = args.out or usual_folder(args.checkpoint)
    if args.centres:
        from ea_fairseq.experiments.maps.head_centres import draw_centres

        announce(draw_centres(args.checkpoint, out), out)
        return
    try:
        if args.series is not None:
            announce(show_series(args, out), out if args.html is None else args.html.parent)
            return
        if Checkpoint.read(file_of(args.checkpoint)).task == SeriesData.task:
            raise UserError(f"{args.checkpoint} reads time series: name one with --series.")
        with redirect_stdout(sys.stderr):
            models = (load_encoders if is_encoder(file_of(args.checkpoint)) else load_all)(args)
        paths = show(models, args, out)
    except UserError as error:
        raise UserError(str(error)) from None
    announce(paths, out if args.html is None else args.html.parent)


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
    models = dict(zip(names if len({*names}) == len(names) else map(str, paths), map(file_of, paths), strict=True))
    maps = maps_of_series(models, args.series, args.subset or "test", args.data)
    if args.html is None:
        return draw_series(maps, args.series, args.heads, stages_of(args), out)
    from ea_fairseq.experiments.maps.explorer_files import write_explorer
    from ea_fairseq.explorer.page import ModelMaps

    pages = [ModelMaps.of(name, found, found.series) for name, found in maps.items()]
    return write_explorer(pages, f"Attention of series {args.series}", args.html)


def show(
    models: dict[str, TrainedModel] | dict[str, TrainedEncoder], args: argparse.Namespace, out: Path
) -> list[Path]:
    """Draws or measures the maps of translation models or of encoders; returns the files."""
    if all(isinstance(model, TrainedModel) for model in models.values()):
        return (measure if args.statistics else draw_sentence)(models, args, out)
    from ea_fairseq.experiments.maps import encoder_maps

    if args.statistics:
        return encoder_maps.measure(models, args, checkpoints(args), out)
    return encoder_maps.draw_sentence(models, args, stages_of(args), out)


def announce(paths: list[Path], out: Path) -> None:
    """Says which files were written."""
    print(f"written to {out}: {', '.join(path.name for path in paths)}")
