"""Labelled sentences as text to text, worded as for T5: from a task's name and its sentences to a word for the label.

``mrpc sentence1: ... sentence2: ...`` -> ``equivalent`` (Raffel et al., 2020, appendix D).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ea_fairseq.data.binarize import OF_PAIRS, Description, binarize
from ea_fairseq.data.labels import Classes, Scores
from ea_fairseq.data.manifest import sha256
from ea_fairseq.data.tables import LABELS
from ea_fairseq.data.text_folder import TextFolder, encode_lines, writing_sides
from ea_fairseq.data.text_plan import TextPlan
from ea_fairseq.errors import UserError
from ea_fairseq.plain.records import FileName
from ea_fairseq.plain.text_lines import read_lines
from ea_fairseq.text.preparation import PREPARATION, Preparation
from ea_fairseq.text.subwords import PIECES, T5, make_segmenter
from ea_fairseq.text.t5_pieces import LANGUAGES

DICTIONARY = "dict.txt"
STEPS_OF_SCORES = 5  # per unit: scores are written in steps of 0.2


def read_vocabulary(folder: Path) -> FileName:
    """Returns the name of the SentencePiece model in a folder of ``import-t5``, or of data for T5.

    Raises:
        UserError: if there is none.
    """
    if all((folder / name).is_file() for name in (DICTIONARY, PREPARATION)):
        preparation = Preparation.read(folder)
        if preparation.subword in PIECES and preparation.tokenizer == "none" and not preparation.lowercase:
            return preparation.models[0]
    raise UserError(
        f"--text-to-text: {folder} has no {DICTIONARY} of sentencepiece: make it with ea-fairseq import-t5, or with "
        "ea-fairseq prepare text."
    )


def plan_text_to_text(
    plan: TextPlan, name: str, prefix: str, kind: Classes | Scores | None, words: list[str] | None, maker: str
) -> None:
    """Plans the steps from the text and the labels of each split to data for translation.

    Args:
        name: name of the task.
        prefix: the beginning of each input.
        kind: kind of labels; None for the classes of the training set.
        words: words for the classes, in the order of their numbers; None for their names.
        maker: maker of the data, as manifest.json names it.
    """
    options, (tables,) = plan.options, plan.text["train"]
    vocabulary, model = options.text_to_text, read_vocabulary(options.text_to_text)
    training, sides = plan.folder / tables / LABELS, plan.sides
    for part, (output,) in plan.text.items():
        folder = TextFolder(plan.folder / output, sides)
        make = partial(write_targets, folder=folder, prefix=prefix, kind=kind, words=words, training=training)
        how = (prefix, kind, words)
        needs = (output, tables)
        plan.text[part] = (plan.add(f"text-to-text/{part}", make, how, needs, intermediate=True),)
    plan.sides = LANGUAGES
    for file in (model, DICTIONARY):
        plan.copy(file, vocabulary)
    plan.models, options.subword = (model,), T5
    plan.segment()
    settings = {"dataset": maker, "tokenizer": "none", "normalize": False, "dash_splits": False, "lowercase": False}
    settings |= {"subword": T5, "task": name}
    description = Description(settings, plan.versions, plan.model_files())
    make = partial(
        binarize_examples,
        kind=kind,
        words=words,
        training=training,
        dictionary=plan.folder / DICTIONARY,
        description=description,
    )
    plan.binarize(make, (name, prefix, kind, words, sha256(vocabulary / DICTIONARY)), (DICTIONARY, tables))


def write_targets(
    output: Path,
    *,
    folder: TextFolder,
    prefix: str,
    kind: Classes | Scores | None,
    words: list[str] | None,
    training: Path,
) -> None:
    """Makes a text folder of inputs and targets from one of labelled sentences.

    Args:
        training: the labels of the training set.

    Raises:
        UserError: naming the first invalid label.
    """
    kind = kind or Classes.found_in(training)
    names = ["sentence1:", "sentence2:"] if len(folder.languages) == 2 else ["sentence:"]
    count = 0
    with writing_sides(TextFolder(output, LANGUAGES)) as write:
        for count, (sentences, label) in enumerate(zip(folder.pairs(), labels_of(folder), strict=True), 1):
            parts = (f"{name} {sentence.decode().strip()}" for name, sentence in zip(names, sentences, strict=True))
            lines = " ".join([prefix, *parts]), word_for(label, kind, words, count, folder)
            write(*(encode_lines([line], compress=False) for line in lines))
    folder.history.then("text to text", count, Counter(), count).write(output)


def labels_of(folder: TextFolder) -> Iterator[str]:
    """The labels of a text folder's sentences."""
    return read_lines(folder.path / LABELS)


def word_for(label: str, kind: Classes | Scores, words: list[str] | None, number: int, folder: TextFolder) -> str:
    """Returns the word for a label; scores are rounded to steps of 0.2, as T5 does for STS-B.

    Raises:
        UserError: naming the label, if it is invalid.
    """
    try:
        found = kind.number(label)
    except ValueError:
        raise UserError(f"label {number} of {folder.path.name} is {label}, and must be {kind.wanted}.") from None
    if isinstance(kind, Classes):
        return (words or kind.names)[int(found)]
    return f"{round(float(label) * STEPS_OF_SCORES) / STEPS_OF_SCORES:.1f}"


def binarize_examples(
    output: Path,
    *,
    kind: Classes | Scores | None,
    words: list[str] | None,
    training: Path,
    dictionary: Path,
    description: Description,
    **more: Any,
) -> None:
    """Writes inputs and targets as data for translation; preparation.json names the task and the words for its classes.

    Args:
        training: the labels of the training set.
        dictionary: fairseq's, with the vocabulary's pieces.
        more: further arguments of :func:`binarize`.

    Raises:
        UserError: if a class has a name that the pieces cannot write.
    """
    kind = kind or Classes.found_in(training)
    classes = (words or kind.names) if isinstance(kind, Classes) else None
    require_known(classes or (), description.models[0], dictionary)
    described = replace(description, settings=description.settings | {"classes": classes})
    names = (*OF_PAIRS, "task", "classes")
    more |= {"dictionary": dictionary, "description": described, "preparation": names}
    binarize(output, joined_dictionary=True, tags=[], **more)


def require_known(words: Iterable[str], model: Path, dictionary: Path) -> None:
    """Raises UserError if a word has a piece that is not in the dictionary: no model could write it."""
    segment, known = make_segmenter(T5, model), {line.split(" ")[0] for line in read_lines(dictionary)}
    for word in words:
        if not known.issuperset(segment(word).split()):
            raise UserError(f"--text-to-text: the pieces of {model} cannot write the label {word}: take another name.")
