"""Data sets of sentence pairs, for translation."""

from argparse import Namespace
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from ea_fairseq.data.archives import Sources
from ea_fairseq.data.binarize import Description, binarize
from ea_fairseq.data.data_set import DataSet
from ea_fairseq.data.extract import extract_verified
from ea_fairseq.data.options import ARCHIVES, PAIRS, sources, text_settings
from ea_fairseq.data.text_plan import TextPlan
from ea_fairseq.errors import UserError
from ea_fairseq.plain.output_folder import OutputFolder
from ea_fairseq.plain.split_folder import SPLITS

SETTINGS = (
    *("lowercase", "dash_splits", "separate_subword", "joined_dictionary", "normalize"),
    *("tokenizer", "subword", "max_length", "ratio"),
)


@dataclass(frozen=True)
class ArchiveText:
    """Text of a split in an archive.

    In archive and members, ``{lang}`` stands for each language, and ``{role}`` for src with the source language and ref
    with the target language.

    Args:
        split: the split that the text belongs to.
        archive: its name in archives.tsv.
        members: members of the archive, in order.
        form: a key of ``FORMATS``.
        size: approximate size of training text in bytes.
        name: name of its folder; by default the split.
    """

    split: str
    archive: str
    members: tuple[str, ...]
    form: str = "lines"
    size: int = 0
    name: str = ""

    def plan(self, plan: TextPlan, archives: Sources) -> None:
        """Plans to get the archives and to extract the text."""
        names, needs = {}, []
        for role, language in zip(("src", "ref"), plan.sides, strict=True):
            needs.append(archives.plan(plan, self.archive.format(lang=language)))
            names[language] = [member.format(lang=language, role=role) for member in self.members]
        needs = list(dict.fromkeys(needs))  # both languages may be in one archive
        make = partial(
            extract_verified,
            archives=[plan.folder / name for name in needs],
            names=names,
            form=self.form,
            compress=plan.options.compress,
        )
        output, size = f"extracted/{self.name or self.split}", plan.size_on_disk(self.size)
        plan.add(output, make, (self.form, names), tuple(needs), size=size, intermediate=True)
        plan.add_source(output, self.split, self.size)


@dataclass(frozen=True, kw_only=True)
class SentencePairs(DataSet):
    """A data set of sentence pairs in archives.

    Args:
        languages: pairs of source and target; the first is the default.
        texts: the texts in the archives.
        steps: the steps of its preparation, in order.
        normalized: splits whose punctuation is normalised.
        valid_every: in the step ``split``, every Nth training pair becomes a validation pair.
        variants: for the name of a switch, the fields that it changes.
    """

    languages: tuple[tuple[str, str], ...] = ()
    texts: tuple[ArchiveText, ...] = ()
    steps: tuple[str, ...] = ("tokenize", "clean", "subword")
    normalized: tuple[str, ...] = SPLITS
    valid_every: int = 0
    variants: Mapping[str, dict] = field(default_factory=dict)
    shared: Collection[str] = PAIRS | ARCHIVES

    def default_options(self) -> Namespace:
        """Returns the default options."""
        source, target = self.languages[0]
        return Namespace(**vars(super().default_options()) | {"source_lang": source, "target_lang": target})

    def prepare(self, options: Namespace) -> None:
        """Prepares the data, or prints the plan; raises UserError for bad options or if a step fails."""
        (path,) = options.given
        if (options.source_lang, options.target_lang) not in self.languages:
            pairs = ", ".join(map("-".join, self.languages))
            raise UserError(f"{self.name} has {pairs}, not {options.source_lang}-{options.target_lang}: see --help.")
        chosen, archives = self, sources(options)
        for switch, changes in self.variants.items():
            if getattr(options, switch):
                chosen = replace(chosen, **changes)
        folder = self.output_folder(path)
        plan = self.text_plan(folder, options)
        for text in chosen.texts:
            text.plan(plan, archives)
        chosen.plan_data(plan, folder)

    def text_plan(self, folder: OutputFolder, options: Namespace) -> TextPlan:
        """A plan without steps."""
        return TextPlan(folder.path, options, (options.source_lang, options.target_lang))

    def plan_data(self, plan: TextPlan, folder: OutputFolder) -> None:
        """Plans the steps from text to data, and carries the plan out."""
        options, settings = plan.options, text_settings(plan.options, SETTINGS, self.normalized)
        steps: dict[str, Callable[[], None]] = {
            "tokenize": partial(plan.tokenize, plan.sides, self.normalized, plan.sample),
            "clean": plan.clean,
            "split": partial(plan.split, self.valid_every),
            "subword": plan.segment,
        }
        for step in self.steps:
            steps[step]()
        plan.tag()
        joined, tags = options.joined_dictionary, sorted(set().union(*plan.tags.values()))
        description = Description({"dataset": self.maker} | settings, plan.versions, plan.model_files())
        make = partial(binarize, joined_dictionary=joined, tags=tags, description=description)
        plan.binarize(make, (joined, tags) if tags else joined)
        is_default = settings == text_settings(self.default_options(), SETTINGS, self.normalized)
        self.carry_out(plan, folder, options, strict=is_default)
