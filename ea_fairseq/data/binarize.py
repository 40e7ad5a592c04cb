"""Binarised data as fairseq-preprocess makes it, described in preparation.json and manifest.json."""

import logging
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path

from ea_fairseq.data import manifest
from ea_fairseq.data.layout import Layout
from ea_fairseq.data.text_folder import TextFolder

PREPARATION = ("source_lang", "target_lang", "tokenizer", "normalize", "dash_splits", "lowercase", "subword", "models")


@dataclass(frozen=True)
class Description:
    """What the two JSON files say of a preparation.

    Args:
        settings: by name.
        versions: of the tools.
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
            folders: of the text, by split.
            more: settings that come first.
            preparation: names of the settings that preparation.json has.
        """
        for model in self.models:
            shutil.copyfile(model, output / model.name)
        settings = more | self.settings | {"models": [model.name for model in self.models]}
        manifest.write(output / "preparation.json", {name: settings[name] for name in preparation})
        histories = {split: folder.history for split, folder in folders.items()}
        described = manifest.describe(output, layout, histories)
        manifest.write(output / "manifest.json", {"settings": settings, "versions": self.versions} | described)


def binarize(
    output: Path, *, folders: dict[str, TextFolder], joined_dictionary: bool, workers: int, description: Description
) -> None:
    """Writes sentence pairs as data for translation to a new folder.

    Args:
        folders: of the text, by split.
    """
    quiet_fairseq()
    from ea_fairseq.data.binary_text import make_dictionary

    languages = folders["train"].languages
    files = [folders["train"].file(language) for language in languages]
    if joined_dictionary:
        dictionaries = [make_dictionary(files, workers)] * len(languages)
    else:
        dictionaries = [make_dictionary([file], workers) for file in files]
    output.mkdir()
    layout = Layout(languages)
    write_texts(output, layout, folders, dictionaries, workers)
    by_role = dict(zip(("source_lang", "target_lang"), languages, strict=True))
    description.write(output, layout, folders, by_role, PREPARATION)


def write_texts(output: Path, layout: Layout, folders: dict[str, TextFolder], dictionaries: list, workers: int) -> None:
    """Writes the dictionary of each side, and the token ids of the sentences of each split, to a folder.

    Args:
        folders: text folders, by split.
        dictionaries: fairseq's, of the sides.
    """
    from ea_fairseq.data.binary_text import write_token_ids

    for side, dictionary in zip(layout.sides, dictionaries, strict=True):
        path = output / layout.dictionary(side)
        path.parent.mkdir(exist_ok=True)
        dictionary.save(str(path))
        for split, folder in folders.items():
            prefix = output / layout.text(split, side)
            write_token_ids(folder.file(side), folder.history.kept, dictionary, prefix, workers)


def quiet_fairseq() -> None:
    """Keeps fairseq, which is imported after this, from telling what it does."""
    logging.getLogger("fairseq").setLevel("WARNING")
    warnings.simplefilter("ignore")
