"""The user's own sentence pairs: train|valid|test.{xx,yy}, plain or gzipped, checked and linked into text folders."""

import re
from argparse import Namespace
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

from ea_fairseq.data.checked_text import CheckedPairs, check_pairs
from ea_fairseq.data.manifest import BACK_TRANSLATIONS, PARTS
from ea_fairseq.data.options import PAIRS, Option
from ea_fairseq.data.pairs import SentencePairs
from ea_fairseq.data.text_folder import History
from ea_fairseq.data.text_plan import TextPlan
from ea_fairseq.errors import UserError, printable
from ea_fairseq.plain.split_folder import SPLITS
from ea_fairseq.plain.text_lines import find_optional_file, writing
from ea_fairseq.text.tags import BACK_TRANSLATED, TAGS, tag_token

OWN = (
    Option(
        "back_translations",
        "PREFIX",
        [],
        f"add PREFIX.xx, machine translations of PREFIX.yy, as training pairs tagged {tag_token(BACK_TRANSLATED)}; "
        "may be repeated",
        Path,
    ),
)


class OwnCorpus(SentencePairs):
    """The sentence pairs of a folder, and pairs whose source is machine-made."""

    def prepare(self, options: Namespace) -> None:
        """Prepares the data, or prints the plan; raises UserError for bad options or if a step fails."""
        corpus, path = options.given
        check_languages(options)
        folder = self.output_folder(path)
        plan = self.text_plan(folder, options)
        folder.say(f"checking {corpus}")
        for split, pairs in check_corpus(Path(corpus), plan.sides).items():
            plan_links(plan, f"corpus/{split}", split, pairs)
        for number, prefix in enumerate(options.back_translations, 1):
            folder.say(f"checking {prefix}")
            pairs = replace(check_pairs(prefix, plan.sides), tags=frozenset([BACK_TRANSLATED]))
            plan_links(plan, f"back-translations/{number}", BACK_TRANSLATIONS, pairs)
        require_trained_tags(plan.tags)
        chosen = replace(self, normalized=()) if options.no_normalize else self
        chosen.plan_data(plan, folder)


def check_languages(options: Namespace) -> None:
    """Raises UserError unless the options name two languages."""
    for flag, language, example in (
        ("--source-lang", options.source_lang, "de"),
        ("--target-lang", options.target_lang, "en"),
    ):
        if not re.fullmatch("[A-Za-z0-9_]{1,64}", language):
            raise UserError(f"{flag} needs a language, the suffix of its files (such as {example}), not '{language}'.")
    if options.source_lang == options.target_lang:
        raise UserError(f"--source-lang and --target-lang are both {options.source_lang}: they must differ.")


def check_corpus(corpus: Path, languages: tuple[str, ...]) -> dict[str, CheckedPairs]:
    """Checks all files of a corpus, and returns those of each split.

    Raises:
        UserError: if a file is missing or wrong, or the files of a split differ in their number of lines.
    """
    if not corpus.is_dir():
        raise UserError(f"there is no folder {corpus}: give the folder that holds the text of the corpus.")
    splits = {split: check_pairs(corpus / split, languages, keeps_empty=split != "train") for split in SPLITS}
    tags = {split: find_optional_file(corpus, f"{split}.{TAGS}") for split in SPLITS}
    return {split: pairs.tagged_by(path) if (path := tags[split]) else pairs for split, pairs in splits.items()}


def require_trained_tags(tags: dict[str, set]) -> None:
    """Raises UserError for a tag that no training pair has."""
    trained = set().union(*(tags.get(part, ()) for part in ("train", BACK_TRANSLATIONS)))
    for split, found in tags.items():
        if unknown := sorted(found - trained):
            raise UserError(
                f"{split}.{TAGS} has the tag {unknown[0]}, but no line of train.{TAGS} has it: a model can only know "
                "the tags that it is trained with."
            )


def plan_links(plan: TextPlan, output: str, part: str, pairs: CheckedPairs) -> None:
    """Plans to link the files of sentence pairs, as text of a split."""
    checksums = [(file.path.name, file.checksum) for file in pairs.files]
    place = printable(str(pairs.files[0].path.parent.absolute()))
    make = partial(link_pairs, languages=plan.sides, pairs=pairs)
    plan.add(output, make, checksums, unsized="linked", place=place)
    plan.add_source(output, part, 0 if part in ("valid", "test") else sum(file.size for file in pairs.files))
    if pairs.tags:
        plan.tags[part] = set(pairs.tags) | plan.tags.get(part, set())


def link_pairs(output: Path, *, languages: tuple[str, ...], pairs: CheckedPairs) -> None:
    """Makes a text folder of links to the files of sentence pairs; tagged pairs without a file of tags get one."""
    output.mkdir()
    for side, file in zip((*languages, TAGS), pairs.files, strict=False):
        suffix = ".gz" if file.path.suffix == ".gz" else ""
        (output / f"text.{side}{suffix}").symlink_to(file.path.absolute())
    lines = pairs.files[0].lines
    if pairs.tags and len(pairs.files) == 2:
        (tag,) = pairs.tags
        with writing(output / f"text.{TAGS}.gz") as write_line:
            for _ in range(lines):
                write_line(tag)
    history = History([{"file": file.path.name, "sha256": file.checksum} for file in pairs.files])
    history.then("read", lines, Counter(), lines).write(output)


DATA_SET = OwnCorpus(
    name="corpus",
    summary="text of your own: train|valid|test.{xx,yy}",
    description="""\
Turns the sentence pairs train|valid|test.{xx,yy} (plain or .gz) in CORPUS_DIR into fairseq data in OUT_DIR/data-bin,
with the subword model, preparation.json and manifest.json next to the data. If interrupted, run it
again to resume. If CORPUS_DIR also has train.tags (and valid.tags, test.tags), one tag per line, a source sentence
starts with the token of its tag, such as <news>; an empty line is no tag.""",
    examples=(
        "--source-lang de --target-lang en --lowercase --merges 6000 --joined-dictionary data/multi30k "
        "data/multi30k-prepared",
        "--source-lang de --target-lang en --back-translations data/news-from-en data/corpus data/corpus-and-news",
    ),
    asks=("CORPUS_DIR", "OUT_DIR"),
    languages=(("", ""),),
    normalized=PARTS,
    own=OWN,
    shared=PAIRS | {"source_lang", "target_lang", "tokenizer", "no_normalize", "dash_splits", "lowercase"},
)
