"""The attention maps of trained models for a time series or an image."""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

from ea_fairseq import EAImage, EATimeSeries
from ea_fairseq.errors import UserError, printable
from ea_fairseq.experiments.maps.map_figures import draw_series_maps
from ea_fairseq.experiments.maps.sentence_maps import SentenceMaps, choose_heads, file_name, rows_of, write_explorer
from ea_fairseq.experiments.runs.checkpoint import Checkpoint
from ea_fairseq.explorer.page import ModelMaps
from ea_fairseq.hub.files import recorded_data
from ea_fairseq.hub.maps import AttentionByName
from ea_fairseq.images.archive import ImageSet
from ea_fairseq.images.folder import ImageFolder
from ea_fairseq.series.folder import SeriesFolder
from ea_fairseq.series.ts_file import SeriesFile


class Example(NamedTuple):
    """A time series or an image.

    Args:
        title: what it is called, such as ``series 2 of test.ts``.
        read: what models read: an array, or the file of an image.
        truth: a sentence with its class or value; empty if it is not known.
    """

    title: str
    read: Any
    truth: str = ""


def show_example(models: dict[str, Path], args: argparse.Namespace, stages: tuple[str, ...], out: Path) -> list[Path]:
    """Draws the maps of a series, or writes the page of a series or an image; returns the files.

    It also prints the truth, if it is known, and what the models predict.

    Args:
        models: one checkpoint or two, by their names in figures.

    Raises:
        UserError: if there is no such example, or a model or the data cannot be used.
    """
    example = example_of(next(iter(models.values())), args)
    hub: Any = EAImage if args.series is None else EATimeSeries
    maps = {name: hub.from_pretrained(path.parent, path.name).attention(example.read) for name, path in models.items()}
    print(printable(f"{example.title}:"))
    for name, found in maps.items():
        found.note = example.truth + found.note
        print(printable(f"  {name}: {found.note}"))
    if args.html is None:
        return draw_series(maps, args.series, args.heads, stages, out)
    if args.series is not None:
        pages = [ModelMaps.of(name, found, found.series, found.note) for name, found in maps.items()]
        return write_explorer(pages, f"Attention of series {args.series}", args.html)
    (name, shown), *others = maps.items()
    args.html.parent.mkdir(parents=True, exist_ok=True)
    return [shown.to_html(args.html, f"Attention of {example.title}", name, **dict(others))]


def example_of(model: Path, args: argparse.Namespace) -> Example:
    """Reads the example that the command line names; its data are those of the model, a checkpoint, by default.

    Raises:
        UserError: if there is no such series or image.
    """
    if args.series is None and not args.image.isdecimal():
        return Example(f"image {Path(args.image).name}", args.image)
    data, subset = args.data or recorded_data(model, Checkpoint.read(model).state), args.subset or "test"
    file: SeriesFile | ImageSet
    if args.series is None:
        flag, number, file = "image", int(args.image), ImageFolder(data).read(subset)
    else:
        flag, number, file = "series", args.series, SeriesFolder(data).read(subset)
    noun, examples = ("images", file.images) if isinstance(file, ImageSet) else ("series", file.series)
    if not 1 <= number <= len(file):
        raise UserError(f"--{flag}: {file.path} has {len(file):,} {noun}, and there is no number {number:,}.")
    return Example(f"{flag} {number} of {Path(file.path).name}", examples[number - 1], truth_of(file, number - 1))


def truth_of(file: SeriesFile | ImageSet, index: int) -> str:
    """A sentence with the true class or value of an example; empty if the file has none."""
    if file.targets is None:
        return ""
    if file.labels is None:
        return f"True value: {file.targets[index]:g}. "
    return f"True class: {file.labels[file.targets[index]]}. "


def draw_series(
    found: dict[str, AttentionByName], number: int, heads: list[str] | None, stages: tuple[str, ...], out: Path
) -> list[Path]:
    """Draws a figure for each head, with the series along both axes of the maps; returns the files."""
    maps = [SentenceMaps.of(name, of_model, "none") for name, of_model in found.items()]
    series = next(iter(found.values())).series
    assert series is not None  # these are maps of a series
    chosen, paths = choose_heads(maps, "encoder", heads), []
    out.mkdir(parents=True, exist_ok=True)
    for head in chosen:
        title, rows = rows_of(maps, "encoder", head, stages, f"series {number}")
        paths += draw_series_maps(title, rows, series, out / file_name(f"series-{number}", head))
    return paths
