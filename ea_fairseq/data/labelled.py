"""Data sets of labelled sentences, or pairs of sentences, for ``--task sentence_prediction``."""

from argparse import Namespace
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ea_fairseq.data.binarize import Description, binarize_sentences
from ea_fairseq.data.data_set import DataSet
from ea_fairseq.data.labels import Classes, Scores
from ea_fairseq.data.manifest import sha256
from ea_fairseq.data.options import ARCHIVES, SENTENCES, Option, folder, sources, text_settings
from ea_fairseq.data.tables import check_tables, take_table
from ea_fairseq.data.text_plan import TextPlan
from ea_fairseq.data.text_to_text import plan_text_to_text
from ea_fairseq.errors import UserError
from ea_fairseq.plain.output_folder import OutputFolder
from ea_fairseq.plain.split_folder import SPLITS
from ea_fairseq.text.subwords import T5

SIDES = ("input0", "input1")  # as fairseq calls them
LANGUAGE = "en"  # of all of these data sets, for the tokenizer
GZIPPED = 3  # the text is about this many times as large as its gzipped file
SETTINGS = ("lowercase", "normalize", "tokenizer", "subword", "threshold")
TABLES = """read train.tsv, valid.tsv and optionally test.tsv (plain or .gz) in DIR: one header line, then lines of
LABEL<TAB>SENTENCE or LABEL<TAB>SENTENCE<TAB>SENTENCE2"""
VOCABULARY = (
    Option("vocabulary", "DIR", None, "use BERT's vocabulary: vocab.txt and dict.txt of import-bert, in DIR", Path),
    Option("cased", None, False, "with --vocabulary: keep case and accents, for a cased BERT"),
)
TEXT_TO_TEXT = Option(
    "text_to_text",
    "DIR",
    None,
    "make inputs and targets for T5, with the pieces in DIR, a folder of import-t5 or of data for T5",
    folder,
)
OWN = (Option("tsv", "DIR", None, TABLES, folder), *VOCABULARY, TEXT_TO_TEXT)


@dataclass(frozen=True)
class Task:
    """A task and its data.

    Args:
        name: its name.
        sentences: number per example; None for any number.
        counts: number of examples in train, valid and test.
        tables: for each split, the form of its table (a key of ``FORMS``) and its archive.
        without: an archive whose examples are left out of the training table.
        labels: kind of labels; None for the classes in the training table.
        prefix: how text-to-text inputs begin; None for the name.
        words: text-to-text targets for the classes; None for their names.
    """

    name: str
    sentences: int | None = None
    counts: tuple[int, ...] = ()
    tables: dict[str, tuple[str, str]] | None = None
    without: str | None = None
    labels: Classes | Scores | None = None
    prefix: str | None = None
    words: list[str] | None = None


@dataclass(frozen=True, kw_only=True)
class LabelledSentences(DataSet):
    """A data set of labelled sentences.

    Args:
        task: the task, unless the options choose it.
        normalized: splits whose punctuation is normalised.
    """

    task: Task | None = None
    normalized: tuple[str, ...] = SPLITS
    shared: Collection[str] = SENTENCES | ARCHIVES
    own: tuple[Option, ...] = OWN

    def chosen_task(self, options: Namespace) -> Task:
        """The task that the options ask for."""
        assert self.task is not None  # unless a subclass chooses
        return self.task

    def prepare(self, options: Namespace) -> None:
        """Prepares the data, or prints the plan; raises UserError for bad options or if a step fails."""
        task, (path,) = self.chosen_task(options), options.given
        check_options(options)
        normalized = self.normalized
        if options.text_to_text:
            options.tokenizer, options.subword = "none", T5
        if options.vocabulary:
            options.tokenizer, normalized = "none", ()
            options.subword = "cased_wordpiece" if options.cased else "wordpiece"
        output = self.output_folder(path, task.name)
        plan = TextPlan(output.path, options, SIDES[: task.sentences])
        self.plan_text(plan, task, output)
        if options.text_to_text:
            plan_text_to_text(plan, task.name, task.prefix or task.name, task.labels, task.words, self.maker)
        else:
            self.plan_data(plan, task, normalized)
        counts = {part: count for part, count in zip(SPLITS, task.counts, strict=False) if part in plan.text}
        replace(self, counts=counts).carry_out(plan, output, options, strict=not options.subsample)

    def plan_text(self, plan: TextPlan, task: Task, output: OutputFolder) -> None:
        """Plans to take the text and the labels of each split, from the user's tables or from archives."""
        options = plan.options
        if options.tsv:
            output.say(f"checking {options.tsv}")
            plan_own_tables(plan, task)
            return
        archives = sources(options)
        for part, (form, archive) in (task.tables or {}).items():
            needs = [archives.plan(plan, archive)]
            if task.without and part == "train":
                needs.append(archives.plan(plan, task.without))
            tables = [output.path / name for name in needs]
            plan_table(plan, part, form, tables, plan.steps[needs[0]].size, tuple(needs))

    def plan_data(self, plan: TextPlan, task: Task, normalized: tuple[str, ...]) -> None:
        """Plans the steps from text to data."""
        options, settings = plan.options, text_settings(plan.options, SETTINGS, normalized)
        plan.tokenize((LANGUAGE,) * len(plan.sides), normalized)
        if options.vocabulary:
            plan.copy("vocab.txt", options.vocabulary)
            plan.models = ("vocab.txt",)
        plan.segment()
        needs = [f"extracted/{part}" for part in plan.text]
        if options.vocabulary:
            plan.copy("dict.txt", options.vocabulary)
            needs.append("dict.txt")
        named = {"dataset": self.maker, "task": task.name}
        make = partial(
            binarize_sentences,
            labels={part: plan.folder / f"extracted/{part}" for part in plan.text},
            kind=task.labels,
            description=Description(named | settings, plan.versions, plan.model_files()),
            dictionary=plan.folder / "dict.txt" if options.vocabulary else None,
            threshold=options.threshold,
        )
        how = (task.name, options.threshold, bool(options.vocabulary), task.labels)
        plan.binarize(make, how, tuple(needs))


def check_options(options: Namespace) -> None:
    """Raises UserError for options that cannot be combined."""
    if options.tsv and (options.archives or options.mirror):
        raise UserError("--tsv is text of your own: leave --archives and --mirror out.")
    words = options.vocabulary
    if words and options.text_to_text:
        raise UserError("--vocabulary is BERT's, and --text-to-text has T5's: leave one of them out.")
    if words and not all((words / name).is_file() for name in ("vocab.txt", "dict.txt")):
        raise UserError(f"--vocabulary: {words} has no vocab.txt and dict.txt: make them with ea-fairseq import-bert.")
    if options.cased and not words:
        raise UserError("--cased is for WordPiece: give --vocabulary, too.")


def plan_own_tables(plan: TextPlan, task: Task) -> None:
    """Plans to take the tables of ``--tsv``; raises UserError if the number of sentences per example is wrong."""
    tables, sentences = check_tables(plan.options.tsv)
    if sentences != (task.sentences or sentences):
        raise UserError(
            f"{tables['train']} has {sentences} sentences per example, but {task.name} has {task.sentences}."
        )
    plan.sides = SIDES[:sentences]
    for part, table in tables.items():
        size = table.stat().st_size * (GZIPPED if table.suffix == ".gz" else 1)
        plan_table(plan, part, "plain", [table], size)


def plan_table(
    plan: TextPlan, part: str, form: str, tables: list[Path], size: int, needs: tuple[str, ...] = ()
) -> None:
    """Plans to read the examples of a split from a table, without those of the second table, if there is one."""
    table, *without = tables
    sample = plan.sample if part == "train" else None
    make = partial(
        take_table, table=table, form=form, sides=plan.sides, without=without[0] if without else None, sample=sample
    )
    settings = (form, plan.sides, sample, None if needs else sha256(table))
    output = plan.add(f"extracted/{part}", make, settings, needs, size=size, intermediate=True)
    plan.add_source(output, part, size if part == "train" else 0)
