"""``ea-fairseq precisions``: BLEU of a translation model in each precision of native search, on a development set."""

import argparse
import json
import sys
import time
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.tables import text_table
from ea_fairseq.plain.commands import PROGRAM, Parser, at_least, quiet
from ea_fairseq.plain.files import write_whole
from ea_fairseq.plain.precisions import PRECISIONS, REDUCED

if TYPE_CHECKING:
    from torch import Tensor

    from ea_fairseq.hub.translation import TranslationHub


def main() -> None:
    """Measures and compares the precisions."""
    args = parse_arguments()
    quiet()
    from ea_fairseq.experiments.runs.trained_model import find_trained, load_translation
    from ea_fairseq.kernels.cpu.native_library import reduced_instruction_set
    from ea_fairseq.search.precision_bleu import LARGEST_LOSS, NAME, PrecisionBleu, digest

    supported = [precision for precision in REDUCED if reduced_instruction_set(precision)]
    if not supported:
        raise UserError(
            "this processor, or the compiler of the native code, supports only float32: there is nothing to compare."
        )
    files = find_trained(args.model, args.data)
    with redirect_stdout(sys.stderr):
        hub = load_translation(files, cpu=True)
    sources, targets = hub.pairs(args.subset)
    bleu, rows = {}, [["precision", "BLEU", "difference", "seconds"]]
    for precision in ("float32", *supported):
        begin = time.perf_counter()
        bleu[precision] = bleu_of(hub, sources, targets, args.beam, precision)
        seconds, difference = time.perf_counter() - begin, bleu[precision] - bleu["float32"]
        rows.append([precision, f"{bleu[precision]:.2f}", f"{difference:+z.2f}", f"{seconds:.1f}"])
    found = PrecisionBleu(digest(files.path), args.subset, bleu)
    write_whole(files.folder / NAME, json.dumps(asdict(found), indent=2) + "\n")
    print(text_table(rows))
    print(f"\nwritten to {files.folder / NAME}: --native-fast uses none that loses more than {LARGEST_LOSS} BLEU")


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = Parser(
        "precisions",
        "Translates a development set in float32 and in each precision that native search has on this processor, and\n"
        "compares their BLEU. The result is written next to the checkpoint, where --native-fast reads it.",
        f"{PROGRAM} precisions runs/multi30k-deen/ea_transformer_lite/seed-1 data/multi30k-deen/data-bin",
        usage="%(prog)s MODEL DATA_BIN [options]",
    )
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help="the folder of a training, or a checkpoint in it")
    add("data", type=Path, metavar="DATA_BIN", help="the folder of the data that it was trained on")
    add("--subset", default="valid", metavar="NAME", help="of the data (default: valid)")
    add("--beam", type=at_least(1), default=5, metavar="N", help="hypotheses of a sentence (default: 5)")
    parser.add_user_dir()
    return parser.parse_args()


def bleu_of(
    hub: "TranslationHub", sources: "list[Tensor]", targets: "list[Tensor]", beam: int, precision: str
) -> float:
    """Returns BLEU of the translations of tokens (S,) in a precision, even if it is not the fastest one.

    Raises:
        UserError: if native search does not support the model.
    """
    from ea_fairseq.experiments.scoring.scores import raw_score
    from ea_fairseq.models.transformer import MechanismTransformer
    from ea_fairseq.search.model_cache import cached_model

    (model,) = hub.models
    if not isinstance(model, MechanismTransformer):
        raise UserError("native search does not support models of fairseq's own: give one of this package's.")
    cached = cached_model(model)
    if cached.unsupported_reason:
        raise UserError(f"native search does not support this model: {cached.unsupported_reason}.")
    cached.fastest[beam, ("float32", precision), None] = precision
    options = {name: True for name, precisions in PRECISIONS.items() if precisions == (precision,)}
    found = hub.generate(sources, beam, **options)
    translations = [hub.decode(best["tokens"]) for best, *_ in found]
    return raw_score("BLEU", translations, list(map(hub.decode, targets))).score
