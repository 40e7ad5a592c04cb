"""``ea-fairseq map-quality``: how much the attention maps of an image say about its class (EA section 5.1)."""

import argparse
import json
import statistics
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.environment import commit, versions
from ea_fairseq.experiments.tables import text_table
from ea_fairseq.plain.commands import PROGRAM, Parser, at_least, quiet
from ea_fairseq.plain.files import write_whole
from ea_fairseq.plain.output_folder import OutputFolder

if TYPE_CHECKING:
    from torch import Tensor

    from ea_fairseq.hub.image import EAImage
    from ea_fairseq.images.archive import ImageSet

STEM = "map-quality"
SEED = 1  # by which images are drawn
BATCH = 256  # images whose maps are computed at once


def main() -> None:
    """Measures what the command line asks for."""
    args = parse_arguments()
    quiet()
    from ea_fairseq.data.manifest import sha256
    from ea_fairseq.experiments.maps.map_reader import read_maps
    from ea_fairseq.experiments.runs.trained_model import find_trained, on_device
    from ea_fairseq.hub.image import EAImage
    from ea_fairseq.images.folder import ImageFolder

    files = find_trained(args.model, args.data)
    with OutputFolder(args.out, STEM).opened() as out:
        with redirect_stdout(sys.stderr):
            hub = EAImage.from_pretrained(files.folder, files.names)
        on_device(hub.model, args.cpu)
        folder = ImageFolder(args.data)
        sets = {"train": folder.read("train"), "test": folder.read("test")}
        maps = {split: maps_of(hub, images, args.limit) for split, images in sets.items()}
        out.say(f"maps of {len(maps['train'][1]):,} images to train readers on, {len(maps['test'][1]):,} to test them")
        found, classes = dict[str, list[float]](), len(hub.description.labels)
        for name in maps["train"][0]:
            train, test = ((of_names[name], targets) for of_names, targets in maps.values())
            found[name] = [read_maps(train, test, classes, args.epochs, seed) for seed in range(1, 1 + args.seeds)]
            out.say(f"{name}: {described(found[name])}")
        counts = maps["test"][1].bincount()
        majority = 100 * counts.max().item() / counts.sum().item()
        facts = {
            "checkpoint": {"path": str(files.path), "sha256": sha256(files.path)},
            "data": str(args.data),
            "settings": {name: getattr(args, name) for name in ("epochs", "seeds", "limit")},
            "accuracy": found,
            "most frequent class": majority,
            "versions": versions(),
            "commit": commit(),
        }
        write_whole(out.path / f"{STEM}.json", json.dumps(facts, indent=2) + "\n")
        rows = [["maps of", "accuracy"], *([name, described(scores)] for name, scores in found.items())]
        print(f"\n{text_table([*rows, ['the most frequent class', f'{majority:.2f}']])}\n")
        out.say(f"written to {out.path}: {STEM}.json")


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = Parser(
        STEM,
        "For each attention of a model of images, trains a small network that reads the attention map of one query\n"
        "and predicts the class of the image. The query is the class token or, without one, the pixel in the middle.\n"
        "The higher the accuracy on the test set, the more the maps say about the image.",
        f"{PROGRAM} {STEM} runs/digits/ea_vit/seed-1 data/digits/data-bin --out runs/quality",
        usage="%(prog)s MODEL DATA_BIN --out DIR [options]",
    )
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help="the folder of a training, or a checkpoint in it")
    add("data", type=Path, metavar="DATA_BIN", help="the folder of the data that it was trained on")
    add("--out", type=Path, metavar="DIR", required=True, help=f"for {STEM}.json")
    add("--epochs", type=at_least(1), default=30, metavar="N", help="training epochs of a reader (default: 30)")
    add("--seeds", type=at_least(1), default=5, metavar="N", help="train readers with seeds 1 to N (default: 5)")
    add(
        "--limit", type=at_least(1), metavar="N", help="read N images of each set, drawn by a fixed seed (default: all)"
    )
    parser.add_user_dir()
    parser.add_cpu()
    return parser.parse_args()


def described(scores: list[float]) -> str:
    """Formats the mean and standard deviation of accuracies."""
    mean = f"{statistics.mean(scores):.2f}"
    return mean if len(scores) == 1 else f"{mean} ± {statistics.stdev(scores):.2f}"


def maps_of(hub: "EAImage", images: "ImageSet", limit: int | None) -> "tuple[dict[str, Tensor], Tensor]":
    """Returns the maps of one query, (N, K, R, C) by the attention's name, and classes (N,), as the model numbers them.

    Raises:
        UserError: if the model has no attention, or the images have a class that it does not know.
    """
    import torch

    from ea_fairseq.attention.recording import recording
    from ea_fairseq.experiments.sample import drawn

    known = hub.description.labels
    if unknown := [label for label in images.labels if label not in known]:
        raise UserError(
            f"{images.path} has the class '{unknown[0]}', which the model does not know: give the data that it was "
            "trained on."
        )
    labels = [known.index(label) for label in images.labels]
    chosen = drawn(len(images.targets), limit, SEED)
    targets = torch.tensor(labels)[torch.from_numpy(images.targets[chosen])]
    parts: dict[str, list[Tensor]] = {}
    for start in range(0, len(targets), BATCH):
        pixels = list(map(hub.read, images.images[chosen[start : start + BATCH]]))
        with torch.no_grad(), recording(hub.model) as records:
            hub.outputs(pixels)
        for name, record in records.items():
            assert record["probabilities"] is not None  # every attention records them
            grid, probabilities = hub.model.get_submodule(name).grid, record["probabilities"]
            query = 0 if grid.leading else grid.rows // 2 * grid.columns + grid.columns // 2
            row = probabilities.expand(len(pixels), -1, -1, -1)[:, :, query, grid.leading :]
            parts.setdefault(name, []).append(row.unflatten(2, (grid.rows, grid.columns)).float().cpu())
    return {name: torch.cat(part) for name, part in parts.items()}, targets
