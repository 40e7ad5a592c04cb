"""Tiny models of time series, series that are drawn, and what the tests ask of them."""

import gzip
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

from ea_fairseq.attention.registry import FAMILIES
from ea_fairseq.series.description import SeriesDescription
from encoders import OPTIONS
from needs import ENCODER_TASKS, needs_file
from tiny import built, make_loud

CHANNELS, LONGEST = 3, 9
HEAD = "sentence_classification_head"
CORPORA = ENCODER_TASKS / "timeseries"
needs_corpora = needs_file("timeseries/JapaneseVowels/JapaneseVowels_TRAIN.ts.gz")
TINY = {
    "width": 16,
    "blocks": 2,
    "ffn_width": 12,
    "encoder_attention_heads": 2,
    "attention_share": 0.25,
    "dropout": 0.0,
}
TERMS = {"relative_positions": "shaw", "shaw_distance": 4}
MECHANISMS = {  # by the model: options by which its mechanism is on
    family.model("dc_transformer"): OPTIONS[name]
    for name, family in FAMILIES.items()
    if name in OPTIONS and not family.attention.has_branch
}
BASELINES = ("time_series_lstm", "time_series_gru", "time_series_resnet")


def describe(channels: int = CHANNELS, longest: int = LONGEST, labels=("a", "b", "c", "d")) -> SeriesDescription:
    return SeriesDescription((0.0,) * channels, (1.0,) * channels, True, longest, labels)


def build(arch: str, seed: int = 1, description: SeriesDescription | None = None, head: bool = True, **options):
    """A model of time series, in evaluation mode."""
    task = SimpleNamespace(description=description or describe())
    model = built(arch, task, seed, **options)
    if head:
        model.register_classification_head(HEAD, task.description.outputs)
    return model.eval()


def build_tiny(arch: str, **options):
    """A tiny model, its mechanism loud enough for a wrong number to show, its batch norms with statistics."""
    model = make_loud(build(arch, **{**TINY, **MECHANISMS.get(arch, {}), **options}))
    for name, buffer in model.named_buffers():
        if "running" in name:
            buffer.uniform_(0.5, 1.5)
    return model


def draw(seed: int, lengths=(LONGEST, 4, 6, 1)) -> tuple[Tensor, Tensor]:
    """Series (B, T, C) of some lengths, zero behind their end, and their padding (B, T)."""
    generator = torch.Generator().manual_seed(seed)
    source = torch.randn(len(lengths), max(lengths), CHANNELS, generator=generator)
    padding = torch.arange(max(lengths)) >= torch.tensor(lengths).unsqueeze(1)
    return source.masked_fill(padding.unsqueeze(-1), 0.0), padding


def represent(model, source: Tensor, padding: Tensor) -> Tensor:
    with torch.no_grad():
        return model(source, padding, features_only=True)[0]


def classes(model, source: Tensor, padding: Tensor) -> Tensor:
    with torch.no_grad():
        return model(source, padding, classification_head_name=HEAD)[0]


def ts_text(series: list[np.ndarray], targets: list, labels: tuple[str, ...] | None) -> str:
    """What a file has of series (T, C), NaN where a value is missing, and their classes or numbers to predict."""
    head = ["# made up", "@problemName drawn", f"@dimensions {series[0].shape[1]}"]
    head += ["@targetLabel true" if labels is None else f"@classLabel true {' '.join(labels)}", "@data"]
    for one, target in zip(series, targets, strict=True):
        values = (",".join("?" if np.isnan(value) else repr(float(value)) for value in channel) for channel in one.T)
        head.append(":".join([*values, str(target) if labels is None else labels[target]]))
    return "\n".join(head) + "\n"


def write_ts(path: Path, text: str) -> Path:
    """A file of series, packed if its name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def write_folder(folder: Path, sizes: dict[str, int], labels: tuple[str, ...] | None = ("low", "high")) -> Path:
    """A folder of series of unequal lengths, some values missing, whose first channel tells what is to be predicted."""
    random = np.random.default_rng(1)
    for split, size in sizes.items():
        targets = [index % 2 for index in range(size)]
        series = [random.standard_normal((random.integers(4, LONGEST + 1), CHANNELS)) for _ in targets]
        for one, target in zip(series, targets, strict=True):
            one[:, 0] += 3 * target
            one[random.random(one.shape) < 0.05] = np.nan
        numbers = targets if labels else [2.5 + target for target in targets]
        write_ts(folder / f"{split}.ts.gz", ts_text(series, numbers, labels))
    return folder
