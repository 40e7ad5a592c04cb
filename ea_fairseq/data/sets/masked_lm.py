"""One language of prepared sentence pairs, under the file names that fairseq's masked_lm reads."""

import re
import shutil
from argparse import Namespace
from functools import partial
from pathlib import Path

from ea_fairseq.data import manifest
from ea_fairseq.data.data_set import DataSet
from ea_fairseq.data.manifest import MANIFEST, sha256
from ea_fairseq.data.options import Option
from ea_fairseq.data.plan import Plan
from ea_fairseq.errors import UserError
from ea_fairseq.plain.records import written_by
from ea_fairseq.plain.split_folder import SPLITS
from ea_fairseq.text.preparation import PREPARATION, Preparation

KEPT = ("tokenizer", "normalize", "dash_splits", "lowercase", "subword")


class OneLanguage(DataSet):
    """One language of prepared sentence pairs."""

    def prepare(self, options: Namespace) -> None:
        """Prepares the data; raises UserError if the pairs do not have the language."""
        pairs, path = map(Path, options.given)
        language, data = options.language, pairs / "data-bin"
        if not re.fullmatch("[A-Za-z0-9_]+", language):
            raise UserError(f"--language needs a language of letters and digits, such as en, not '{language}'.")
        folder = self.output_folder(path)
        if path.is_dir() and pairs.is_dir() and path.samefile(pairs):
            raise UserError(f"{path} has the sentence pairs themselves: give another folder for the output.")
        if not data.is_dir():
            raise UserError(f"there is no folder {data}: make it with another data set of `ea-fairseq prepare`.")
        files = [
            file
            for split in SPLITS
            for kind in ("bin", "idx")
            for file in sorted(data.glob(f"{split}.*.{language}.{kind}"))
        ]
        dictionary = data / f"dict.{language}.txt"
        if not dictionary.is_file() or len(files) != 2 * len(SPLITS):
            raise UserError(
                f"{data} has no train, valid and test of {language}: name one of its two languages with --language."
            )
        described = [data / name for name in (PREPARATION, MANIFEST) if (data / name).is_file()]
        checksums = [(file.name, sha256(file)) for file in (dictionary, *described, *files)]
        plan = Plan()
        size = sum(file.stat().st_size for file in files)
        plan.add("data-bin", partial(take_language, data=data, language=language, files=files), checksums, size=size)
        self.carry_out(plan, folder, options)


def take_language(output: Path, *, data: Path, language: str, files: list[Path]) -> None:
    """Copies a language, with its subword model and preparation.json, to a new folder, and describes it.

    Args:
        data: folder of the binarised pairs.
        files: the language's files in it.

    Raises:
        UserError: if preparation.json is not what a preparation writes.
    """
    output.mkdir()
    shutil.copyfile(data / f"dict.{language}.txt", output / "dict.txt")
    for file in files:
        shutil.copyfile(file, output / f"{file.name.partition('.')[0]}{file.suffix}")
    if (data / PREPARATION).is_file():
        pairs = Preparation.read(data)
        with written_by("a preparation", data / PREPARATION, "prepare the pairs again"):
            side = (pairs.source_lang, pairs.target_lang).index(language)
        models = pairs.models[side:][:1] or pairs.models[:1]
        for model in models:
            shutil.copyfile(data / model, output / model)
        kept = {name: getattr(pairs, name) for name in KEPT}
        manifest.write(output / PREPARATION, kept | {"language": language, "models": models})
    source = data / MANIFEST
    described = {
        "settings": {"dataset": "prepare-masked-lm", "language": language},
        "sources": [{"file": MANIFEST, "sha256": sha256(source)}] if source.is_file() else [],
        "files": manifest.checksums(output),
    }
    manifest.write(output / MANIFEST, described)


DATA_SET = OneLanguage(
    name="masked-lm",
    summary="one language of prepared sentence pairs, for --task masked_lm",
    description="""\
Copies one language of sentence pairs that are already prepared, PREPARED_DIR/data-bin, to OUT_DIR/data-bin, under the
names that fairseq's masked_lm reads: train, valid and test with one dictionary, the subword model, preparation.json and
manifest.json.""",
    examples=("--language en data/de-en-mix data/masked-lm",),
    asks=("PREPARED_DIR", "OUT_DIR"),
    own=(Option("language", "xx", "", "language to take (required)"),),
)
