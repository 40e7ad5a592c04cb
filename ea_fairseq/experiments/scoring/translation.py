"""Evaluation of translation models: from the output of fairseq-generate to texts and their scores."""

import gzip
import re
import zlib
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from fairseq.models.transformer import TransformerModel

from ea_fairseq.analysis.cost import cost
from ea_fairseq.attention.attention import Attention
from ea_fairseq.data.manifest import Layout, count_tokens
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.checkpoint import Checkpoint
from ea_fairseq.experiments.runs.data_bin import DataBin
from ea_fairseq.experiments.scoring import comet
from ea_fairseq.experiments.scoring.outcome import Description, Outcome
from ea_fairseq.experiments.scoring.results import COUNTS, REFERENCE, SOURCE, TOKENIZED, TRANSLATION, Score
from ea_fairseq.experiments.scoring.scores import DEFINITIONS, Lines, all_scores, hidden, multi_bleu, sentence_counts
from ea_fairseq.models.transformer import MechanismTransformer
from ea_fairseq.plain.text_lines import read_lines, tidy
from ea_fairseq.text.tags import untagged

SIZES = ("embed_dim", "ffn_embed_dim", "attention_heads", "layers")
SETTINGS = [*(f"{side}_{size}" for side in ("encoder", "decoder") for size in SIZES), "dropout"]


@dataclass(frozen=True)
class Texts:
    """Sources, translations and references, line by line.

    Args:
        tokens: of translations and references, with subwords joined.
        raw: translations and references.
        sources: raw, without tags.
    """

    tokens: tuple[Lines, Lines]
    raw: tuple[Lines, Lines]
    sources: Lines

    @classmethod
    def of(cls, args: Namespace, data: DataBin) -> "Texts":
        """Reads the texts of an evaluation; raises UserError if fairseq-generate did not write a line per sentence."""
        generated = args.out / "generated" / f"generate-{args.subset}.txt"
        return cls.read(generated, data, args.subset, args.reference, args.source)

    @classmethod
    def read(
        cls, generated: Path, data: DataBin, subset: str, reference: Path | None = None, source: Path | None = None
    ) -> "Texts":
        """Reads what fairseq-generate wrote.

        Args:
            reference, source: files of raw text to use instead of the data's own, detokenized.

        Raises:
            UserError: if there is not one line for each sentence of the subset, or a file cannot be read.
        """
        sentences, _ = count_tokens(data.folder, Layout(data.languages), subset)
        text = generated.read_text(encoding="utf-8")
        tokens = best_lines(text, "H", sentences), best_lines(text, "T", sentences)
        detokenize = detokenizer(data.preparation.tokenizer, data.languages[1])
        translations, references = ([detokenize(line) for line in side] for side in tokens)
        named = f"{subset} of {data.folder}"
        if reference:
            references = own_lines("--reference", reference, sentences, named)
        if source:
            sources = own_lines("--source", source, sentences, named)
        else:
            of_source = detokenizer(data.preparation.tokenizer, data.languages[0])
            lines = best_lines(text, "S", sentences)
            sources = [of_source(untagged(line, data.preparation.tags)) for line in lines]
        return cls(tokens, (translations, references), sources)

    def files(self) -> dict[str, Lines]:
        """Returns the five texts and tokenized BLEU's counts, by the names of their files."""
        counts = sentence_counts(multi_bleu(), *map(hidden, self.tokens))
        texts = *self.tokens, *self.raw, self.sources, ["\t".join(map(str, sentence)) for sentence in counts]
        return dict(zip((*TOKENIZED, TRANSLATION, REFERENCE, SOURCE, COUNTS), texts, strict=True))


def own_lines(flag: str, path: Path, sentences: int, subset: str) -> list[str]:
    """Reads the lines of a raw text; raises UserError if it is not text, or has another number of lines."""
    try:
        lines = list(read_lines(path))
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error):
        raise UserError(f"{flag}: {path} is not UTF-8, or a damaged .gz: give the text of the data.") from None
    if len(lines) != sentences:
        raise UserError(
            f"{flag}: {path} has {len(lines)} lines, and {subset} has {sentences} sentences: give the file that the "
            "data was made of."
        )
    return lines


def best_lines(generated: str, kind: str, sentences: int) -> Lines:
    """Returns the first line of a kind for each sentence in fairseq-generate's output, in the order of the data."""
    lines: dict[int, str] = {}
    for number, text in re.findall(rf"^{kind}-(\d+)\t(?:[^\t\n]*\t)??([^\t\n]*)$", generated, re.MULTILINE):
        lines.setdefault(int(number), text)
    if sorted(lines) != list(range(sentences)):
        raise UserError(f"fairseq-generate wrote {len(lines)} of {sentences} lines {kind}-...: evaluate again.")
    return [lines[number] for number in range(sentences)]


def detokenizer(tokenizer: str, language: str) -> Callable[[str], str]:
    """Returns a function that turns tokens of a language into raw text."""
    if tokenizer != "moses":
        return tidy
    from sacremoses import MosesDetokenizer

    moses = MosesDetokenizer(lang=language)
    return lambda line: tidy(moses.detokenize(line.split()))


class Translations(Outcome):
    """Translations of a subset.

    Args:
        args: the options of evaluate.py.
    """

    definitions = DEFINITIONS
    kind: ClassVar[type[DataBin]] = DataBin

    def __init__(self, args: Namespace, data: DataBin, texts: Texts):
        self.args, self.data, self.texts = args, data, texts

    @classmethod
    def read(cls, args: Namespace, checkpoint: Checkpoint) -> "Translations":
        """Reads what fairseq-generate wrote; raises UserError if it is not one line for each sentence."""
        data = cls.kind(args.data)
        return cls(args, data, Texts.of(args, data))

    def describe(self, model: TransformerModel) -> Description:
        """Describes the model for tables."""
        found = {name: getattr(model.args, name) for name in SETTINGS}
        family = model.family if isinstance(model, MechanismTransformer) else None
        if family and family.attention is Attention:  # a baseline, such as a plain T5
            family = None
        if family:
            found |= asdict(family.attention.options.from_namespace(model.args))
        return Description(family.name if family else None, found, cost(model))

    def scores(self) -> dict[str, Score]:
        """The scores of scores.py and, with ``--comet``, COMET."""
        scores = all_scores(self.texts.tokens, self.texts.raw, self.args.compound_split)
        return scores | ({comet.NAME: comet.CometScores.read(self.args.out).score} if self.args.comet else {})

    def size(self) -> str:
        """The number of sentences."""
        return f"{len(self.texts.raw[0]):,} sentences"

    def search(self) -> dict[str, float]:
        """The options of the beam search."""
        return {"beam": self.args.beam, "lenpen": self.args.lenpen}

    def notes(self) -> list[str]:
        """What a reader of the scores should know about the texts."""
        notes = (
            [f"Raw references are {self.args.reference}."]
            if self.args.reference
            else ["Raw references are those of the data, detokenized, and lower-cased if the data is."]
        )
        if self.args.source:
            notes.append(f"Raw sources are {self.args.source}.")
        if self.data.assumed:
            notes.append("The data has no preparation.json, so its tokens are taken for Moses' with BPE ('@@ ').")
        if self.args.compound_split and self.data.preparation.dash_splits:
            notes.append(
                "The data's words are already split at hyphens, so tokenized BLEU is compound-split; splitting '@-@' "
                "again, as the script does, counts each hyphen three times."
            )
        return notes

    def files(self) -> Mapping[str, Lines]:
        """The texts, and tokenized BLEU's counts."""
        return self.texts.files()
