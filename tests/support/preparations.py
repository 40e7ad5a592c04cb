"""A model from others: its subword model, its dictionaries, and its preparation.json, whatever that says."""

import json
from contextlib import suppress
from pathlib import Path

from corpora import WORDS
from ea_fairseq.errors import UserError
from ea_fairseq.text import moses_port  # noqa: F401  imported before anybody looks which files are opened
from ea_fairseq.text.preparation import OF_ENCODERS, Preparation
from ea_fairseq.text.subwords import make_segmenter
from opened_files import opened_files

SECRET = "root:x:0:0"
CODES = "#version: 0.2\nH u\nHu n\nHun d</w>\n"
WHOLE = {
    "source_lang": "de",
    "target_lang": "en",
    "tokenizer": "moses",
    "normalize": True,
    "dash_splits": False,
    "lowercase": False,
    "subword": "bpe",
    "models": ["bpe.codes"],
}


def write_model(home: Path) -> Path:
    """Writes 'secret', and 'a model' with what belongs to a model and a link to the secret; returns the latter."""
    folder = home / "a model"
    folder.mkdir()
    (home / "secret").write_text(f"{SECRET}\n")
    (folder / "secret link").symlink_to(home / "secret")
    (folder / "bpe.codes").write_text(CODES)
    for language in WORDS:
        (folder / f"dict.{language}.txt").write_text("Hund 1\n")
        (folder / f"test.de-en.{language}.idx").touch()
    make_segmenter("bpe", folder / "bpe.codes")  # imports what it needs
    with suppress(UserError):
        make_segmenter("sentencepiece", home / "secret")
    return folder


def read(folder: Path, description: object) -> Preparation | str:
    """What a description is read as and works as, or the sentence that refuses it; no file elsewhere is opened."""
    text = description if isinstance(description, bytes) else json.dumps(description).encode()
    (folder / "preparation.json").write_bytes(text)
    with opened_files() as opened:
        try:
            found = Preparation.read(folder)
            for language in (found.source_lang or OF_ENCODERS, found.target_lang or OF_ENCODERS):
                found.preparer(language)("Der Hund.")
        except UserError as error:
            found = str(error)
    assert all(path.parent == folder.resolve() for path in opened), opened
    return found


def assert_one_sentence(sentence: str, folder: Path) -> None:
    assert str(folder) in sentence and sentence.endswith(".") and sentence.isprintable()
    assert SECRET not in sentence and len(sentence) < 600
