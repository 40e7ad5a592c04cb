"""The command line of ``ea-fairseq representations``."""

import argparse
from pathlib import Path

from ea_fairseq.plain.commands import PROGRAM, Parser, at_least

MAX_SEED = 2**32 - 1  # of NumPy
EXAMPLE = f"{PROGRAM} representations runs/cora/gat/seed-1 runs/cora/ea_gat/seed-1 data/cora/data-bin --out runs/tsne"


def parse_arguments() -> argparse.Namespace:
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
