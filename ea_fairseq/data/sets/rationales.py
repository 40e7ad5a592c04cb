"""Documents with human rationales, as examples for a classifier; long ones are cut into windows."""

from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from ea_fairseq.data.documents import TEXTS, Document, read_documents
from ea_fairseq.data.labelled import SIDES, VOCABULARY, LabelledSentences, Task
from ea_fairseq.data.manifest import sha256
from ea_fairseq.data.options import COUNT, SENTENCES, Option, folder
from ea_fairseq.data.tables import LABEL, write_examples
from ea_fairseq.data.text_folder import History
from ea_fairseq.data.text_plan import TextPlan
from ea_fairseq.errors import UserError
from ea_fairseq.plain.output_folder import OutputFolder
from ea_fairseq.plain.text_lines import find_optional_file, find_splits


class Rationales(LabelledSentences):
    """Documents in ERASER's form, from the folder of ``--documents``."""

    def prepare(self, options: Namespace) -> None:
        """Prepares the data, or prints the plan; raises UserError without ``--documents``."""
        if not options.documents:
            raise UserError("give --documents, the folder of train.jsonl and valid.jsonl.")
        super().prepare(options)

    def plan_text(self, plan: TextPlan, task: Task, output: OutputFolder) -> None:
        """Plans to take the windows of the documents of each split.

        Raises:
            UserError: if a file is missing or wrong, or only some documents have questions.
        """
        home, window = plan.options.documents, plan.options.window_words
        output.say(f"checking {home}")
        paths, texts = find_splits(home, "jsonl"), find_optional_file(home, TEXTS)
        documents = {part: read_documents(path) for part, path in paths.items()}
        plan.sides = SIDES[: 1 + bool(documents["train"][0].question)]
        for part, path in paths.items():
            require_same_kind(path, documents[part], len(plan.sides))
            size = sum(len(word) + 1 for one in documents[part] for word in one.words)
            files = [path, texts] if texts else [path]
            make = partial(take_documents, files=files, documents=documents[part], sides=plan.sides, window=window)
            settings = (plan.sides, window, *map(sha256, files))
            extracted = plan.add(f"extracted/{part}", make, settings, size=size, intermediate=True)
            plan.add_source(extracted, part, size if part == "train" else 0)


def require_same_kind(path: Path, documents: Sequence[Document], sides: int) -> None:
    """Raises UserError if a label is invalid, or a question is missing or unexpected."""
    for one in documents:
        if not LABEL.fullmatch(one.label):
            raise UserError(f"document '{one.name}' of {path} has no label of at most 100 characters without a space.")
        if 1 + bool(one.question) != sides:
            raise UserError(f"document '{one.name}' of {path} must have a question if and only if the others do.")


def take_documents(
    output: Path, *, files: Sequence[Path], documents: Sequence[Document], sides: tuple[str, ...], window: int
) -> None:
    """Makes a text folder of the examples of documents.

    Args:
        files: the file that the documents are from, and that of their texts if there is one.
        window: maximum words of a window.
    """
    examples = [example for one in documents for example in examples_of(one, window)]
    write_examples(output, sides, examples)
    sources: list[dict] = [{"file": path.name, "sha256": sha256(path)} for path in files]
    sources[0] |= {"documents": len(documents), "words of a window": window}
    History(sources).then("read", len(examples), Counter(), len(examples)).write(output)


def examples_of(document: Document, window: int) -> Iterator[tuple[str, ...]]:
    """Yields label and words of each window; for a document with a question, label, question and whole text."""
    if document.question:
        yield document.label, document.question, " ".join(document.words)
        return
    for start in range(0, len(document.words), window):
        yield document.label, " ".join(document.words[start : start + window])


DATA_SET = Rationales(
    name="rationales",
    summary="documents with human rationales, as ERASER's Movies and MultiRC, for a classifier of documents",
    description="""\
Turns documents with rationales, in ERASER's form, into data for fairseq's sentence_prediction. --documents is a folder
with train.jsonl, valid.jsonl and optionally test.jsonl, plain or .gz. Long documents become windows of words, each with
the label of its document. A question, with its answer, and its text become a pair. The rationales are not used for
training: ea-fairseq rationales compares the trained model with them. If interrupted, run it again to resume.""",
    examples=("--documents ~/movies --vocabulary runs/minilm data/movies",),
    shared=SENTENCES - {"subsample", "seed"},
    own=(
        Option("documents", "DIR", None, "read train.jsonl, valid.jsonl and test.jsonl (or .gz) in DIR", folder),
        Option("window_words", "N", 400, "words per window, for documents without a question", COUNT),
        *VOCABULARY,
    ),
    task=Task("documents"),
    defaults={"tokenizer": "none", "tsv": None, "text_to_text": None},
)
