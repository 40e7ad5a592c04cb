"""Prints what a model costs, or how the papers' models compare with the papers."""

import logging
from argparse import Namespace
from textwrap import fill
from typing import TYPE_CHECKING

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.reports.papers import PAPER, paper_flags
from ea_fairseq.experiments.tables import short, text_table
from ea_fairseq.plain.commands import Parser, at_least

if TYPE_CHECKING:
    from ea_fairseq.experiments.costs.profiled_model import ProfiledModel

LENGTH = 30  # of the papers' convention
VOCABULARY = 10_000
SPECIAL = 4  # symbols that every dictionary has
TOLERANCE = 1.0  # per cent of FLOPs
WIDTH = 100
OF_SERIES = {  # options with the least value, the default and what they are
    "channels": (1, 3, "their channels"),
    "steps": (1, 152, "those of the longest"),
    "classes": (0, 26, "of the classifier, 0 for regression"),
}
UNITS = {"M": 1e6, "G": 1e9}
MEMORY = (
    "In training, autograd saves for the backward pass, in addition to parameters, on this machine's CPU (with "
    "EA_BACKEND=reference: in plain PyTorch):"
)
DESCRIPTION = """\
Prints the parameters, multiply-accumulates (MACs) and FLOPs of a Transformer, an encoder, a classifier or a model of
time series by part, and for text models the memory of the backward pass. Everything is counted on the built model.
Takes all flags of fairseq-train that describe a model."""
EXPLANATION = (
    "MACs are of one forward pass for {read}, as torchprofile counts: matrix products, convolutions (zero padding "
    "included), layer norms (one for an element) and element-wise products (scaling, masks, means) count; sums, "
    "softmax, ReLU and the mixing of the skip connection do not. FLOPs are 2 x MACs. Tied parameters count once. "
    "{dictionary} {words} types."
)
OF_LONGEST = (
    "MACs are of one forward pass for a series of {steps} steps and {channels} channels, as torchprofile counts. "
    "FLOPs are 2 x MACs."
)
PAIR, SENTENCE = "a pair of {source} source and {target} target tokens", "a sentence of {source} tokens"
CONVENTION = (
    "In the papers' convention (HAT, ACL 2020), parameters without embeddings and output projection, FLOPs without "
    "output projection: {parameters:,} parameters, {flops} FLOPs. The papers' are of {length} and {length} tokens."
)
NOTE = (
    "Parameters without embeddings and output projection; FLOPs are 2 x MACs without output projection, for {length} "
    "source and {length} target tokens (HAT, ACL 2020). Differences are of figures rounded as the paper prints them "
    "(Wang et al. 2021, table 5; table 6, the ablation, has none). All is counted on the built models, MACs by "
    "torchprofile."
)


def parse_arguments(parser: Parser) -> tuple[Namespace, list[str]]:
    """Our arguments, and those of fairseq-train."""
    add, length, words = parser.add_argument, at_least(1), at_least(SPECIAL)
    add("--arch", metavar="NAME", help="architecture, such as ea_transformer_lite or ea_bert_base")
    add("--all", action="store_true", help="compare the papers' models with the papers' figures")
    add("--src-len", type=length, metavar="N", help=f"source tokens (default: {LENGTH})")
    add("--tgt-len", type=length, metavar="N", help=f"target tokens (default: {LENGTH})")
    text = f"types in a dictionary, {SPECIAL} symbols included (default: {VOCABULARY})"
    add("--vocab", type=words, metavar="N", help=text)
    add("--tgt-vocab", type=words, metavar="N", help="types in the target dictionary (default: those of --vocab)")
    for name, (least, default, what) in OF_SERIES.items():
        text = f"of time series: {what} (default: {default})"
        add(f"--{name}", type=at_least(least), metavar="N", help=text)
    parser.add_user_dir()
    args, flags = parser.parse_known_args()
    if args.all and (flags or any(value for name, value in vars(args).items() if name != "all")):
        parser.error("--all stands alone: it has the papers' models and lengths")
    if not args.all and not args.arch:
        parser.error("give an architecture with --arch, or --all")
    return args, flags


def print_profile(args: Namespace, flags: list[str], parser: Parser) -> None:
    """Prints everything about one model."""
    from ea_fairseq.experiments.costs.profiled_model import Side, profiled

    words = args.vocab or VOCABULARY
    source, target = Side(words, args.src_len or LENGTH), Side(args.tgt_vocab or words, args.tgt_len or LENGTH)
    model = profiled(["--arch", args.arch, *flags], source, target, parser)
    parameters, flops = model.as_published
    types = " and ".join(f"{words:,}" for words in dict.fromkeys((source.vocabulary, target.vocabulary)))
    read = PAIR.format(source=source.length, target=target.length)
    print_blocks(
        model,
        EXPLANATION.format(read=read, dictionary="The dictionaries have", words=types),
        paragraph(CONVENTION.format(length=LENGTH, parameters=parameters, flops=short(flops))),
    )


def print_encoder(args: Namespace, flags: list[str], parser: Parser) -> None:
    """Prints everything about one model that is an encoder alone."""
    from ea_fairseq.experiments.costs import profile_tables as tables
    from ea_fairseq.experiments.costs.profiled_model import Side, profiled_encoder

    for name in ("tgt_len", "tgt_vocab"):
        if getattr(args, name):
            parser.error(f"--{name.replace('_', '-')}: {args.arch} has no target side")
    sentence = Side(args.vocab or VOCABULARY, args.src_len or LENGTH)
    model = profiled_encoder(["--arch", args.arch, *flags], sentence, parser)
    read = SENTENCE.format(source=sentence.length)
    print_blocks(
        model,
        EXPLANATION.format(read=read, dictionary="The dictionary has", words=f"{sentence.vocabulary:,}"),
        tables.published(model) + "\n\n" + paragraph(tables.layout(model)),
    )


def print_series(args: Namespace, flags: list[str], parser: Parser) -> None:
    """Prints everything about one model of time series."""
    from ea_fairseq.experiments.costs.profiled_model import profiled_series

    given = {name: getattr(args, name) for name in OF_SERIES}
    sizes = {name: OF_SERIES[name][1] if value is None else value for name, value in given.items()}
    print_blocks(
        profiled_series(["--arch", args.arch, *flags], **sizes, parser=parser), OF_LONGEST.format_map(sizes), ""
    )


def print_blocks(model: "ProfiledModel", explanation: str, convention: str) -> None:
    """Prints the tables of a model, what they count, and ``convention``, its costs as papers count them."""
    from ea_fairseq.experiments.costs import profile_tables as tables

    blocks = [
        tables.by_part(model),
        paragraph(explanation),
        *([tables.totals(model), convention] if convention else []),
        *([paragraph(MEMORY), tables.memory(model)] if model.kept else []),
    ]
    print("\n\n".join(blocks))


def print_papers_models(parser: Parser) -> None:
    """Prints the papers' models beside what the papers print of them.

    Raises:
        UserError: where parameters, rounded as in the papers, are not the papers', or FLOPs are not within 1%.
    """
    from ea_fairseq.experiments.costs.profiled_model import Side, profiled

    side = Side(VOCABULARY, LENGTH)
    rows = [["", "parameters", "rounded", "paper", "difference", "FLOPs", "paper", "difference"]]
    wrong = []
    for label, flags in paper_flags().items():
        model = profiled(flags, side, side, parser)
        paper, (parameters, flops) = PAPER[label], model.as_published
        apart = [difference(short(parameters), paper.parameters), difference(short(flops), paper.flops)]
        if apart[0] or abs(apart[1] or 0) > TOLERANCE:
            wrong.append(label)
        signed = ["" if per_cent is None else f"{per_cent:+.2f}%" for per_cent in apart]
        ours = [f"{parameters:,}", short(parameters), paper.parameters, signed[0], short(flops), paper.flops, signed[1]]
        rows.append([label, *ours])
    print(text_table(rows), paragraph(NOTE.format(length=LENGTH)), sep="\n\n")
    if wrong:
        raise UserError(f"the costs of {', '.join(wrong)} are not the papers': the code of the models has changed.")


def difference(ours: str, paper: str) -> float | None:
    """How much more ours is in per cent, None where the paper has no figure."""
    if not paper:
        return None
    numbers = (float(text[:-1]) * UNITS[text[-1]] for text in (ours, paper))
    return 100 * (next(numbers) / next(numbers) - 1)


def paragraph(text: str) -> str:
    """Text in lines of at most WIDTH characters."""
    return fill(text, WIDTH)


def main() -> None:
    parser = Parser(
        "profile",
        DESCRIPTION,
        "ea-fairseq profile --arch ea_transformer_lite --share-all-embeddings --vocab 8848",
        usage="%(prog)s --arch NAME [flags of fairseq-train] [options] | %(prog)s --all",
    )
    args, flags = parse_arguments(parser)
    logging.disable(logging.INFO)
    if args.all:
        print_papers_models(parser)
        return
    from ea_fairseq.experiments.costs.built_model import is_encoder, is_of_series

    of_series, of_text = is_of_series(args.arch), {"src_len", "tgt_len", "vocab", "tgt_vocab"}
    for name in of_text if of_series else OF_SERIES:
        if getattr(args, name) is not None:
            kind = "time series" if of_series else "text"
            parser.error(f"--{name.replace('_', '-')}: {args.arch} reads {kind}")
    if of_series:
        print_series(args, flags, parser)
    else:
        (print_encoder if is_encoder(args.arch) else print_profile)(args, flags, parser)
