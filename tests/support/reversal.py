"""A toy translation task, reversing sentences: its data, and trainings on it through fairseq's commands."""

import json
import random
from pathlib import Path

from commands import PLUGIN, SIZES
from forked import run_forked_well

SENTENCES = {"train": 60, "valid": 8, "test": 6}
DATA = "my data"
DEVICE_FLAGS = {"cpu": ["--cpu"], "cuda": []}


def binarize(home: Path) -> Path:
    """Puts binarized data into the folder DATA, a path with a space, of a user's folder; returns the latter."""
    letters = random.Random(1)
    for split, count in SENTENCES.items():
        sources = [[letters.choice("abcdefgh") for _ in range(letters.randint(2, 7))] for _ in range(count)]
        for language, step in (("src", 1), ("tgt", -1)):
            lines = [" ".join(words[::step]) + "\n" for words in sources]
            (home / f"{split}.{language}").write_text("".join(lines))
    prefixes = [part for split in SENTENCES for part in (f"--{split}pref", split)]
    run_forked_well("fairseq-preprocess", "-s", "src", "-t", "tgt", *prefixes, "--destdir", DATA, cwd=home)
    return home


def train_command(folder: str, updates: int, *flags, arch: str = "ea_transformer", device: str = "cpu") -> list:
    """A training of 7 updates an epoch that saves to ``folder`` and logs every update."""
    command = ["fairseq-train", DATA, "--user-dir", PLUGIN, "--arch", arch, *SIZES, "--save-dir", folder]
    command += ["--optimizer", "adam", "--lr", "0.01", "--max-tokens", "60", "--max-update", updates, "--seed", "3"]
    return [*command, "--log-format", "json", "--log-interval", "1", *DEVICE_FLAGS[device], *flags]


def generate_command(*flags, data: str = DATA, device: str = "cpu") -> list:
    """A translation of all sentences of the test set; by default, fairseq drops the rest of 6 modulo 8 sentences."""
    command = ["fairseq-generate", data, "--user-dir", PLUGIN, "--required-batch-size-multiple", "1"]
    return [*command, *DEVICE_FLAGS[device], *flags]


def train(home: Path, folder: str, updates: int, *flags, **options) -> list[float]:
    """Trains; returns the loss of each update."""
    return list(losses_of(run_forked_well(*train_command(folder, updates, *flags, **options), cwd=home)).values())


def losses_of(log: str) -> dict[int, float]:
    """The loss of each update, by number, in the order of the log."""
    logged = [json.loads(line[line.index("{") :]) for line in log.splitlines() if "| train_inner | {" in line]
    return {int(entry["num_updates"]): float(entry["loss"]) for entry in logged}


def logged(log: str, name: str) -> list[float]:
    """What a training has logged of a figure, such as valid_loss."""
    lines = (line for line in log.splitlines() if f'"{name}"' in line)
    return [float(json.loads(line[line.index("{") :])[name]) for line in lines]
