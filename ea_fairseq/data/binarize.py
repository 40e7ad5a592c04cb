"""Binarises sentence pairs, text or labelled sentences; describes them in preparation.json and manifest.json."""

import logging
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ea_fairseq.data import manifest
from ea_fairseq.data.labels import Classes, Scores, write_numbers
from ea_fairseq.data.manifest import Layout, SentenceLayout, TextLayout
from ea_fairseq.data.tables import LABELS
from ea_fairseq.data.text_folder import TextFolder
from ea_fairseq.errors import UserError
from ea_fairseq.plain.records import Tag
from ea_fairseq.text.tags import tag_token

OF_PAIRS = (
    *("source_lang", "target_lang", "tokenizer", "normalize", "dash_splits", "lowercase", "subword", "models"),
    "tags",
)
OF_TEXT = ("tokenizer", "normalize", "dash_splits", "lowercase", "subword", "models")
OF_SENTENCES = ("task", "inputs", "tokenizer", "normalize", "lowercase", "subword", "models", "classes")
LABEL = "label"


@dataclass(frozen=True)
class Description:
    """The content of the two JSON files of a preparation.

    Args:
        settings: values of settings, by name.
        versions: versions of the tools.
        models: files of subword models, which are copied into the data.
    """

    settings: dict[str, object]
    versions: dict[str, str]
    models: list[Path]

    def write(
        self, output: Path, layout: Layout, folders: dict[str, TextFolder], more: dict, preparation: tuple[str, ...]
    ) -> None:
        """Copies the subword models into a folder of data and writes preparation.json and manifest.json.

        Args:
            folders: text folders, by split.
            more: settings that come first.
            preparation: names of the settings in preparation.json.
        """
        for model in self.models:
            shutil.copyfile(model, output / model.name)
        settings = more | self.settings | {"models": [model.name for model in self.models]}
        manifest.write(output / "preparation.json", {name: settings[name] for name in preparation})
        histories = {split: folder.history for split, folder in folders.items()}
        described = manifest.describe(output, layout, histories)
        manifest.write(output / manifest.MANIFEST, {"settings": settings, "versions": self.versions} | described)


def binarize(
    output: Path,
    *,
    folders: dict[str, TextFolder],
    joined_dictionary: bool,
    tags: list[Tag],
    workers: int,
    description: Description,
    dictionary: Path | None = None,
    preparation: tuple[str, ...] = OF_PAIRS,
) -> None:
    """Writes sentence pairs as data for translation to a new folder.

    Args:
        folders: text folders, by split; dictionaries are made from train.
        tags: those that source sentences may have.
        dictionary: fairseq's, for both languages, instead of one made from the text; T5's sentinels are added.
        preparation: names of the settings in preparation.json.

    Raises:
        UserError: if the dictionary is invalid.
    """
    quiet_fairseq()
    from ea_fairseq.data.binary_text import make_dictionary

    languages = folders["train"].languages
    files = [folders["train"].file(language) for language in languages]
    tokens = list(map(tag_token, tags))
    if dictionary:
        from ea_fairseq.tasks.spans import add_sentinels

        words = read_dictionary(dictionary)
        add_sentinels(words)
        dictionaries = [words] * len(languages)
    elif joined_dictionary:
        dictionaries = [make_dictionary(files, workers, more=tokens)] * len(languages)
    else:
        source, target = files
        dictionaries = [make_dictionary([source], workers, more=tokens), make_dictionary([target], workers)]
    output.mkdir()
    layout = Layout(languages)
    write_texts(output, layout, folders, dictionaries, workers)
    more = dict(zip(("source_lang", "target_lang"), languages, strict=True)) | {"tags": tags}
    description.write(output, layout, folders, more, preparation)


def binarize_text(
    output: Path,
    *,
    folders: dict[str, TextFolder],
    dictionary: Path | None,
    threshold: int,
    workers: int,
    description: Description,
) -> None:
    """Writes plain text as data for span_corruption and masked_lm to a new folder.

    Args:
        folders: text folders, by split.
        dictionary: fairseq's; None for one made from the training text.
        threshold: how often a word of the latter must occur.

    Raises:
        UserError: if the dictionary is invalid.
    """
    quiet_fairseq()
    from ea_fairseq.data.binary_text import make_dictionary

    layout = TextLayout(folders["train"].languages)
    texts = [folders["train"].file(side) for side in layout.sides]
    words = read_dictionary(dictionary) if dictionary else make_dictionary(texts, workers, threshold)
    output.mkdir()
    write_texts(output, layout, folders, [words], workers)
    description.write(output, layout, folders, {}, OF_TEXT)


def binarize_sentences(
    output: Path,
    *,
    folders: dict[str, TextFolder],
    labels: dict[str, Path],
    kind: Classes | Scores | None,
    dictionary: Path | None,
    threshold: int,
    workers: int,
    description: Description,
) -> None:
    """Writes labelled sentences as data for fairseq's sentence_prediction to a new folder.

    Args:
        folders: text folders, by split.
        labels: text folders that have the labels, by split.
        kind: kind of labels; None for the classes of the training set.
        dictionary: fairseq's; None for one made from the training text.
        threshold: how often a word of the latter must occur.

    Raises:
        UserError: if a label or the dictionary is invalid.
    """
    quiet_fairseq()
    from ea_fairseq.data.binary_text import make_dictionary

    layout = SentenceLayout(folders["train"].languages)
    files = {split: folder / LABELS for split, folder in labels.items()}
    kind = kind or Classes.found_in(files["train"])
    texts = [folders["train"].file(side) for side in layout.sides]
    words = read_dictionary(dictionary) if dictionary else make_dictionary(texts, workers, threshold)
    output.mkdir()
    write_labels(output / LABEL, kind, files, workers)
    write_texts(output, layout, folders, [words] * len(layout.sides), workers)
    more = {"inputs": len(layout.sides), "classes": None if isinstance(kind, Scores) else kind.names}
    description.write(output, layout, folders, more, OF_SENTENCES)


def read_dictionary(path: Path) -> Any:
    """Reads a dictionary of fairseq; raises UserError if the file is not one."""
    from fairseq.data import Dictionary

    try:
        return Dictionary.load(str(path))
    except (ValueError, RuntimeError, UnicodeDecodeError, IndexError):
        raise UserError(
            f"{path} is not a dictionary of fairseq: take the one of ea-fairseq import-bert or import-t5."
        ) from None


def write_texts(output: Path, layout: Layout, folders: dict[str, TextFolder], dictionaries: list, workers: int) -> None:
    """Writes the dictionary of each side, and the token ids of the sentences of each split, to a folder.

    Args:
        folders: text folders, by split.
        dictionaries: fairseq's dictionaries of the sides.
    """
    from ea_fairseq.data.binary_text import write_token_ids

    for side, dictionary in zip(layout.sides, dictionaries, strict=True):
        path = output / layout.dictionary(side)
        path.parent.mkdir(exist_ok=True)
        dictionary.save(str(path))
        for split, folder in folders.items():
            prefix = output / layout.text(split, side)
            write_token_ids(folder.file(side), folder.history.kept, dictionary, prefix, workers)


def write_labels(output: Path, kind: Classes | Scores, files: dict[str, Path], workers: int) -> None:
    """Writes the labels of each split: numbers in SPLIT.label and, for classes, token ids and their dictionary.

    Raises:
        UserError: naming an invalid label.
    """
    from fairseq.data import Dictionary

    from ea_fairseq.data.binary_text import write_token_ids

    output.mkdir()
    counts = {split: write_numbers(file, kind, split, output / f"{split}.label") for split, file in files.items()}
    if isinstance(kind, Scores):
        return
    dictionary = Dictionary()
    for number in range(len(kind.names)):
        dictionary.add_symbol(str(number))
    dictionary.save(str(output / "dict.txt"))
    for split, count in counts.items():
        write_token_ids(output / f"{split}.label", count, dictionary, output / split, workers)


def quiet_fairseq() -> None:
    """Silences fairseq, which is imported after this."""
    logging.getLogger("fairseq").setLevel("WARNING")
    warnings.simplefilter("ignore")
