"""Tasks of GLUE, and the user's own."""

import re
from argparse import Namespace

from ea_fairseq.data.labelled import OWN, LabelledSentences, Task
from ea_fairseq.data.labels import Classes, Scores
from ea_fairseq.data.options import Option
from ea_fairseq.errors import UserError


def task(
    name: str,
    sentences: int,
    counts: tuple[int, int, int],
    labels: Classes | Scores,
    test_form: str | None = None,
    without: str | None = None,
    words: tuple[str, str] | None = None,
) -> Task:
    """Returns a task of GLUE; it has a test set, a table of the form ``test_form``, if its labels are known.

    Args:
        words: T5's words for the classes, if they differ from their names.
    """
    tables = {"train": (name, f"glue-{name}-train"), "valid": (name, f"glue-{name}-dev")}
    if test_form:
        tables["test"] = (test_form, f"glue-{name}-test")
    prefix = name.replace("-", "")  # as T5 calls the tasks
    return Task(name, sentences, counts, tables, without, labels, prefix, list(words) if words else None)


BINARY = Classes(["0", "1"])
TASKS = (
    task("cola", 1, (8551, 1043, 1063), BINARY, words=("unacceptable", "acceptable")),
    task("sst-2", 1, (67349, 872, 1821), BINARY, words=("negative", "positive")),
    # GLUE left the examples of its dev out of MRPC's training file
    task(
        "mrpc",
        2,
        (3668, 408, 1725),
        BINARY,
        test_form="mrpc",
        without="glue-mrpc-dev",
        words=("not_equivalent", "equivalent"),
    ),
    task("rte", 2, (2490, 277, 3000), Classes(["entailment", "not_entailment"])),
    task("wnli", 2, (635, 71, 146), BINARY, words=("not_entailment", "entailment")),
    task("sts-b", 2, (5749, 1500, 1379), Scores(5), test_form="sts-b-test"),
)
KNOWN = {task.name: task for task in TASKS}
NAMES = ", ".join(KNOWN)


class Glue(LabelledSentences):
    """The tasks of GLUE, by ``--task``."""

    def chosen_task(self, options: Namespace) -> Task:
        """The task that the options ask for; raises UserError if none has that name."""
        name = options.task
        if not re.fullmatch("[A-Za-z][A-Za-z0-9._-]{0,63}", name):
            raise UserError(f"--task needs {NAMES} or a name of letters, digits, '.', '_' and '-', not '{name}'.")
        known = KNOWN.get(name)
        if known:
            if options.regression and isinstance(known.labels, Classes):
                raise UserError(f"{name} has classes: leave --regression out.")
            return known
        if not options.tsv:
            raise UserError(f"{name} is none of {NAMES}: give --tsv, the folder of its tables.")
        return Task(name, labels=Scores() if options.regression else None)


DATA_SET = Glue(
    name="glue",
    summary=f"a task of GLUE ({NAMES}), or labelled sentences of your own",
    description="""\
Downloads a task of GLUE and turns it into data for fairseq's sentence_prediction, OUT_DIR/data-bin/{input0,input1,
label}. GLUE's dev set is valid; test exists only if its labels are public (MRPC, STS-B). If interrupted, run it again
to resume. For your own tables give the task a name; the classes are the labels of train.tsv.""",
    own=(
        Option("task", "NAME", "", f"{NAMES} or, with --tsv, any other name (required)"),
        Option("regression", None, False, "labels are scores (sts-b: they are, and are divided by 5)"),
        *OWN,
    ),
    examples=(
        "--task cola --vocabulary runs/minilm data/glue-cola",
        "--task rte --text-to-text runs/t5-small data/t5-rte",
        "--task reviews --tsv ~/reviews --vocabulary runs/minilm data/reviews",
    ),
)
