"""``ea-fairseq quickstart``: trains a model and its baseline on a small corpus, and shows their translations.

This module imports only the standard library, so that --help and option errors work before anything is installed.
"""

import hashlib
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cached_property
from os import environ
from pathlib import Path

from ea_fairseq.data import embedded_corpus
from ea_fairseq.data.manifest import sha256
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.recipe import names, recipe_text
from ea_fairseq.plain.commands import Parser, at_least
from ea_fairseq.plain.files import require_path
from ea_fairseq.plain.flags import flag_of
from ea_fairseq.plain.output_folder import LOGS, OutputFolder
from ea_fairseq.plain.processes import die_with_parent, last_line, own_command, own_environment
from ea_fairseq.plain.project import PROJECT

BASELINE = "transformer_lite"
SECONDS = 1.0  # between two checks of the training logs
RECIPES = "quickstart"  # the data set whose recipes are used
OF_EMBEDDED = {"merges": 5000, "max_update": 1450, "max_tokens": 900}
OF_OTHERS = {"merges": 8000, "max_update": 20000, "max_tokens": 4096}
DESCRIPTION = """\
Prepares a corpus and trains ea_transformer_lite, or the model of --model, and its baseline transformer_lite on it with
the same settings. It translates the test set with both, prints their BLEU, parameters, FLOPs, speed and ten
translations, and writes a page with tables and learning curves. Without --corpus it unpacks a small German-English
corpus and takes about seven minutes on two CPU cores. scripts/quickstart.sh first creates the Python environment .venv.
If interrupted, run it again to resume; the baseline is trained only once, and a finished run prints its report again.
The learning rate falls to zero at the last update, so another number of updates is another training."""
EXAMPLE = (
    "bash scripts/quickstart.sh --corpus data/multi30k --source-lang de --target-lang en --max-update 4000\n"
    "  ea-fairseq quickstart --corpus data/multi30k --source-lang de --target-lang en --max-update 4000"
)


def options() -> Parser:
    """Returns the parser of the options."""
    parser = Parser("quickstart", DESCRIPTION, EXAMPLE)
    add, count = parser.add_argument, at_least(1)
    text = "model to compare with the baseline, from the quick start's recipes (default: ea_transformer_lite)"
    add("--model", default="ea_transformer_lite", metavar="NAME", help=text)
    text = "folder with train|valid|test.{xx,yy}, plain or .gz: raw text, one sentence per line"
    add("--corpus", type=Path, metavar="DIR", help=text)
    text = "language of the source, the suffix of its files (default: de)"
    add("--source-lang", default="de", metavar="xx", help=text)
    text = "language of the target, the suffix of its files (default: en)"
    add("--target-lang", default="en", metavar="yy", help=text)
    texts = {"merges": "BPE merges", "max_update": "updates of each training", "max_tokens": "target tokens in a batch"}
    for name, what in texts.items():
        text = f"{what} (default: {OF_EMBEDDED[name]}; for --corpus {OF_OTHERS[name]})"
        add(flag_of(name), type=count, metavar="N", help=text)
    add("--seed", type=count, default=1, metavar="N", help="seed of both trainings (default: 1)")
    text = (
        "folder for everything this writes (default: runs/quickstart; for --corpus runs/NAME-xx-yy; with a --seed "
        "other than 1, -seed-N is added)"
    )
    add("--out", type=Path, metavar="DIR", help=text)
    add("--check", action="store_true", help="only check these options and that folder")
    return parser


def completed(args: Namespace) -> Namespace:
    """Fills in the options that depend on others; raises UserError if options contradict each other."""
    models = [name.partition("/")[2] for name in names() if name.startswith(f"{RECIPES}/")]
    models.remove(BASELINE)
    if args.model not in models:
        raise UserError(
            f"--model: there is no {args.model} to compare with the baseline: give one of {' '.join(models)}."
        )
    if args.corpus and not args.corpus.is_dir():
        raise UserError(f"--corpus: there is no folder {args.corpus}.")
    if not args.corpus and (args.source_lang, args.target_lang) != ("de", "en"):
        raise UserError("the corpus of the quick start is German-English: use --corpus for other languages.")
    for name, usual in (OF_OTHERS if args.corpus else OF_EMBEDDED).items():
        if getattr(args, name) is None:
            setattr(args, name, usual)
    args.corpus = args.corpus and args.corpus.absolute()
    name = f"{args.corpus.name}-{args.source_lang}-{args.target_lang}" if args.corpus else "quickstart"
    args.out = args.out or PROJECT / "runs" / (name + (f"-seed-{args.seed}" if args.seed != 1 else ""))
    return args


class QuickStart:
    """Runs all steps of the quick start in its output folder.

    Raises:
        UserError: if that folder cannot be used.
    """

    def __init__(self, args: Namespace):
        self.args = args
        self.models = (BASELINE, args.model)
        self.folder = OutputFolder(args.out, "quickstart")
        self.out = self.folder.path
        self.corpus = args.corpus or self.out / "corpus"
        self.data = self.out / "data" / (args.corpus.name if args.corpus else "embedded-corpus")
        self.data_bin = require_path(self.data / "data-bin")
        self.folders = [self.out / model for model in self.models]

    @cached_property
    def flags(self) -> list[str]:
        """The flags of fairseq-train in addition to those of the recipes."""
        args = self.args
        found: list[object] = ["--max-tokens", args.max_tokens, "--max-update", args.max_update]
        found += ["--total-num-update", args.max_update, "--seed", args.seed]
        if args.corpus:
            search = '{"beam": 5, "max_len_a": 1.2, "max_len_b": 10}'
            found = ["--warmup-updates", args.max_update // 10 + 1, "--dropout", 0.2, *found]
            found = [*found, "--save-interval-updates", 500, "--eval-bleu-args", search]
        return list(map(str, found))

    def stamp(self, model: str) -> str:
        """Identifies a training by its text, how that is prepared, its recipe and its flags."""
        args = self.args
        recipe = recipe_text(f"{RECIPES}/{model}").encode("utf-8", "surrogateescape")
        data = f"{self.checksum_of_text()} {args.source_lang} {args.target_lang} {args.merges}"
        return f"{data} {hashlib.sha256(recipe).hexdigest()} {' '.join(self.flags)}"

    def checksum_of_text(self) -> str:
        """The SHA-256 of the raw text."""
        if not self.args.corpus:
            return embedded_corpus.SHA256
        digest = hashlib.sha256()
        for split in ("train", "valid", "test"):
            for language in (self.args.source_lang, self.args.target_lang):
                for path in (self.corpus / f"{split}.{language}", self.corpus / f"{split}.{language}.gz"):
                    digest.update(sha256(path).encode() if path.is_file() else b"-")
        return digest.hexdigest()

    def run(self) -> None:
        """Runs the steps that are not done yet, and prints the report."""
        self.claim()
        if not self.args.corpus:
            self.folder.stage(
                "corpus", embedded_corpus.SHA256, lambda path: embedded_corpus.write(path, embedded_corpus.unpack())
            )
        self.prepare()
        self.train()
        for model in self.models:
            self.evaluate(model)
        self.report()
        self.folder.say(
            f"tables and learning curves are in {self.out}/report/report.html, everything else in {self.out}"
        )

    def claim(self) -> None:
        """Creates the folders of new trainings; raises UserError if one of them holds another training.

        This comes before anything is rebuilt that existing trainings may depend on.
        """
        new = [model for model in self.models if not self.folder.is_made(model, self.stamp(model))]
        for model in new:
            if any((self.out / model).glob("checkpoint*.pt")):
                raise UserError(
                    f"{self.out / model} is a training with other settings, on other data or by another version: give "
                    "another --out, or remove that folder."
                )
        for model in new:
            self.folder.discard(model)
            (self.out / model).mkdir()
            self.folder.stamp(model, self.stamp(model))

    def prepare(self) -> None:
        """Binarises the data."""
        args = self.args
        words = ["prepare", "corpus", "--source-lang", args.source_lang, "--target-lang", args.target_lang]
        words += ["--merges", str(args.merges), "--joined-dictionary", str(self.corpus), str(self.data)]
        self.run_command(words, f"preparing {self.corpus}")

    def train(self) -> None:
        """Trains all models at once, each on its share of the cores, and shows their progress.

        Raises:
            UserError: naming a training that failed; the others are stopped.
        """
        from ea_fairseq.experiments.runs.training_log import Progress

        self.folder.say(f"training {' and '.join(self.models)}; fairseq's logs are {self.out}/*/train.log")
        with self.trainings() as processes, ExitStack() as bars:
            progress = []
            for place, folder in enumerate(self.folders):
                progress.append(Progress(folder, self.args.max_update, place, sys.stdout))
                bars.callback(progress[-1].close)
            running = True
            while running:
                running = None in [process.poll() for process in processes.values()]  # the list polls every process
                for one in progress:
                    one.look()
                for model, process in processes.items():
                    if process.returncode:
                        log = self.log(model, "err")
                        raise UserError(f"training {model} failed ({last_line(log)}): see {log}.")
                time.sleep(SECONDS if running else 0)

    @contextmanager
    def trainings(self) -> Iterator[dict[str, subprocess.Popen]]:
        """Starts or resumes the trainings; none of them outlives the context."""
        from ea_fairseq.installation import cores

        threads = (len(cores()) + 1) // len(self.models)
        variables = own_environment() | {"OMP_NUM_THREADS": environ.get("OMP_NUM_THREADS", str(threads))}
        processes = {}
        try:
            for model in self.models:
                words = ["--data", str(self.data_bin), "--out", str(self.out / model), "--model", model]
                with self.log(model, "out").open("w") as output, self.log(model, "err").open("w") as errors:
                    processes[model] = subprocess.Popen(
                        own_command("train", *words, f"{RECIPES}/{model}", *self.flags),
                        env=variables,
                        stdout=output,
                        stderr=errors,
                        preexec_fn=die_with_parent,
                    )
            yield processes
        finally:
            for process in processes.values():
                process.kill()
                process.wait()

    def log(self, name: str, kind: str) -> Path:
        """Returns the log file of a command."""
        return self.out / LOGS / f"{name}.{kind}"

    def evaluate(self, model: str) -> None:
        """Translates the test set and scores it; raises UserError if that fails."""
        self.folder.say(f"translating the test set with {model}")
        reference = self.corpus / f"test.{self.args.target_lang}"
        if not reference.is_file():
            reference = reference.with_name(f"{reference.name}.gz")
        words = ["evaluate", "--reference", str(reference), str(self.data_bin), str(self.out / model)]
        self.run_command(words, f"evaluating {model}", self.log(model, "scores"))

    def report(self) -> None:
        """Writes the report page, and prints a summary."""
        from ea_fairseq.experiments.reports.summary import summary

        args = self.args
        words = ["report", "--out", str(self.out / "report"), "--score", "BLEU"]
        words += ["--title", f"Quick start: {args.source_lang} to {args.target_lang}"]
        words += [str(folder / "evaluation") for folder in self.folders]
        self.run_command(words, "making the report", self.log("report", "log"))
        print(summary(self.folders, self.corpus, args.source_lang, args.target_lang))

    def run_command(self, words: list[str], what: str, log: Path | None = None) -> None:
        """Runs a command of this package; raises UserError if it fails, with the reason printed or in the log."""
        with log.open("w") if log else nullcontext() as output:
            done = subprocess.run(own_command(*words), env=own_environment(), stdout=output, preexec_fn=die_with_parent)
        if done.returncode:
            raise UserError(f"{what} failed: see above{f' and {log}' if log else ''}.")


def main() -> None:
    """Trains and compares the models."""
    args = completed(options().parse_args())
    quick_start = QuickStart(args)
    if args.check:
        return
    with quick_start.folder.opened():
        quick_start.run()
