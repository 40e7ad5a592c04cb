"""Shows the attention maps of trained models for a sentence, a series or an image, or measures a whole test set."""

import argparse
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ea_fairseq.errors import UserError, printable
from ea_fairseq.experiments.environment import require_matplotlib
from ea_fairseq.experiments.maps.map_options import ATTENTIONS, COMPARED, STAGES, parse_arguments
from ea_fairseq.experiments.page import MAPS
from ea_fairseq.experiments.runs.binarised import ImageData, SeriesData
from ea_fairseq.experiments.runs.trained_model import find_trained, load_encoder, load_translation, require_same_task
from ea_fairseq.experiments.runs.training_run import model_names
from ea_fairseq.plain.commands import quiet
from ea_fairseq.plain.model_folder import usual_checkpoint
from ea_fairseq.plain.project import PROJECT

if TYPE_CHECKING:
    from ea_fairseq.hub.files import ModelFiles

    Models = dict[str, Any]  # hubs by their names in figures: all translate, or all are encoders

OTHERS = {SeriesData.task: "time series: name one with --series", ImageData.task: "images: name one with --image"}
OF_TRANSLATION = ("target", "tag", "alignment")  # options of translation models


def load_all(args: argparse.Namespace, files: "list[ModelFiles]") -> "Models":
    """Loads the model and the one to compare, by their names in figures: both translate, or both are encoders.

    Raises:
        UserError: naming what is missing, an option that is not for such models, or a model with other languages or
            another vocabulary than the first.
    """
    paths = checkpoints(args)
    if not files[0].is_encoder:
        if args.second is not None:
            raise UserError(f"--second: {args.checkpoint} translates: give a translation with --target.")
        models: list[Any] = [load_translation(found, args.cpu) for found in files]
        require_same_task(models, paths)
    else:
        require_options_of_encoders(args)
        models = [load_encoder(found, args.cpu) for found in files]
        if models[0].dictionary != models[-1].dictionary:
            raise UserError(f"{paths[-1]} has another vocabulary than {paths[0]}: compare models of the same data.")
    return dict(zip(model_names(paths, [model.cfg.model.arch for model in models]), models, strict=True))


def require_options_of_encoders(args: argparse.Namespace) -> None:
    """Raises UserError for options that only translation models have."""
    for name in OF_TRANSLATION:
        if getattr(args, name) is not None:
            raise UserError(
                f"--{name}: {args.checkpoint} does not translate: leave it out, or give a pair with --second."
            )
    if args.attention not in (None, ("encoder",)):
        raise UserError(f"--attention: {args.checkpoint} has only the attention encoder.")


def checkpoints(args: argparse.Namespace) -> list[Path]:
    """The models that are shown: one, or two to compare."""
    return [args.checkpoint] if args.compare is None else [args.checkpoint, args.compare]


def draw_sentence(models: "Models", is_encoder: bool, args: argparse.Namespace, out: Path) -> list[Path]:
    """Draws the maps of a sentence or a pair, prints its tokens, and returns the files."""
    from ea_fairseq.experiments.maps.sentence_maps import SentenceMaps, draw, model_maps, write_explorer

    first = next(iter(models.values()))
    if is_encoder:
        tokens = [first.encode(args.source, args.second)]
        read = {"tokens": " ".join(first.dictionary[token] for token in tokens[0])}
    else:
        source = first.encode(args.source, args.tag)
        if args.target is None:
            target = first.generate(source, beam=5)[0]["tokens"].cpu()
        else:
            target = first.encode_target(args.target)
        tokens = [source, target]
        read = {"source": first.src_dict.string(source), "target": first.tgt_dict.string(target)}
    maps = [SentenceMaps.of(name, one.attention_of_tokens(*tokens), one.subword) for name, one in models.items()]
    for what, text in read.items():
        print(f"{what}: {printable(text)}")
    if args.html is not None:
        return write_explorer(list(map(model_maps, maps)), f"Attention of “{args.source}”", args.html)
    attentions = ("encoder",) if is_encoder else args.attention or ATTENTIONS
    return draw(maps, attentions, args.heads, stages_of(args), out)


def stages_of(args: argparse.Namespace) -> tuple[str, ...]:
    """The stages that are drawn."""
    return args.stages or (STAGES if args.compare is None else COMPARED)


def measure(models: "Models", is_encoder: bool, args: argparse.Namespace, out: Path) -> list[Path]:
    """Measures the maps of a test set, prints and draws the results, and returns the files."""
    from ea_fairseq.experiments.maps.map_statistics import map_statistics, statistics_of
    from ea_fairseq.experiments.maps.statistics_files import draw_statistics, table, write_statistics
    from ea_fairseq.experiments.maps.word_alignment import AttentionAlignment, read_alignments

    subset, statistics = args.subset or "test", {}
    about: dict[str, object] = {"checkpoints": dict(zip(models, map(str, checkpoints(args)), strict=True))}
    about["subset"] = subset
    first = next(iter(models.values()))
    if is_encoder:
        sentences = first.subset(subset)[: args.max_pairs]
        for name, encoder in models.items():
            batches = encoder.recorded_batches(sentences)
            statistics[name] = statistics_of(batches, len(sentences), encoder.dictionary.pad())
        about |= {"sentences": len(sentences)}
        said = f"{len(sentences)} sentences or pairs of {subset}."
    else:
        sources, targets = first.pairs(subset)
        gold = None if args.alignment is None else read_alignments(args.alignment, len(sources))
        sources, targets, left_out = sources[: args.max_pairs], targets[: args.max_pairs], 0
        for name, model in models.items():
            alignment = None if gold is None else AttentionAlignment(model, gold)
            statistics[name] = map_statistics(model, sources, targets, alignment)
            left_out = 0 if alignment is None else alignment.left_out
        about |= {"pairs": len(sources), "alignment": None if gold is None else str(args.alignment)}
        about |= {"pairs left out of the alignment error": left_out}
        unknown = f"; {left_out} with unknown pieces do not count in the alignment error" if left_out else ""
        said = f"{len(sources)} pairs of {subset}{unknown}."
    print(f"{table(statistics)}\n\n{said}")
    out.mkdir(parents=True, exist_ok=True)
    return [*write_statistics(statistics, about, out), *draw_statistics(statistics, out)]


def main() -> None:
    """Draws or measures what the command line asks for."""
    args = parse_arguments()
    require_matplotlib()
    quiet()
    out = args.out or usual_folder(args.checkpoint)
    if args.centres:
        from ea_fairseq.experiments.maps.head_centres import draw_centres

        announce(draw_centres(args.checkpoint, out), out)
        return
    if args.series is not None or args.image is not None:
        from ea_fairseq.experiments.maps.example_maps import show_example

        shown = show_example(by_name(args), args, stages_of(args), out)
        announce(shown, out if args.html is None else args.html.parent)
        return
    files = [find_trained(path, args.data) for path in checkpoints(args)]
    if files[0].task_name in OTHERS:
        raise UserError(f"{args.checkpoint} reads {OTHERS[files[0].task_name]}.")
    with redirect_stdout(sys.stderr):
        models = load_all(args, files)
    written = (measure if args.statistics else draw_sentence)(models, files[0].is_encoder, args, out)
    announce(written, out if args.html is None else args.html.parent)


def usual_folder(checkpoint: Path) -> Path:
    """The default output folder of a model: next to it, or in runs/ if git tracks the model."""
    folder = (checkpoint if checkpoint.is_dir() else checkpoint.parent).absolute()
    if folder.resolve().is_relative_to(PROJECT / "checkpoints"):
        folder = PROJECT / "runs" / folder.resolve().name
    return folder / MAPS


def by_name(args: argparse.Namespace) -> dict[str, Path]:
    """The checkpoints that are shown, by the models' names in figures."""
    paths = checkpoints(args)
    files = [path / usual_checkpoint(path) if path.is_dir() else path for path in paths]
    return dict(zip(model_names(paths, [path.name for path in paths]), files, strict=True))


def announce(paths: list[Path], out: Path) -> None:
    """Says which files were written."""
    print(f"written to {out}: {', '.join(path.name for path in paths)}")
