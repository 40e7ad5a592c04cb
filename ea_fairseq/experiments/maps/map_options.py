"""The command line of attention_maps.py."""

import argparse
from pathlib import Path

from ea_fairseq.plain.commands import Parser, at_least, some_of
from ea_fairseq.plain.flags import flag_of

ATTENTIONS = ("encoder", "decoder", "cross")
STAGES = ("own", "input", "logits", "probabilities")
COMPARED = ("logits", "probabilities")
# For each option, the options of which it needs at least one.
NEEDED: dict[str, tuple[str, ...]] = dict.fromkeys(("target", "second", "tag", "attention"), ("source",))
NEEDED |= dict.fromkeys(("heads", "stages"), ("source", "series"))
NEEDED |= dict.fromkeys(("alignment", "max_pairs"), ("statistics",))
NEEDED["subset"] = ("statistics", "series", "image")
NEEDED["html"] = ("source", "series", "image")
EXAMPLE = """ea-fairseq maps runs/multi30k-deen/ea_transformer_lite/seed-1 \\
    --source 'ein hund läuft über die wiese.' --compare runs/multi30k-deen/transformer_lite/seed-1"""


def heads(text: str) -> list[str]:
    """Parses a list such as ``1,3,mean``."""
    chosen = list(dict.fromkeys(text.split(",")))
    for head in chosen:
        if head != "mean" and not (head.isascii() and head.isdecimal() and int(head) > 0):
            raise argparse.ArgumentTypeError(f"needs numbers from 1, or 'mean', not '{head}'")
    return chosen


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = Parser(
        "maps",
        "Draws the attention maps of a trained model while it reads a sentence and its translation: all layers in\n"
        "a row, before and after skip connection and convolution. Or it measures, over all pairs of a test set, the\n"
        "entropy of attention, the similarity of adjacent layers and the alignment error of the cross-attention.\n"
        "Works for evolving attention, fairseq's plain Transformer, encoders and classifiers (of a sentence or pair)\n"
        "and models of time series; of models of images it writes a page. For quadratic attention it can draw the\n"
        "centres of the heads during training.",
        EXAMPLE,
        usage="%(prog)s CHECKPOINT (--source TEXT | --series N | --image IMAGE | --statistics | --centres) [options]",
    )
    add = parser.add_argument
    add("checkpoint", type=Path, metavar="CHECKPOINT", help="a checkpoint, or the folder of a training")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--source", metavar="TEXT", help="draw the maps of this raw sentence")
    what.add_argument("--series", type=at_least(1), metavar="N", help="draw the maps of the Nth time series")
    text = "write the page of an image: a JPEG or PNG file, or the number of an image in the subset"
    what.add_argument("--image", metavar="IMAGE", help=text)
    what.add_argument("--statistics", action="store_true", help="measure the maps of a whole test set")
    text = "draw centres and widths of quadratic attention for all checkpoints of a folder"
    what.add_argument("--centres", action="store_true", help=text)
    add("--compare", type=Path, metavar="CHECKPOINT", help="show another model next to it")
    add("--data", type=Path, metavar="DIR", help="folder of the binarised data (default: the model's)")
    text = "output folder (default: attention_maps next to the checkpoint; for a model in checkpoints/: runs/MODEL)"
    add("--out", type=Path, metavar="DIR", help=text)
    parser.add_user_dir()
    parser.add_cpu()
    add = parser.add_argument_group(
        "with --source; also --html with --series and --image, --heads and --stages with --series"
    ).add_argument
    add("--target", metavar="TEXT", help="raw translation (default: the model's own, beam 5)")
    add("--tag", metavar="NAME", help="tag of the sentence, such as a domain, if the model was trained with tags")
    add("--second", metavar="TEXT", help="the second raw sentence of a pair, for an encoder")
    text = "write an interactive page of all layers, heads and stages, and a .csv of its values, instead of figures"
    add("--html", type=Path, metavar="FILE", help=text)
    text = f"of {', '.join(ATTENTIONS)} (default: all)"
    add("--attention", type=some_of(ATTENTIONS), metavar="LIST", help=text)
    add("--heads", type=heads, metavar="LIST", help="numbers from 1, or mean (default: all and mean)")
    text = f"of {', '.join(STAGES)} (default: all; with --compare {', '.join(COMPARED)})"
    add("--stages", type=some_of(STAGES), metavar="LIST", help=text)
    add = parser.add_argument_group("with --statistics; also --subset with --series and --image N").add_argument
    add("--subset", help="subset of the data (default: test)")
    text = "the subset's word alignment, one pair per line: 0-0 for a sure and 1?2 for a possible link of "
    add("--alignment", type=Path, metavar="FILE", help=f"{text}source and target word (tokenized, counted from 0)")
    add("--max-pairs", type=at_least(1), metavar="N", help="measure only the first N pairs")
    args = parser.parse_args()
    for option, needed in NEEDED.items():
        if getattr(args, option) is not None and not any(getattr(args, other) for other in needed):
            parser.error(f"{flag_of(option)} goes with --{' or --'.join(needed)}")
    if args.html is not None and any((args.attention, args.heads, args.stages, args.out)):
        parser.error("--html: the page shows everything: leave out --attention, --heads, --stages and --out")
    if args.image is not None and args.html is None:
        parser.error("--image: name the page with --html FILE; there are no figures of images")
    if args.image is not None and not args.image.isdecimal() and (args.subset or args.data):
        parser.error("--image: --subset and --data are for the number of an image, not for a file")
    if args.centres and args.compare is not None:
        parser.error("--compare goes with --source, --series, --image or --statistics")
    return args
