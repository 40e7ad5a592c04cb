"""Tiny made-up data for encoders, binarized by fairseq: text for masked words, and pairs of sentences with labels."""

import random
from pathlib import Path

from commands import PLUGIN
from forked import run_forked_well

SIZES = {"train": 192, "valid": 8}
TEXT, PAIRS = "my text", "my pairs"


def binarize_sentences(home: Path) -> Path:
    """Puts the folders TEXT and PAIRS into a user's folder, which it returns.

    A pair's label is 1 where both share a word, and its score, for ``--regression-target``, is the number they share.
    """
    letters = random.Random(1)
    for split, count in SIZES.items():
        pairs = [[letters.choices("abcdefgh", k=letters.randint(2, 5)) for _ in range(2)] for _ in range(count)]
        for number, name in enumerate(("input0", "input1")):
            (home / f"{split}.{name}").write_text("".join(" ".join(pair[number]) + "\n" for pair in pairs))
        shared = [len(set(first) & set(second)) for first, second in pairs]
        (home / f"{split}.label").write_text("".join(f"{int(count > 0)}\n" for count in shared))
        scores = home / PAIRS / "label" / f"{split}.label"
        scores.parent.mkdir(parents=True, exist_ok=True)
        scores.write_text("".join(f"{count}\n" for count in shared))
    for name, folder in (("input0", TEXT), *((name, f"{PAIRS}/{name}") for name in ("input0", "input1", "label"))):
        prefixes = [part for split in SIZES for part in (f"--{split}pref", f"{split}.{name}")]
        words = ["--srcdict", f"{TEXT}/dict.txt"] * folder.startswith(f"{PAIRS}/input")
        run_forked_well("fairseq-preprocess", "--only-source", *prefixes, *words, "--destdir", folder, cwd=home)
    return home


def encoder_command(task: str, folder: str, updates: int, *flags, arch: str = "ea_roberta_tiny") -> list:
    """A training of an encoder for ``masked_lm`` or ``sentence_prediction`` that logs every update."""
    data, own = {
        "masked_lm": (TEXT, ["--tokens-per-sample", "16"]),
        "sentence_prediction": (PAIRS, ["--num-classes", "2", "--init-token", "0", "--max-positions", "16"]),
    }[task]
    command = ["fairseq-train", data, "--user-dir", PLUGIN, "--arch", arch, "--task", task, "--criterion", task]
    command += [*own, "--save-dir", folder, "--encoder-layers", "2", "--optimizer", "adam", "--lr", "0.001", "--cpu"]
    command += ["--batch-size", "8", "--max-update", updates, "--seed", "3"]
    return [*command, "--log-format", "json", "--log-interval", "1", "--required-batch-size-multiple", "1", *flags]
