"""The statistics of attention maps as files and as text."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from torch import Tensor

from ea_fairseq.experiments.maps.map_statistics import DEFINITIONS, Statistics
from ea_fairseq.plain.whole_files import replacing


class Value(NamedTuple):
    """One number.

    Args:
        head: from 1, or ``mean`` for the mean of the heads' maps.
        layer: from 1; of the similarity, the first of two.
    """

    model: str
    measure: str
    attention: str
    layer: int
    head: int | str
    value: float


def values_of(models: dict[str, Statistics]) -> Iterator[Value]:
    """All the numbers of the models, by their names."""
    for model, statistics in models.items():
        for measure, curves in statistics.items():
            for attention, curve in curves.items():
                for layer, (heads, mean) in enumerate(zip(curve.heads.tolist(), curve.mean.tolist(), strict=True), 1):
                    for head, value in [*enumerate(heads, 1), ("mean", mean)]:
                        yield Value(model, measure, attention, layer, head, value)


def write_statistics(models: dict[str, Statistics], about: dict[str, object], out: Path) -> list[Path]:
    """Writes statistics.csv and, with ``about`` and the definitions, statistics.json; returns their paths."""
    values = list(values_of(models))

    def write_csv(file: IO[str]) -> None:
        csv.writer(file, lineterminator="\n").writerows([Value._fields, *values])

    def write_json(file: IO[str]) -> None:
        found = {**about, "definitions": DEFINITIONS, "values": [value._asdict() for value in values]}
        file.write(json.dumps(found, indent=1, ensure_ascii=False) + "\n")

    paths = []
    for name, write in (("statistics.csv", write_csv), ("statistics.json", write_json)):
        with replacing(out / name) as unfinished, unfinished.open("w", encoding="utf-8", newline="") as file:
            write(file)
        paths.append(out / name)
    return paths


def table(models: dict[str, Statistics]) -> str:
    """A block for each measure and attention, with the layers in columns."""
    blocks = []
    for measure, curves in next(iter(models.values())).items():
        blocks.append(f"{measure}: {DEFINITIONS[measure]}.")
        for attention in curves:
            rows = {}
            for name, statistics in models.items():
                curve = statistics[measure][attention]
                rows[f"{name}, mean over heads"] = curve.heads.mean(1)
                if measure == "alignment error":
                    rows[f"{name}, best head"] = curve.heads.amin(1)
                rows[f"{name}, mean of the heads' maps"] = curve.mean
            blocks.append(block(attention, rows))
    return "\n\n".join(blocks)


def block(title: str, rows: dict[str, Tensor]) -> str:
    """A table in plain text: a row for each label, a column for each layer."""
    width = max(map(len, rows))
    lines = [f"{title:{width + 2}}" + "".join(f"{layer:7}" for layer in range(1, max(map(len, rows.values())) + 1))]
    lines += [f"  {label:{width}}" + "".join(f"{value:7.3f}" for value in row.tolist()) for label, row in rows.items()]
    return "\n".join(lines)
