"""Sentence pairs of one's own."""

import re
from argparse import Namespace
from dataclasses import replace
from functools import partial
from pathlib import Path

from ea_fairseq.data.check_corpus import check_corpus, link_split
from ea_fairseq.data.options import PAIRS
from ea_fairseq.data.pairs import SentencePairs
from ea_fairseq.errors import UserError


class OwnCorpus(SentencePairs):
    """The sentence pairs of a folder."""

    def prepare(self, options: Namespace) -> None:
        """Makes its data, or shows what there is to make; raises UserError for bad options and where a step fails."""
        corpus, path = options.given
        check_languages(options)
        folder = self.output_folder(path)
        plan = self.text_plan(folder, options)
        folder.say(f"checking {corpus}")
        for part, files in check_corpus(Path(corpus), plan.sides).items():
            make = partial(link_split, languages=plan.sides, files=files)
            checksums = [(file.path.name, file.checksum) for file in files]
            place = str(Path(corpus).absolute())
            plan.add(f"corpus/{part}", make, checksums, unsized="linked", place=place)
            plan.add_source(f"corpus/{part}", part, sum(file.size for file in files) if part == "train" else 0)
        chosen = replace(self, normalized=()) if options.no_normalize else self
        chosen.plan_data(plan, folder)


def check_languages(options: Namespace) -> None:
    """Raises UserError for what are no two languages."""
    for flag, language, example in (
        ("--source-lang", options.source_lang, "de"),
        ("--target-lang", options.target_lang, "en"),
    ):
        if not re.fullmatch("[A-Za-z0-9_]{1,64}", language):
            raise UserError(f"{flag} needs a language, the suffix of its files (such as {example}), not '{language}'.")
    if options.source_lang == options.target_lang:
        raise UserError(f"--source-lang and --target-lang are both {options.source_lang}: they must differ.")


DATA_SET = OwnCorpus(
    name="corpus",
    summary="text of your own: train|valid|test.{xx,yy}",
    description="""\
Turns the sentence pairs train|valid|test.{xx,yy} (plain or .gz) in CORPUS_DIR into fairseq data in OUT_DIR/data-bin,
with the subword model, preparation.json and manifest.json beside the data. A second run goes on where the first
stopped.""",
    examples=(
        "--source-lang de --target-lang en --lowercase --merges 6000 --joined-dictionary data/multi30k "
        "data/multi30k-prepared",
    ),
    asks=("CORPUS_DIR", "OUT_DIR"),
    languages=(("", ""),),
    shared=PAIRS | {"source_lang", "target_lang", "tokenizer", "no_normalize", "dash_splits", "lowercase"},
)
