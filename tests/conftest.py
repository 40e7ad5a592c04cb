"""What the tests of fairseq's console commands start from."""

import random

import pytest

from commands import SENTENCES, run_well


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A user's folder, with binarized data for reversing sentences in 'my data', a path with a space."""
    home = tmp_path_factory.mktemp("user")
    letters = random.Random(1)
    for split, count in SENTENCES.items():
        sources = [[letters.choice("abcdefgh") for _ in range(letters.randint(2, 7))] for _ in range(count)]
        for language, step in (("src", 1), ("tgt", -1)):
            lines = [" ".join(words[::step]) + "\n" for words in sources]
            (home / f"{split}.{language}").write_text("".join(lines))
    prefixes = [part for split in SENTENCES for part in (f"--{split}pref", split)]
    run_well("fairseq-preprocess", "-s", "src", "-t", "tgt", *prefixes, "--destdir", "my data", cwd=home)
    return home
