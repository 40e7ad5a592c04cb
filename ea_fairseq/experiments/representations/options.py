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
        "Measures and draws what trained models make of examples before their last layer. AvgWCD is the mean distance\n"
        "of a representation to the centre of its class; normalised, it is divided by the mean distance to the centre\n"
        "of all. The figure has a panel for each model, in which t-SNE shows the representations in two dimensions.\n"
        "For models that classify sentences, time series, images or nodes of a graph.",
        EXAMPLE,
        usage="%(prog)s MODEL [MODEL ...] DATA_BIN --out DIR [options]",
    )
    add = parser.add_argument
    text = "the folder of a training, or a checkpoint in it; several models are shown next to each other"
    add("models", type=Path, nargs="+", metavar="MODEL", help=text)
    add("data", type=Path, metavar="DATA_BIN", help="the folder of the data that they were trained on")
    add("--out", type=Path, metavar="DIR", required=True, help="for representations.json, .png and .svg")
    add("--subset", default="test", metavar="NAME", help="train, valid or test (default: test)")
    text = "draw at most N of its examples (default: 2000)"
    add("--points", type=at_least(2), default=2000, metavar="N", help=text)
    add("--perplexity", type=at_least(1, float), default=30.0, metavar="F", help="of t-SNE (default: 30)")
    add("--seed", type=at_least(0), default=1, metavar="N", help="of t-SNE and of the drawn examples (default: 1)")
    parser.add_user_dir()
    add("--cpu", action="store_true", help="use the CPU even if there is a GPU")
    args = parser.parse_args()
    if args.seed > MAX_SEED:
        parser.error(f"--seed needs a whole number of at most {MAX_SEED}, not {args.seed}")
    return args
