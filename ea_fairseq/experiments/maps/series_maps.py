"""The attention maps of trained models for a time series."""

from pathlib import Path

from ea_fairseq import EATimeSeries
from ea_fairseq.errors import UserError, printable
from ea_fairseq.experiments.maps.map_figures import draw_series_maps
from ea_fairseq.experiments.maps.sentence_maps import SentenceMaps, choose_heads, file_name, rows_of
from ea_fairseq.experiments.runs.checkpoint import Checkpoint
from ea_fairseq.hub.files import recorded_data
from ea_fairseq.hub.maps import AttentionByName
from ea_fairseq.series.folder import SeriesFolder
from ea_fairseq.series.ts_file import SeriesFile


def truth_of(file: SeriesFile, index: int) -> str:
    """A sentence with the true class or value of a series; empty if the file has none."""
    if file.targets is None:
        return ""
    if file.labels is None:
        return f"True value: {file.targets[index]:g}. "
    return f"True class: {file.labels[file.targets[index]]}. "


def maps_of_series(models: dict[str, Path], number: int, subset: str, data: Path | None) -> dict[str, AttentionByName]:
    """Returns the maps of models that read a series, by their names; prints the truth and their predictions.

    Args:
        models: checkpoints by their names in figures.
        number: of the series in its file, from 1.
        data: folder of the series; by default the one that the first model was trained on.

    Raises:
        UserError: if there is no such series, or a model or the data cannot be used.
    """
    first = next(iter(models.values()))
    file = SeriesFolder(data or recorded_data(first, Checkpoint.read(first).state)).read(subset)
    if number > len(file.series):
        raise UserError(f"--series: {file.path} has {len(file.series):,} series, and there is no number {number:,}.")
    loaded = {name: EATimeSeries.from_pretrained(path.parent, path.name) for name, path in models.items()}
    maps = {name: model.attention(file.series[number - 1]) for name, model in loaded.items()}
    print(printable(f"series {number} of {file.path.name}:"))
    for name, found in maps.items():
        found.note = truth_of(file, number - 1) + found.note
        print(printable(f"  {name}: {found.note}"))
    return maps


def draw_series(
    found: dict[str, AttentionByName], number: int, heads: list[str] | None, stages: tuple[str, ...], out: Path
) -> list[Path]:
    """Draws a figure for each head, with the series along both axes of the maps; returns the files."""
    maps = [SentenceMaps.of(name, of_model, "none") for name, of_model in found.items()]
    shown = next(iter(found.values())).series
    if shown is None:
        raise UserError("these maps are not of a time series.")
    chosen, paths = choose_heads(maps, "encoder", heads), []
    out.mkdir(parents=True, exist_ok=True)
    for head in chosen:
        title, rows = rows_of(maps, "encoder", head, stages, f"series {number}")
        paths += draw_series_maps(title, rows, shown, out / file_name(f"series-{number}", head))
    return paths
