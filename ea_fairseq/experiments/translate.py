"""Translate raw text, line for line, with a trained model; the text is prepared as the model's own was."""

import argparse
import gc
import logging
import re
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tqdm import tqdm

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.trained_model import find_model, load_translation
from ea_fairseq.plain.commands import Parser, at_least
from ea_fairseq.plain.model_folder import CHECKPOINTS
from ea_fairseq.plain.precisions import PRECISIONS, about_precision, flag_of
from ea_fairseq.plain.text_lines import tidy

if TYPE_CHECKING:
    from torch import Tensor

    from ea_fairseq.hub.translation import TranslationHub

# Where a text that is too long is cut, the best place first.
ENDS = (re.compile(r"(?<=[.!?…])[\"'”\u2019»)\]]*\s+|(?<=[。\uff01\uff1f])"), re.compile(r"\s+"), re.compile(""))
PROGRESS = "translate: {n_fmt} lines in {elapsed}, {rate_noinv_fmt}"
PATIENCE = 5  # seconds before there is progress to tell; on a terminal the translations themselves tell it
EXAMPLE = "ea-fairseq translate runs/quickstart/ea_transformer_lite <<<'Der Arzt bringt Wein mit.'"


class Translator:
    """A model, how to search with it, and the tag of the text, if it has one."""

    def __init__(self, hub: "TranslationHub", search: dict[str, Any], tag: str | None = None) -> None:
        self.hub = hub
        self.search = search
        self.tag = tag
        self.most_tokens = hub.max_positions[0]

    def __call__(self, lines: list[str], first: int = 1) -> list[str]:
        """Translate tidied lines, the first of which has the number ``first`` in messages."""
        parts = [self.parts(line, number) for number, line in enumerate(lines, first)]
        hypotheses = iter(self.hub.generate([tokens for line in parts for tokens in line], **self.search))
        texts = [[self.hub.decode(next(hypotheses)[0]["tokens"].cpu()) for _ in line] for line in parts]
        return [tidy(" ".join(line)) for line in texts]

    def parts(self, line: str, number: int) -> "list[Tensor]":
        """The tokens of a line: none of an empty one, and of one that is too long those of each of its parts."""
        parts = [tokens for tokens in self.cut(line, number) if len(tokens) > 1]
        if len(parts) > 1:
            tqdm.write(
                f"translate: line {number} has more than the {self.most_tokens} tokens that the model reads at once, "
                f"so it is translated in {len(parts)} parts.",
                file=sys.stderr,
            )
        return parts

    def cut(self, text: str, number: int) -> "list[Tensor]":
        """The tokens of a text, cut near the middle again and again until no part is too long."""
        tokens = self.hub.encode(text, self.tag)
        if len(tokens) <= self.most_tokens:
            return [tokens]
        for end in ENDS:
            places = [match.end() for match in end.finditer(text) if 0 < match.end() < len(text)]
            if places:
                middle = min(places, key=lambda place: abs(place - len(text) / 2))
                return self.cut(text[:middle].strip(), number) + self.cut(text[middle:].strip(), number)
        raise UserError(
            f"line {number} has a character of more than the {self.most_tokens} tokens that the model reads."
        )


class Progress(tqdm):
    """tqdm's, which by itself draws after each message, however early that is."""

    def refresh(self, *args: Any, **options: Any) -> bool | None:
        """Draws, unless it is too early."""
        return time.time() >= self.start_t + self.delay and super().refresh(*args, **options)


def load(args: argparse.Namespace) -> Translator:
    """The translator that the arguments ask for."""
    import torch

    from ea_fairseq.search.generation_options import requested_precisions
    from ea_fairseq.search.shortlist import Shortlist

    precisions = {name: True for name in PRECISIONS if getattr(args, name)}
    if args.sampling and (args.shortlist or precisions):
        raise UserError("--sampling is a search of fairseq's, without --shortlist and --native-...: leave these out.")
    requested_precisions(precisions.get)  # refuses those that this processor does not have
    files = find_model(args.model_dir, args.checkpoint, args.data)
    hub = load_translation(files, args.cpu, max_tokens=args.max_tokens, batch_size=None)
    # fairseq ends every translation after 200 tokens; only a long source needs more.
    search: dict[str, Any] = {"lenpen": args.lenpen, "max_len_a": 1, "max_len_b": 200}
    search["beam"] = args.beam or (1 if args.sampling else 5)
    if args.tag:
        hub.tag_id(args.tag)  # refuses one that the model does not know before anything is translated
    if args.sampling:
        search |= {"sampling": True, "sampling_topk": args.sampling_topk}
        torch.manual_seed(args.seed)
    if args.shortlist:
        Shortlist.of_task(str(args.shortlist), hub.task)  # refuses one of other words before anything is translated
        search["shortlist"] = str(args.shortlist)
    return Translator(hub, search | precisions, args.tag)


def read_lines(file: IO[bytes]) -> Iterator[str]:
    """The tidied lines of a file; only a line feed ends a line."""
    for number, line in enumerate(file, 1):
        try:
            yield tidy(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError:
            raise UserError(f"line {number} of the input is not UTF-8: convert the input with iconv.") from None


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Puts Ctrl-C off until the context ends."""
    put_off = []
    handler = signal.signal(signal.SIGINT, lambda *call: put_off.append(call))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if put_off and callable(handler):
        handler(*put_off[0])


def parse_arguments() -> argparse.Namespace:
    """The options."""
    parser = Parser(
        "translate",
        "Translates raw text, one sentence per line, with a trained model, line for line. The text is\n"
        "tokenized, lower-cased and segmented as the model's data was, and the translations are raw text again.\n"
        "Lines longer than the model can read are translated in parts.",
        EXAMPLE,
        usage="%(prog)s [options] MODEL_DIR < in.txt > out.txt",
    )
    add, count = parser.add_argument, at_least(1)
    add("model_dir", type=Path, metavar="MODEL_DIR", help="folder of the model's checkpoint")
    text = f"the checkpoint, or several for an ensemble (default: the first there is of {', '.join(CHECKPOINTS)})"
    add("--checkpoint", metavar="NAME[:NAME]", help=text)
    text = "folder of dictionaries, subword model and preparation.json (default: MODEL_DIR if it has dictionaries, "
    add("--data", type=Path, metavar="DIR", help=f"{text}else the folder that the model was trained on)")
    add("--beam", type=count, metavar="N", help="width of the beam (default: 5; with --sampling 1)")
    text = "length penalty, higher for longer translations (default: 1)"
    add("--lenpen", type=at_least(0, float), default=1.0, metavar="F", help=text)
    text = "of all lines, if the model was trained with tags, such as a domain"
    add("--tag", metavar="NAME", help=text)
    text = "draw each token from the model's distribution instead of searching the best, as for back-translation"
    add("--sampling", action="store_true", help=text)
    text = "with --sampling, draw only from the N most likely tokens (default: from all)"
    add("--sampling-topk", type=count, default=-1, metavar="N", help=text)
    add("--seed", type=at_least(0), default=1, metavar="N", help="of --sampling (default: 1)")
    text = "shortlist file of ea-fairseq shortlist: choose only among translations of the source's words"
    add("--shortlist", type=Path, metavar="FILE", help=text)
    for name in PRECISIONS:
        add(flag_of(name), flag_of(name).replace("native-", ""), action="store_true", help=about_precision(name))
    add("--max-tokens", type=count, default=4096, metavar="N", help="source tokens in a batch (default: 4096)")
    text = "lines to read before translating them (default: 1000; from a terminal 1)"
    add("--buffer-size", type=count, metavar="N", help=text)
    parser.add_user_dir()
    add("--cpu", action="store_true", help="use the CPU even if there is a GPU")
    return parser.parse_args()


def main() -> None:
    """Translate stdin to stdout."""
    args = parse_arguments()
    if sys.stdin is None:
        raise UserError("there is no standard input: give the text by '< in.txt' or a pipe.")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader that goes away ends this quietly
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")
    window = args.buffer_size or (1 if sys.stdin.isatty() else 1000)
    output, done = sys.stdout.buffer, 0
    try:
        with redirect_stdout(sys.stderr):
            gc.disable()  # imports and a model are no garbage: searching it takes a fifth of the time until here
            translate = load(args)
            gc.freeze()  # nor at the end of the process, where it takes as long again
            gc.enable()
            lines = read_lines(sys.stdin.buffer)
            shown = {"unit": " lines", "bar_format": PROGRESS, "file": sys.stderr, "delay": PATIENCE}
            with Progress(**shown, disable=output.isatty()) as progress:
                while read := list(islice(lines, window)):
                    translations = translate(read, first=done + 1)
                    with uninterrupted():
                        output.write("".join(line + "\n" for line in translations).encode())
                        output.flush()
                        done += len(read)
                        progress.update(len(read))
    except KeyboardInterrupt:
        print(f"translate: stopped; the first {done} lines are translated.", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
