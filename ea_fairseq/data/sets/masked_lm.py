"""One language of prepared sentence pairs, as text for ``--task masked_lm``."""

import re
from argparse import Namespace
from functools import partial
from pathlib import Path

from ea_fairseq.data.data_set import DataSet
from ea_fairseq.data.manifest import SPLITS, sha256
from ea_fairseq.data.options import Option
from ea_fairseq.data.plan import Plan
from ea_fairseq.data.take_language import MANIFEST, PREPARATION, take_language
from ea_fairseq.errors import UserError


class OneLanguage(DataSet):
    """One language of prepared sentence pairs."""

    def prepare(self, options: Namespace) -> None:
        """Makes its data; raises UserError where the pairs have no such language."""
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


DATA_SET = OneLanguage(
    name="masked-lm",
    summary="one language of prepared sentence pairs, for --task masked_lm",
    description="""\
Copies one language of the sentence pairs in PREPARED_DIR/data-bin, which another data set's preparation has made, to
OUT_DIR/data-bin, in the names that fairseq's masked_lm reads: train, valid and test with one dictionary, how words were
cut, and manifest.json.""",
    examples=("--language en data/de-en-mix data/masked-lm",),
    asks=("PREPARED_DIR", "OUT_DIR"),
    own=(Option("language", "xx", str, "", "language to take (required)"),),
)
