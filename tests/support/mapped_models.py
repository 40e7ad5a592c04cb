"""Tiny models that nobody trained, evolving and plain, over pieces of words, with all that raw text needs."""

import json
from pathlib import Path

from fairseq.data import Dictionary

from checkpoints import save_loud
from ea_fairseq.data.binary_text import write_token_ids

LETTERS = "abcdefgh"
# Codes that merge none of the letters cut words into letters. The first target has a letter that no model knows.
PAIRS = [
    ("a@@ b c", "f d@@ z"),
    ("d a@@ b@@ c", "a b"),
    ("e", "c@@ d e@@ f g"),
    ("f@@ a c@@ d a b@@ b g", "c@@ d h@@ b"),
]


def dictionary(letters: str = LETTERS) -> Dictionary:
    words = Dictionary()
    for letter in letters:
        words.add_symbol(letter)
        words.add_symbol(f"{letter}@@")
    return words


def write_data(folder: Path, letters: str = LETTERS, languages: tuple[str, str] = ("de", "en")) -> Path:
    """Binarised test data with its preparation; returns the folder."""
    folder.mkdir()
    words = dictionary(letters)
    for side, language in enumerate(languages):
        words.save(str(folder / f"dict.{language}.txt"))
        text = folder / f"text.{language}"
        text.write_text("".join(pair[side] + "\n" for pair in PAIRS))
        write_token_ids(text, len(PAIRS), words, folder / f"test.{'-'.join(languages)}.{language}", workers=1)
    (folder / "bpe.codes").write_text("#version: 0.2\ny z</w>\n")
    source, target = languages
    preparation = {"source_lang": source, "target_lang": target, "tokenizer": "none", "lowercase": True}
    preparation |= {"subword": "bpe", "models": ["bpe.codes"]}
    (folder / "preparation.json").write_text(json.dumps(preparation))
    return folder


def write_models(home: Path) -> Path:
    """Puts data into ``data``, and folders of models: evolving, plain, of other words and of other languages."""
    data = write_data(home / "data")
    write_data(home / "other words", LETTERS[:5])
    write_data(home / "other languages", languages=("en", "de"))
    for name, folder, options in (
        ("ea", data, {}),
        ("plain", data, {"arch": "transformer"}),
        ("other words", home / "other words", {}),
        ("other languages", home / "other languages", {"languages": ("en", "de")}),
    ):
        (home / f"{name} model").mkdir()
        limits = ["--max-source-positions", "20", "--max-target-positions", "12"]
        options = {"languages": ("de", "en"), **options}
        save_loud(folder, home / f"{name} model" / "checkpoint_best.pt", *limits, **options)
    return home
