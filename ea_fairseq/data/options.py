"""The options of steps that go from text folders to a text folder."""

import argparse
from pathlib import Path

from ea_fairseq.data.text_folder import TextFolder


def add_text_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that all of these steps have."""
    parser.add_argument("--languages", nargs="+", required=True, metavar="LANGUAGE", help="source and target, or sides")
    parser.add_argument("--workers", type=int, default=1, help="processes to work with")
    parser.add_argument("--compress", action="store_true", help="gzip the text")
    parser.add_argument("inputs", type=Path, nargs="+", metavar="input", help="text folder")
    parser.add_argument("output", type=Path, help="text folder to make")


def text_options(args: argparse.Namespace) -> dict[str, object]:
    """Keyword arguments of :func:`transform.transform`, from the parsed options."""
    languages = tuple(args.languages)
    inputs = [TextFolder(path, languages) for path in args.inputs]
    return {"inputs": inputs, "output": args.output, "workers": args.workers, "compress": args.compress}
