"""The command line of ``ea-fairseq rationales``."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from ea_fairseq.plain.commands import PROGRAM, Parser, at_least, some_of

CHOICES = ("attention", "rollout", "pooling", "gradient", "lime", "position")
ALWAYS = ("gold", "random")  # the ceiling and the floor
USUAL = ("attention", "rollout", "gradient", "position")  # LIME takes hours on a CPU
WORD_SCORES = ("sum", "max")
EXAMPLE = f"""{PROGRAM} rationales runs/movies/ea_bert_mini/seed-1 movies/test.jsonl.gz \\
    --source attention,gradient --limit 50 --compare runs/movies/bert_mini/seed-1 --out runs/rationales"""


@dataclass(frozen=True)
class Settings:
    """Everything that scores depend on besides the model and the documents.

    Args:
        draws: the number of random scores of each document.
        lime_samples: the number of shortened texts that LIME reads.
        word_score: ``sum`` or ``max`` over the pieces of a word.
    """

    seed: int = 1
    draws: int = 10
    lime_samples: int = 500
    word_score: str = "sum"

    def of(self, source: str) -> dict[str, int | str]:
        """The settings, by name, that the scores of a source depend on."""
        names = {"lime": ("seed", "lime_samples"), "random": ("seed", "draws"), "gold": (), "position": ()}
        return {name: getattr(self, name) for name in names.get(source, ("word_score",))}


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = Parser(
        "rationales",
        "Explains a classifier's decisions about documents: scores every word by attention, gradients or LIME, and\n"
        "evaluates the scores as the ERASER benchmark does. AUPRC is agreement with rationales marked by people.\n"
        "Comprehensiveness is how much the probability of the predicted class drops without the best words, and\n"
        "sufficiency how much it drops with these words alone. Run an interrupted command again to resume it.",
        EXAMPLE,
        usage="%(prog)s MODEL DOCUMENTS --out DIR [options]",
    )
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help="the folder of a trained classifier, or a checkpoint in it")
    text = "documents with rationales, one JSON object per line, plain or gzipped, in ERASER's form"
    add("documents", type=Path, metavar="DOCUMENTS", help=text)
    add("--out", type=Path, metavar="DIR", required=True, help="folder for rationales.json and rationales.html")
    text = f"some of {', '.join(CHOICES)} (default: {','.join(USUAL)}); {' and '.join(ALWAYS)} are always added"
    add("--source", type=some_of(CHOICES), default=USUAL, metavar="LIST", help=text)
    add("--compare", type=Path, metavar="MODEL", help="another model, to be evaluated on the same documents")
    add("--limit", type=at_least(1), metavar="N", help="draw N of the documents (default: all)")
    add("--seed", type=at_least(0), default=1, metavar="N", help="seed of draws, random scores and LIME (default: 1)")
    text = "draws of random scores per document, whose mean AUPRC is reported (default: 10)"
    add("--draws", type=at_least(1), default=10, metavar="N", help=text)
    text = "shortened texts per document that LIME reads (default: 500)"
    add("--lime-samples", type=at_least(2), default=500, metavar="N", help=text)
    text = "score of a word by its pieces' scores: sum or max (default: sum)"
    add("--word-score", choices=WORD_SCORES, default="sum", help=text)
    add("--data", type=Path, metavar="DIR", help="folder of the models' binarised data (default: the models' own)")
    parser.add_user_dir()
    parser.add_cpu()
    return parser.parse_args()
