"""The costs of models, given as flags of fairseq-train, as blocks of text; everything is counted on built models."""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import fill

import torch
from torch import Tensor, nn

from ea_fairseq.analysis.cost import (
    Pass,
    cost,
    count_encoder_macs,
    count_image_macs,
    count_macs,
    count_series_macs,
    encoder_layout,
    encoder_parameters,
    pair,
    published_cost,
    saved_for_backward,
)
from ea_fairseq.analysis.parts import EMBEDDINGS, LAST, LM_HEAD, OUTPUT, Count, Part, parts, total
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.costs.built_model import (
    HEAD,
    build,
    parse,
    read_by,
    task_of_images,
    task_of_series,
    task_of_text,
)
from ea_fairseq.experiments.costs.profile import LENGTH, SIZES, VOCABULARY
from ea_fairseq.experiments.reports.papers import PAPER, paper_flags
from ea_fairseq.experiments.tables import short, text_table
from ea_fairseq.plain.commands import Parser
from ea_fairseq.plain.flags import flag_of

WIDTH = 100
TOLERANCE = 1.0  # per cent of FLOPs
UNITS = {"M": 1e6, "G": 1e9}
TOTALS = {
    "all": (),
    "without embeddings": (EMBEDDINGS,),
    "without output projection": (OUTPUT,),
    "without embeddings and output projection": (EMBEDDINGS, OUTPUT),
}
ENCODER_TOTALS = {"all": (), "without embeddings": (EMBEDDINGS,), "without language model's head": (LM_HEAD,)}
MEMORY = (
    "In training, autograd saves for the backward pass, in addition to parameters, on this machine's CPU (with "
    "EA_BACKEND=reference: in plain PyTorch):"
)
EXPLANATION = (
    "MACs are of one forward pass for {read}, as torchprofile counts: matrix products, convolutions (zero padding "
    "included), layer norms (one per element) and element-wise products (scaling, masks, means) count; sums, "
    "softmax, ReLU and the mixing of the skip connection do not. FLOPs are 2 x MACs. Tied parameters count once. "
    "{dictionary} {types} types."
)
COUNTED = {
    "time series": "a series of {steps} steps and {channels} channels",
    "images": "an image of {image_size} x {image_size} pixels and {channels} channels",
}
CONVENTION = (
    "In the papers' convention (HAT, ACL 2020), parameters without embeddings and output projection, FLOPs without "
    "output projection: {parameters:,} parameters, {flops} FLOPs. The papers' are of {length} and {length} tokens."
)
NOTE = (
    f"Parameters without embeddings and output projection; FLOPs are 2 x MACs without output projection, for {LENGTH} "
    "source and target tokens (HAT, ACL 2020). Differences are between figures rounded as in the paper "
    "(Wang et al. 2021, table 5; table 6, the ablation, has none). All is counted on the built models, MACs by "
    "torchprofile."
)


def translation(args: Namespace, flags: list[str], parser: Parser) -> list[str]:
    """The costs of a translation model for one pair of sentences, also in the papers' convention."""
    source_types, source_length = args.vocab or VOCABULARY, args.src_len or LENGTH
    target_types, target_length = args.tgt_vocab or source_types, args.tgt_len or LENGTH
    with building():
        model = build(parse(["--arch", args.arch, *flags], parser), task_of_text(source_types, target_types))
        source_limit, target_limit = model.max_positions()
        require_length("--src-len", source_length, source_limit, "--max-source-positions")
        require_length("--tgt-len", target_length, target_limit, "--max-target-positions")
        found = parts(model, count_macs(model, source_length, target_length))
        memory = memory_blocks(model, *pair(model, source_length, target_length))
    published = published_cost(found)
    types = " and ".join(f"{number:,}" for number in dict.fromkeys((source_types, target_types)))
    read = f"a pair of {source_length} source and {target_length} target tokens"
    return [
        table_by_part(found),
        paragraph(EXPLANATION.format(read=read, dictionary="The dictionaries have", types=types)),
        table_of_totals(found, TOTALS),
        paragraph(CONVENTION.format(length=LENGTH, parameters=published.parameters, flops=short(published.flops))),
        *memory,
    ]


def sentence(args: Namespace, flags: list[str], parser: Parser) -> list[str]:
    """The costs of an encoder with a classification head for one sentence, also in the papers' convention."""
    for name in ("tgt_len", "tgt_vocab"):
        if getattr(args, name):
            parser.error(f"{flag_of(name)}: {args.arch} has no target side")
    types, length = args.vocab or VOCABULARY, args.src_len or LENGTH
    with building():
        options = parse(["--arch", args.arch, *flags], parser)
        model = build(options, task_of_text(types), max(2, getattr(options, "num_classes", 2)))
        require_length("--src-len", length, model.max_positions(), "--max-positions")
        found = parts(model, count_encoder_macs(model, length))
        published, layout = encoder_parameters(model), encoder_layout(model)
        tokens = torch.full((1, length), model.encoder.dictionary.unk())
        memory = memory_blocks(Pass(model, features_only=True, classification_head_name=HEAD), tokens)
    flops = short(2 * total(found, without=(LM_HEAD, LAST)).macs)
    rows = [[what, f"{parameters:,}", flops] for what, parameters in published.items()]
    read = f"a sentence of {length} tokens"
    return [
        table_by_part(found),
        paragraph(EXPLANATION.format(read=read, dictionary="The dictionary has", types=f"{types:,}")),
        table_of_totals(found, ENCODER_TOTALS),
        text_table([["as published", "parameters", "FLOPs"], *rows]),
        paragraph(note_on_layout(found, layout)),
        *memory,
    ]


def example(args: Namespace, flags: list[str], parser: Parser) -> list[str]:
    """The costs of a model of time series for one series of maximum length, or of a model of images for one image."""
    data = read_by(args.arch)
    given = {name: getattr(args, name) for name in SIZES[data]}
    sizes = {name: default if given[name] is None else given[name] for name, default in SIZES[data].items()}
    of_series = data == "time series"
    with building():
        task = (task_of_series if of_series else task_of_images)(**sizes)
        model = build(parse(["--arch", args.arch, *flags], parser), task, max(1, sizes["classes"]))
        found = parts(model, count_series_macs(model) if of_series else count_image_macs(model))
    read = COUNTED[data].format_map(sizes)
    note = f"MACs are of one forward pass for {read}, as torchprofile counts. FLOPs are 2 x MACs."
    return [table_by_part(found), paragraph(note)]


def print_papers_models(parser: Parser) -> None:
    """Prints the costs of the papers' models next to the papers' figures.

    Raises:
        UserError: if rounded parameters differ from the papers', or FLOPs by more than 1%.
    """
    rows = [["", "parameters", "rounded", "paper", "difference", "FLOPs", "paper", "difference"]]
    wrong = []
    for label, flags in paper_flags().items():
        with building():
            ours = cost(build(parse(flags, parser), task_of_text(VOCABULARY)), LENGTH)
        paper, parameters, flops = PAPER[label], short(ours.parameters), short(ours.flops)
        apart = [difference(parameters, paper.parameters), difference(flops, paper.flops)]
        if apart[0] or abs(apart[1] or 0) > TOLERANCE:
            wrong.append(label)
        signed = ["" if per_cent is None else f"{per_cent:+.2f}%" for per_cent in apart]
        figures = [parameters, paper.parameters, signed[0], flops, paper.flops, signed[1]]
        rows.append([label, f"{ours.parameters:,}", *figures])
    print(text_table(rows), paragraph(NOTE), sep="\n\n")
    if wrong:
        raise UserError(f"the costs of {', '.join(wrong)} are not the papers': the code of the models has changed.")


@contextmanager
def building() -> Iterator[None]:
    """Turns errors of fairseq while it builds a model from flags into a UserError of one sentence."""
    try:
        yield
    except UserError:
        raise
    except (AssertionError, AttributeError, ImportError, RuntimeError, ValueError, ZeroDivisionError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UserError(f"fairseq cannot build a model from these flags ({reason}): check its sizes.") from None


def require_length(flag: str, length: int, limit: int, remedy: str) -> None:
    """Raises UserError if a sentence is longer than the model's positions."""
    if length > limit:
        raise UserError(f"{flag} {length} is more than the {limit} positions of the model: raise {remedy}.")


def table_by_part(found: list[Part]) -> str:
    """Tabulates groups, each followed by its parts: parameters, MACs, FLOPs and their shares of the total."""
    whole = total(found)

    def row(name: str, count: Count, tied: str | None = None) -> list[str]:
        shares = [f"{share:.1%}" for share in (count.parameters / whole.parameters, count.macs / whole.macs)]
        name += f" (tied with {tied})" if tied else ""
        return [name, f"{count.parameters:,}", shares[0], f"{count.macs:,}", f"{2 * count.macs:,}", shares[1]]

    rows = [["", "parameters", "share", "MACs", "FLOPs", "share"]]
    for group in dict.fromkeys(part.group for part in found):
        inside = [part for part in found if part.group == group]
        if len(inside) == 1:
            rows.append(row(group, inside[0].count, inside[0].tied))
        else:
            rows.append(row(group, total(found, group)))
            rows += [row(f"  {part.name}", part.count, part.tied) for part in inside]
    return text_table([*rows, row("total", whole)])


def table_of_totals(found: list[Part], totals: dict[str, tuple[str, ...]]) -> str:
    """Tabulates total parameters, MACs and FLOPs, with and without some groups."""
    counts = {name: total(found, without=without) for name, without in totals.items()}
    rows = [[name, f"{count.parameters:,}", f"{count.macs:,}", f"{2 * count.macs:,}"] for name, count in counts.items()]
    return text_table([["total", "parameters", "MACs", "FLOPs"], *rows])


def note_on_layout(found: list[Part], layout: dict[str, int]) -> str:
    """Describes how published parameter counts differ from fairseq's layout of encoders."""
    text = "FLOPs are without the language model's head and the layer to classes."
    for what, parameters in layout.items():
        text += f" {what} ({abs(parameters):,} parameters), which these {'count' if parameters > 0 else 'leave out'}."
    if any(part.group == LM_HEAD for part in found):
        classes = sum(part.count.parameters for part in found if part.name == LAST)
        text += f" They leave out the layer to classes ({classes:,}), too."
    return text


def memory_blocks(model: nn.Module, *inputs: Tensor) -> list[str]:
    """Tabulates the memory that autograd saves in training, by precision; the model keeps the last precision."""
    sizes = {
        name: size(saved_for_backward(lambda: model(*inputs), model.to(dtype).train().parameters()))
        for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16))
    }
    return [paragraph(MEMORY), text_table([["kept for backward", *sizes], ["", *sizes.values()]])]


def size(number: float) -> str:
    """Formats bytes in a suitable unit."""
    for unit in ("KiB", "MiB"):
        number /= 1024
        if number < 1024:
            return f"{number:,.1f} {unit}"
    return f"{number / 1024:,.1f} GiB"


def difference(ours: str, paper: str) -> float | None:
    """How much larger ours is, in per cent, or None if the paper has no figure."""
    if not paper:
        return None
    our_number, paper_number = (float(text[:-1]) * UNITS[text[-1]] for text in (ours, paper))
    return 100 * (our_number / paper_number - 1)


def paragraph(text: str) -> str:
    """Wraps text in lines of at most WIDTH characters."""
    return fill(text, WIDTH)
