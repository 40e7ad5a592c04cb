"""``ea-fairseq representations``: how compact classes are in the inputs of models' last layers, with t-SNE plots."""

import json
import sys
from argparse import Namespace
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ea_fairseq.errors import UserError, printable
from ea_fairseq.experiments.environment import commit, require_matplotlib, versions
from ea_fairseq.experiments.representations.clusters import Compactness, tsne
from ea_fairseq.experiments.sample import drawn
from ea_fairseq.experiments.tables import text_table
from ea_fairseq.installation import installed_version
from ea_fairseq.plain.commands import PROGRAM, Parser, at_least, quiet
from ea_fairseq.plain.files import write_whole
from ea_fairseq.plain.output_folder import OutputFolder

if TYPE_CHECKING:
    from ea_fairseq.experiments.representations.examples import Examples

STEM = "representations"
MAX_SEED = 2**32 - 1  # of NumPy
EXAMPLE = f"{PROGRAM} representations runs/cora/gat/seed-1 runs/cora/ea_gat/seed-1 data/cora/data-bin --out runs/tsne"


@dataclass(frozen=True)
class Represented:
    """How compact the classes are in a model's representations.

    Args:
        sha256: of the checkpoint.
        points: N, the number of examples.
        channels: D of a representation.
        after_tsne: the same measures after t-SNE, in two dimensions.
    """

    checkpoint: str
    sha256: str
    points: int
    channels: int
    representations: Compactness
    after_tsne: Compactness


def main() -> None:
    """Measures and draws what the command line asks for."""
    args = parse_arguments()
    require_matplotlib()
    quiet()
    from ea_fairseq.experiments.representations.examples import read_examples
    from ea_fairseq.experiments.representations.figure import draw
    from ea_fairseq.experiments.runs.data_bin import read_data
    from ea_fairseq.experiments.runs.training_run import model_names

    dataset = read_data(args.data).dataset(args.subset)
    with OutputFolder(args.out, STEM).opened() as out:
        with redirect_stdout(sys.stderr):
            read = [read_examples(path, args.data, args.subset, args.cpu) for path in args.models]
        models = dict(zip(model_names(args.models, [one.arch for one in read]), read, strict=True))
        classes, found, panels = read[0].classes, {}, []
        chosen = drawn(len(classes), args.points, args.seed)
        for name, examples in models.items():
            out.say(f"{printable(name)}: {len(chosen)} of {len(classes)} examples of {args.subset}, seed {args.seed}")
            found[name], plane = represented(name, examples, chosen, args)
            shown = found[name].representations
            note = f"AvgWCD {shown.average_distance:.3f}, normalised {shown.normalised:.3f}"
            panels.append((name, note, plane))
        facts = {
            "data": str(args.data),
            "checksum": dataset.checksum,
            "drawn from": len(classes),
            "settings": {name: getattr(args, name) for name in ("subset", "points", "perplexity", "seed")},
            "models": {name: asdict(one) for name, one in found.items()},
            "versions": versions() | {"scikit-learn": installed_version("scikit-learn")},
            "commit": commit(),
        }
        write_whole(out.path / f"{STEM}.json", json.dumps(facts, indent=2) + "\n")
        written = draw(panels, classes[chosen], read[0].names, out.path / STEM)
        print(f"\n{table(found)}\n")
        out.say(f"written to {out.path}: {STEM}.json, {', '.join(path.name for path in written)}")


def parse_arguments() -> Namespace:
    """The command line."""
    parser = Parser(
        "representations",
        "Measures and draws trained models' representations of examples before the last layer. AvgWCD is the mean\n"
        "distance of a representation to the centre of its class; normalised, it is divided by the mean distance to\n"
        "the centre of all. The figure has a panel for each model with representations in two dimensions by t-SNE.\n"
        "For models that classify sentences, time series, images or nodes of a graph.",
        EXAMPLE,
        usage="%(prog)s MODEL [MODEL ...] DATA_BIN --out DIR [options]",
    )
    add = parser.add_argument
    text = "the folder of a training, or a checkpoint in it; several models are shown next to each other"
    add("models", type=Path, nargs="+", metavar="MODEL", help=text)
    add("data", type=Path, metavar="DATA_BIN", help="the folder of the data that they were trained on")
    add("--out", type=Path, metavar="DIR", required=True, help="folder for representations.json, .png and .svg")
    add("--subset", default="test", metavar="NAME", help="train, valid or test (default: test)")
    text = "sample at most N examples of the subset (default: 2000)"
    add("--points", type=at_least(2), default=2000, metavar="N", help=text)
    add("--perplexity", type=at_least(1, float), default=30.0, metavar="F", help="perplexity of t-SNE (default: 30)")
    add("--seed", type=at_least(0), default=1, metavar="N", help="seed of t-SNE and sampling (default: 1)")
    parser.add_user_dir()
    parser.add_cpu()
    args = parser.parse_args()
    if args.seed > MAX_SEED:
        parser.error(f"--seed needs a whole number of at most {MAX_SEED}, not {args.seed}")
    return args


def represented(name: str, examples: "Examples", chosen: np.ndarray, args: Namespace) -> tuple[Represented, np.ndarray]:
    """Measures the chosen examples, and projects them to two dimensions, (N, 2).

    Raises:
        UserError: naming the model, if t-SNE is impossible.
    """
    from ea_fairseq.data.manifest import sha256

    points, classes = examples.represent(chosen.tolist()).float().numpy(), examples.classes[chosen]
    try:
        plane = tsne(points, args.perplexity, args.seed)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    number, channels = points.shape
    before, after = Compactness.of(points, classes), Compactness.of(plane, classes)
    return Represented(str(examples.checkpoint), sha256(examples.checkpoint), number, channels, before, after), plane


def table(found: dict[str, Represented]) -> str:
    """Formats a table with a row for each model."""
    rows = [["model", "points", "channels", "AvgWCD", "normalised", "after t-SNE", "normalised"]]
    for name, one in found.items():
        measures = (*asdict(one.representations).values(), *asdict(one.after_tsne).values())
        rows.append([printable(name), str(one.points), str(one.channels), *(f"{value:.3f}" for value in measures)])
    return text_table(rows)
