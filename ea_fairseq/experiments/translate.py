"""Translates raw text, line by line, with a trained model; the text is prepared like the model's training data."""

import argparse
import gc
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tqdm import tqdm

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.trained_model import find_model, load_translation
from ea_fairseq.plain.commands import Parser, at_least, quiet
from ea_fairseq.plain.flags import flag_of
from ea_fairseq.plain.model_folder import CHECKPOINTS
from ea_fairseq.plain.precisions import PRECISIONS, about_precision
from ea_fairseq.plain.text_lines import tidy

if TYPE_CHECKING:
    from torch import Tensor

    from ea_fairseq.hub.translation import TranslationHub

# Where to cut a text that is too long, the best place first.
ENDS = (re.compile(r"(?<=[.!?…])[\"'”\u2019»)\]]*\s+|(?<=[。\uff01\uff1f])"), re.compile(r"\s+"), re.compile(""))
PROGRESS = "translate: {n_fmt} lines in {elapsed}, {rate_noinv_fmt}"
PATIENCE = 5  # seconds before progress is shown; on a terminal the translations themselves show it
EXAMPLE = "ea-fairseq translate runs/quickstart/ea_transformer_lite <<<'Der Arzt bringt Wein mit.'"


class Translator:
    """A model, its search options, and the tag of the text, if it has one."""

    def __init__(self, hub: "TranslationHub", search: dict[str, Any], tag: str | None = None) -> None:
        self.hub = hub
        self.search = search
        self.tag = tag
        self.most_tokens = hub.max_positions[0]

    def __call__(self, lines: list[str], first: int = 1) -> list[str]:
        """Translates tidied lines; in messages, the first of them has the number ``first``."""
        parts = [self.parts(line, number) for number, line in enumerate(lines, first)]
        hypotheses = iter(self.hub.generate([tokens for line in parts for tokens in line], **self.search))
        texts = [[self.hub.decode(next(hypotheses)[0]["tokens"].cpu()) for _ in line] for line in parts]
        return [tidy(" ".join(line)) for line in texts]

    def parts(self, line: str, number: int) -> "list[Tensor]":
        """Returns the tokens of each part of a line: no part if it is empty, several if it is too long."""
        parts = [tokens for tokens in self.cut(line, number) if len(tokens) > 1]
        if len(parts) > 1:
            tqdm.write(
                f"translate: line {number} has more than the {self.most_tokens} tokens that the model reads at once, "
                f"so it is translated in {len(parts)} parts.",
                file=sys.stderr,
            )
        return parts

    def cut(self, text: str, number: int) -> "list[Tensor]":
        """Returns the tokens of a text, cut near the middle repeatedly until no part is too long."""
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
    """A tqdm bar that stays hidden until its delay is over; tqdm's own appears after any message."""

    def refresh(self, *args: Any, **options: Any) -> bool | None:
        """Draws the bar, unless it is too early."""
        return time.time() >= self.start_t + self.delay and super().refresh(*args, **options)


def load(args: argparse.Namespace) -> Translator:
    """Loads the translator that the arguments describe."""
    import torch

    from ea_fairseq.search.generation_options import requested_precisions
    from ea_fairseq.search.shortlist import Shortlist

    precisions = {name: True for name in PRECISIONS if getattr(args, name)}
    if args.sampling and (args.shortlist or precisions):
        raise UserError("--sampling is done by fairseq, without --shortlist and --native-...: leave these out.")
    requested_precisions(precisions.get)  # raises UserError for those that this processor lacks
    files = find_model(args.model_dir, args.checkpoint, args.data)
    hub = load_translation(files, args.cpu, max_tokens=args.max_tokens, batch_size=None)
    # fairseq ends every translation after 200 tokens; only a long source needs more.
    search: dict[str, Any] = {"lenpen": args.lenpen, "max_len_a": 1, "max_len_b": 200}
    search["beam"] = args.beam or (1 if args.sampling else 5)
    if args.tag:
        hub.tag_id(args.tag)  # raises UserError for an unknown tag, before anything is translated
    if args.sampling:
        search |= {"sampling": True, "sampling_topk": args.sampling_topk}
        torch.manual_seed(args.seed)
    if args.shortlist:
        Shortlist.of_task(str(args.shortlist), hub.task)  # raises UserError for another vocabulary, too
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
    """Delays Ctrl-C until the context ends."""
    put_off = []
    handler = signal.signal(signal.SIGINT, lambda *call: put_off.append(call))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if put_off and callable(handler):
        handler(*put_off[0])


def parse_arguments() -> argparse.Namespace:
    """Parses the options."""
    parser = Parser(
        "translate",
        "Translates raw text with a trained model, one sentence per line in, one translation per line out. It is\n"
        "tokenized, lower-cased and segmented as the model's data was, and the translations are raw text again.\n"
        "Lines longer than the model can read are translated in parts.",
        EXAMPLE,
        usage="%(prog)s [options] MODEL_DIR < in.txt > out.txt",
    )
    add, count = parser.add_argument, at_least(1)
    add("model_dir", type=Path, metavar="MODEL_DIR", help="folder of the model's checkpoint")
    text = f"the checkpoint, or several for an ensemble (default: the first that exists of {', '.join(CHECKPOINTS)})"
    add("--checkpoint", metavar="NAME[:NAME]", help=text)
    text = "folder of dictionaries, subword model and preparation.json (default: MODEL_DIR if it has dictionaries, "
    add("--data", type=Path, metavar="DIR", help=f"{text}else the folder that the model was trained on)")
    add("--beam", type=count, metavar="N", help="width of the beam (default: 5; with --sampling 1)")
    text = "length penalty, higher for longer translations (default: 1)"
    add("--lenpen", type=at_least(0, float), default=1.0, metavar="F", help=text)
    text = "tag of all lines, such as a domain, if the model was trained with tags"
    add("--tag", metavar="NAME", help=text)
    text = "draw each token from the model's distribution instead of searching the best, as for back-translation"
    add("--sampling", action="store_true", help=text)
    text = "with --sampling, draw only from the N most likely tokens (default: from all)"
    add("--sampling-topk", type=count, default=-1, metavar="N", help=text)
    add("--seed", type=at_least(0), default=1, metavar="N", help="seed of --sampling (default: 1)")
    text = "shortlist file of ea-fairseq shortlist: choose only among translations of the source's words"
    add("--shortlist", type=Path, metavar="FILE", help=text)
    for name in PRECISIONS:
        add(flag_of(name), flag_of(name).replace("native-", ""), action="store_true", help=about_precision(name))
    add("--max-tokens", type=count, default=4096, metavar="N", help="source tokens in a batch (default: 4096)")
    text = "lines to read before translating them (default: 1000; from a terminal 1)"
    add("--buffer-size", type=count, metavar="N", help=text)
    parser.add_user_dir()
    parser.add_cpu()
    return parser.parse_args()


def main() -> None:
    """Translates stdin to stdout."""
    args = parse_arguments()
    if sys.stdin is None:
        raise UserError("there is no standard input: give the text by '< in.txt' or a pipe.")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # if the reader of our output closes it, end quietly
    quiet()
    window = args.buffer_size or (1 if sys.stdin.isatty() else 1000)
    output, done = sys.stdout.buffer, 0
    try:
        with redirect_stdout(sys.stderr):
            gc.disable()  # loading makes no garbage, and collecting would take a fifth of its time
            translate = load(args)
            gc.freeze()  # so that exiting does not collect either, which would take as long again
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
