"""Plans the steps from text to subwords, which labelled sentences and sentence pairs share."""

import platform
import shutil
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ea_fairseq.data.manifest import PARTS, TRAINING, sha256
from ea_fairseq.data.plan import Plan
from ea_fairseq.data.subword_models import learn_model, make_segmenters
from ea_fairseq.data.text_folder import TextFolder
from ea_fairseq.data.tokenization import Tokenization, make_tokenizers, moses_version
from ea_fairseq.data.transform import EveryNth, PairFilter, Sample, Transform, copied, tagged, transform
from ea_fairseq.errors import UserError
from ea_fairseq.plain.records import Tag
from ea_fairseq.text.tags import TAGS

SUFFIXES = {"bpe": "codes", "sentencepiece": "model"}
TOOLS = {"bpe": "subword-nmt", "sentencepiece": "sentencepiece", "t5": "sentencepiece"}
BYTES_OF_A_PAIR = 320  # approximate maximum in a sample
COMPRESSED = 35  # size of gzipped text, in percent of the plain text's
BINARISED = 80


class TextPlan(Plan):
    """A plan of the steps that prepare text.

    Args:
        folder: the folder of the preparation.
        options: those of the command line.
        sides: names of the text's sides: languages, or input0 and input1.

    Raises:
        UserError: if a tool is not installed.

    Attributes:
        versions: versions of the tools.
        text: the text folders that hold each split so far.
        tags: the tags of each split that has some.
        sizes: approximate bytes of training text so far, by split.
        models: the subword models.
    """

    def __init__(self, folder: Path, options: Namespace, sides: tuple[str, ...]) -> None:
        super().__init__()
        self.folder, self.options, self.sides, self.versions = folder, options, sides, tool_versions(options)
        self.text: dict[str, tuple[str, ...]] = {}
        self.tags: dict[str, set[Tag]] = {}
        self.sizes = Counter[str]()
        self.models: tuple[str, ...] = ()

    @property
    def sample(self) -> Sample | None:
        """The sample of the training text that ``--subsample`` asks for."""
        return Sample(self.options.subsample, self.options.seed) if self.options.subsample else None

    def add_source(self, output: str, part: str, size: int = 0) -> None:
        """Adds the output of a step to the text of a split, and its size to that of the training text."""
        self.text[part] = (*self.text.get(part, ()), output)
        self.sizes[part] += size

    def size_on_disk(self, size: int) -> int:
        """Returns the approximate size on disk of so many bytes of training text."""
        return size * COMPRESSED // 100 if self.options.compress else size

    def folders(self, part: str) -> list[TextFolder]:
        """The text folders of a split."""
        sides = (*self.sides, TAGS) if part in self.tags else self.sides
        return [TextFolder(self.folder / name, sides) for name in self.text[part]]

    def model_files(self) -> list[Path]:
        """The files of the subword models."""
        return [self.folder / model for model in self.models]

    def add_transform(
        self,
        output: str,
        part: str,
        step: str,
        make: Callable[[], Transform],
        settings: object,
        percent: int = 100,
        **more: Any,
    ) -> None:
        """Plans a transform of the text of a split; its output then is that text.

        Args:
            step, more: arguments of :func:`transform`.
            make: builds the function to apply, once the models exist.
            percent: size of the training text afterwards, in percent of its size before.
        """
        inputs, workers = self.folders(part), self.options.workers
        compress = self.options.compress and part in TRAINING
        self.sizes[part] = self.sizes[part] * percent // 100
        size = self.size_on_disk(self.sizes[part])

        def write(path: Path) -> None:
            transform(step, make(), inputs=inputs, output=path, workers=workers, compress=compress, **more)

        self.add(output, write, settings, (*self.text[part], *self.models), size=size, intermediate=True)
        self.text[part] = (output,)

    def tokenize(self, languages: tuple[str, ...], normalized: Collection[str], sample: Sample | None = None) -> None:
        """Plans to tokenize the text.

        Args:
            languages: the languages of its sides.
            normalized: splits whose punctuation is normalised.
            sample: the sample of the training text to take.
        """
        options = self.options
        if options.subsample:
            self.sizes["train"] = min(self.sizes["train"], options.subsample * BYTES_OF_A_PAIR)
        tools = [self.versions.get(tool) for tool in ("moses", "sacremoses", "regex")]
        for part in filter(self.text.get, PARTS):
            how = (options.tokenizer, part in normalized, options.dash_splits, options.lowercase)
            drawn = sample if part == "train" else None
            make = partial(make_tokenizers, Tokenization(*how, options.moses), languages)
            settings = (*tools, how, languages, drawn)
            self.add_transform(f"tokenized/{part}", part, "tokenize", make, settings, 105, selection=drawn)

    def clean(self) -> None:
        """Plans to drop unusable training pairs."""
        limits = {"max_length": self.options.max_length, "ratio": self.options.ratio}
        make = partial(PairFilter, **limits)
        for part in filter(self.text.get, TRAINING):
            refusal = f"cleaning leaves no pair of {part}: check the languages, --max-length and --ratio."
            self.add_transform(f"cleaned/{part}", part, "clean", make, limits, 98, refusal=refusal)

    def split(self, every: int) -> None:
        """Plans to put every Nth training pair aside for validation."""
        refusal = f"there are too few pairs to put every {every}th into valid: use more text."
        both = self.text["train"]
        for part in ("train", "valid"):
            self.text[part], chosen = both, EveryNth(every, others=part == "train")
            self.add_transform(f"split/{part}", part, "split", lambda: copied, every, selection=chosen, refusal=refusal)

    def segment(self) -> None:
        """Plans to segment the text into subwords, if any, with models that are learnt from it unless given."""
        kind = self.options.subword
        if kind == "none":
            return
        if not self.models:
            self.learn_subword(kind)
        for part in filter(self.text.get, PARTS):
            make = partial(make_segmenters, kind, self.model_files(), len(self.sides))
            self.add_transform(f"subword/{part}", part, "subword", make, (kind, self.models), 115)

    def tag(self) -> None:
        """Plans to put the tags of the text in front of its source sentences."""
        for part in filter(self.tags.get, PARTS):
            self.add_transform(f"tagged/{part}", part, "tag", lambda: tagged, TAGS)

    def learn_subword(self, kind: str) -> None:
        """Plans to learn a subword model from the training text, or one for each side."""
        options = self.options
        (folder,) = self.folders("train")
        how = {"kind": kind, "size": options.merges if kind == "bpe" else options.vocab_size}
        how["model_type"] = None if kind == "bpe" else options.model_type
        parts = {f".{side}": (side,) for side in self.sides} if options.separate_subword else {"": self.sides}
        models = {f"{kind}{part}.{SUFFIXES[kind]}": sides for part, sides in parts.items()}
        for model, sides in models.items():
            make = partial(learn_model, folder=folder, sides=sides, workers=options.workers, **how)
            self.add(model, make, (how, self.versions[TOOLS[kind]], sides), self.text["train"])
        self.models = tuple(models)

    def copy(self, name: str, folder: Path) -> None:
        """Plans to copy a file from a folder."""
        self.add(name, partial(shutil.copyfile, folder / name), sha256(folder / name))

    def binarize(self, make: Callable[..., None], settings: object, needs: tuple[str, ...] = ()) -> None:
        """Plans to binarise the data.

        Args:
            make: writes it, given ``folders`` by split and ``workers``.
            needs: further steps that it needs.
        """
        parts = [part for part in PARTS if part in self.text]
        folders = {part: TextFolder(self.folder / self.text[part][0], self.sides) for part in parts}
        make = partial(make, folders=folders, workers=self.options.workers)
        needs = (*(name for part in parts for name in self.text[part]), *self.models, *needs)
        size = self.sizes.total() * BINARISED // 100
        self.add("data-bin", make, (self.versions["fairseq"], settings), needs, size=size)


def tool_version(tool: str) -> str:
    """Returns the version of a tool; raises UserError if it is not installed."""
    if find_spec(tool.replace("-", "_")) is not None:
        for distribution in ("fairseq-fixed", "fairseq") if tool == "fairseq" else (tool,):
            try:
                return metadata.version(distribution)
            except metadata.PackageNotFoundError:
                pass
    raise UserError(f"{tool} is not installed: install it with 'python -m pip install {tool}'.")


def tool_versions(options: Namespace) -> dict[str, str]:
    """Returns the versions of Python and of each tool that these options of a preparation need.

    Raises:
        UserError: if one is not installed.
    """
    tools = ["fairseq"]
    if options.tokenizer == "moses" and not options.moses:
        tools += ["sacremoses", "regex"]
    if options.subword in TOOLS:
        tools.append(TOOLS[options.subword])
    versions = {"python": platform.python_version()} | {tool: tool_version(tool) for tool in tools}
    if options.moses:
        moses = moses_version(options.moses)
        versions["moses"] = f"{moses['commit'] or 'of unknown commit,'} scripts sha256:{moses['sha256']}"
    return versions
