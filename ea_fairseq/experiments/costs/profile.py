"""Prints the costs of a model, or compares the papers' models with the papers' figures."""

from argparse import Namespace

from ea_fairseq.plain.commands import Parser, at_least, quiet
from ea_fairseq.plain.flags import flag_of

LENGTH = 30  # of the papers' convention
VOCABULARY = 10_000
SPECIAL = 4  # symbols that every dictionary has
OF_TEXT = ("src_len", "tgt_len", "vocab", "tgt_vocab")  # options of models that read text
SIZES = {  # options of models that read other data, with their defaults
    "time series": {"channels": 3, "steps": 152, "classes": 26},
    "images": {"channels": 3, "image_size": 224, "classes": 1000},
}
DESCRIPTION = """\
Prints the parameters, multiply-accumulates (MACs) and FLOPs of a Transformer, an encoder, a classifier or a model of
time series or images by part, and for text models the memory of the backward pass. Everything is counted on the built
model. Accepts all flags of fairseq-train that describe a model."""


def parse_arguments(parser: Parser) -> tuple[Namespace, list[str]]:
    """Returns our own arguments, and the flags of fairseq-train."""
    add, length, words = parser.add_argument, at_least(1), at_least(SPECIAL)
    add("--arch", metavar="NAME", help="architecture, such as ea_transformer_lite or ea_bert_base")
    add("--all", action="store_true", help="compare the papers' models with the papers' figures")
    add("--src-len", type=length, metavar="N", help=f"source tokens (default: {LENGTH})")
    add("--tgt-len", type=length, metavar="N", help=f"target tokens (default: {LENGTH})")
    text = f"types in a dictionary, {SPECIAL} symbols included (default: {VOCABULARY})"
    add("--vocab", type=words, metavar="N", help=text)
    add("--tgt-vocab", type=words, metavar="N", help="types in the target dictionary (default: those of --vocab)")
    add("--channels", type=length, metavar="N", help="of time series or images (default: 3)")
    add("--steps", type=length, metavar="N", help="of the longest time series (default: 152)")
    add("--image-size", type=length, metavar="N", help="pixels on each side of images (default: 224)")
    text = "of time series, where 0 is a regression (default: 26), or of images (default: 1000)"
    add("--classes", type=at_least(0), metavar="N", help=text)
    parser.add_user_dir()
    args, flags = parser.parse_known_args()
    if args.all and (flags or any(value for name, value in vars(args).items() if name != "all")):
        parser.error("--all takes no other options: it has the papers' models and lengths")
    if not args.all and not args.arch:
        parser.error("give an architecture with --arch, or --all")
    return args, flags


def main() -> None:
    """Prints the costs of one model, or of the papers' models."""
    parser = Parser(
        "profile",
        DESCRIPTION,
        "ea-fairseq profile --arch ea_transformer_lite --share-all-embeddings --vocab 8848",
        usage="%(prog)s --arch NAME [flags of fairseq-train] [options] | %(prog)s --all",
    )
    args, flags = parse_arguments(parser)
    quiet()
    from ea_fairseq.experiments.costs.built_model import is_encoder, read_by
    from ea_fairseq.experiments.costs.profiled_model import example, print_papers_models, sentence, translation

    if args.all:
        print_papers_models(parser)
        return
    data = read_by(args.arch)
    known = {*OF_TEXT}.union(*SIZES.values())
    for name in sorted(known - {*SIZES.get(data, OF_TEXT)}):
        if getattr(args, name) is not None:
            parser.error(f"{flag_of(name)}: {args.arch} reads {data}")
    if data == "images" and args.classes == 0:
        parser.error("--classes: models of images have one class or more")
    profile = example if data in SIZES else sentence if is_encoder(args.arch) else translation
    print("\n\n".join(profile(args, flags, parser)))
