"""Split text into train and valid: every Nth pair is for validation."""

import argparse
from collections import Counter

from ea_fairseq.data.options import add_text_options, text_options
from ea_fairseq.data.selections import EveryNth
from ea_fairseq.data.transform import Transform, transform
from ea_fairseq.errors import UserError
from ea_fairseq.plain.commands import run


def make_copier() -> Transform:
    """A transform that keeps all lines as they are."""
    return lambda source_lines, target_lines: (source_lines, target_lines, Counter())


def main() -> None:
    """Split."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_text_options(parser)
    parser.add_argument("--every", type=int, required=True, help="N")
    args = parser.parse_args()
    options = text_options(args)
    for split in ("train", "valid"):
        selection = EveryNth(args.every, others=split == "train")
        history = transform("split", make_copier, selection=selection, **options | {"output": args.output / split})
        if not history.kept:
            raise UserError(f"there are too few pairs to put every {args.every}th into valid: use more text.")


if __name__ == "__main__":
    run(main)
