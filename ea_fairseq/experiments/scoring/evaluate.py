"""``ea-fairseq evaluate``: translates or predicts a subset with a trained model, and scores the output."""

import hashlib
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.environment import versions
from ea_fairseq.experiments.runs.data_bin import DataBin
from ea_fairseq.experiments.runs.training_log import NAME as LOG
from ea_fairseq.experiments.runs.training_run import NAME as RUN
from ea_fairseq.experiments.runs.training_run import require_dictionaries
from ea_fairseq.experiments.scoring import comet, results
from ea_fairseq.experiments.scoring.evaluation_options import named_checkpoints, options_of
from ea_fairseq.plain.commands import quiet
from ea_fairseq.plain.memory import MEMORY_SETTINGS
from ea_fairseq.plain.output_folder import OutputFolder
from ea_fairseq.plain.processes import last_line, own_command, own_environment, program
from ea_fairseq.plain.project import PACKAGE

# The code that a model's output depends on, and the code that its scores depend on.
OF_MODELS = (
    *("attention", "blocks", "checkpoint", "examples.py", "fairseq_patches", "graphs", "hub", "images", "kernels"),
    *("mechanisms", "models", "options.py", "search", "series", "subwords", "tasks", "terms", "text"),
    *("experiments/scoring/encoder_outcome.py", "experiments/scoring/evaluation.py"),
)
OF_SCORES = ("analysis", "experiments/scoring", "experiments/runs/training_log.py")
SOURCES = {".py", ".c", ".h"}
MODEL, SCORES = "model.pt", "scores.txt"
RAW = (results.SOURCE, results.TRANSLATION, results.REFERENCE)


def main() -> None:
    """Evaluates a model; restarts itself first to set glibc's settings, which a process only reads at its start."""
    if not MEMORY_SETTINGS.items() <= os.environ.items():
        os.execve(sys.executable, own_command(*sys.argv), own_environment() | MEMORY_SETTINGS)
    evaluate(sys.argv[1:])


def evaluate(words: list[str]) -> None:
    """Evaluates a model as the words after ``ea-fairseq evaluate`` ask for."""
    quiet()
    args, data = options_of(words)
    checkpoints = named_checkpoints(args)
    dataset = data.dataset(args.subset)
    require_dictionaries(args.folder, args.data)
    with OutputFolder(args.out, "evaluate").opened() as out:
        facts = [data.task, dataset.manifest, dataset.checksum, *data.facts]
        of_checkpoints = "\n".join(map(str, [args.selection, *map(identity, checkpoints), *facts]))
        out.stage(MODEL, of_checkpoints, partial(take_model, args))
        search = [args.subset, args.beam, args.lenpen, args.max_tokens, args.cpu]
        of_search = "\n".join(map(str, [of_checkpoints, *search, code(OF_MODELS, args.user_dir)]))
        if isinstance(data, DataBin):
            out.stage("generated", of_search, partial(generate, args, data, out))
        else:
            out.stage(results.PREDICTIONS, of_search, partial(predict, args, out))
        of_translations = [*RAW, *results.TOKENIZED, results.COUNTS]
        written = [results.NAME, *(of_translations if data.task == DataBin.task else [results.PREDICTIONS])]
        if not all((out.path / name).is_file() for name in written):
            out.discard(SCORES)
        given = [args.reference, args.source]
        texts = [*given, checksum(filter(None, given))]
        if args.comet and isinstance(data, DataBin):
            model = [args.comet.folder.name, args.comet.version, identity(args.comet.folder / comet.WEIGHTS)]
            of_comet = "\n".join(map(str, [of_search, *texts, *model]))
            out.stage(comet.FILE, of_comet, partial(score_by_comet, args, data, out))
        read = [args.folder / RUN, args.folder / LOG, *([out.path / comet.FILE] if args.comet else [])]
        scoring = [args.command, args.model, args.compound_split, *texts, checksum(read), code(OF_SCORES)]
        out.stage(SCORES, "\n".join(map(str, [of_search, *scoring])), partial(score, args))
        print(f"\n{(out.path / SCORES).read_text(encoding='utf-8')}", end="")
        out.say(f"all of this is in {out.path}")


def identity(path: Path) -> str:
    """Returns a text by which a checkpoint is recognised even if its folder is moved."""
    return f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}"


def code(parts: Iterable[str], user_dir: Path | None = None) -> str:
    """Returns versions of PyTorch and fairseq, and a checksum of parts of this package and of a user-dir."""
    places = [*(PACKAGE / part for part in parts), *([user_dir] if user_dir else [])]
    files = [path for place in places for path in (place.rglob("*") if place.is_dir() else [place])]
    files = [path for path in files if path.suffix in SOURCES]
    return f"{[versions().get(tool) for tool in ('torch', 'fairseq')]} {checksum(files)}"


def checksum(files: Iterable[Path]) -> str:
    """Returns a checksum of the contents of those files that exist."""
    digest = hashlib.sha256()
    for path in sorted(filter(Path.is_file, files)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def take_model(args: Namespace, output: Path) -> None:
    """Writes the model: the average of checkpoints or a single one, without the optimizer."""
    from ea_fairseq.experiments.runs.averaging import EPOCH, UPDATES, best, last, write_average
    from ea_fairseq.experiments.runs.checkpoint import Checkpoint

    match args.selection:
        case "last", count:
            checkpoints = last(args.folder, count, EPOCH, UPDATES)
        case "best", count:
            checkpoints = best(args.folder, count)
        case name:
            checkpoints = [Checkpoint.read(args.folder / name)]
    write_average(checkpoints, output, args.data)


def generate(args: Namespace, data: DataBin, out: OutputFolder, output: Path) -> None:
    """Has fairseq-generate translate the subset; raises UserError naming its log if that fails."""
    source, target, remove_bpe = data.facts
    command = [program("fairseq-generate"), args.data, "--source-lang", source, "--target-lang", target]
    command += ["--user-dir", args.user_dir or PACKAGE, "--path", out.path / MODEL, "--gen-subset", args.subset]
    command += ["--beam", args.beam, "--lenpen", f"{args.lenpen:g}", "--max-tokens", args.max_tokens]
    command += ["--required-batch-size-multiple", 1, "--results-path", output]
    command += ["--remove-bpe", remove_bpe] if remove_bpe else []
    command += ["--cpu"] if args.cpu else []
    run_logged(command, os.environ | MEMORY_SETTINGS, out, "generate", f"translating with a beam of {args.beam}")


def score_by_comet(args: Namespace, data: DataBin, out: OutputFolder, output: Path) -> None:
    """Has comet-score score the translations; raises UserError naming its log if that fails."""
    from ea_fairseq.experiments.scoring.translation import Texts

    texts = Texts.of(args, data).files()
    with TemporaryDirectory() as folder:
        files = {Path(name).stem: Path(folder) / name for name in RAW}
        for path in files.values():
            path.write_text("".join(f"{line}\n" for line in texts[path.name]), encoding="utf-8")
        written = Path(folder) / comet.FILE
        command = args.comet.command(files, written, args.cpu)
        run_logged(command, comet.environment(), out, "comet", f"scoring with {args.comet.folder}")
        comet.CometScores.of_program(args.comet, written, len(texts[results.SOURCE])).write(output)


def run_logged(
    command: Iterable[object], variables: Mapping[str, str], out: OutputFolder, name: str, doing: str
) -> None:
    """Runs a program with these environment variables, and writes its output to the log of this name.

    Args:
        doing: what it does, in messages.

    Raises:
        UserError: if it fails or is stopped.
    """
    log = out.path / f"logs/{name}.log"
    out.say(f"{doing}; the log is {log}")
    with log.open("wb") as file:
        status = subprocess.run(
            list(map(str, command)),
            env=variables,
            stdout=file,
            stderr=subprocess.STDOUT,
            pass_fds=[out.lock],
        ).returncode
    if status < 0:
        raise UserError(
            f"{doing} was stopped by signal {-status} (9 often means too little memory): run "
            "the same command again to resume."
        )
    if status:
        raise UserError(f"{doing} failed ({last_line(log)}): see the end of {log}.")


def predict(args: Namespace, out: OutputFolder, output: Path) -> None:
    """Writes the predictions of the subset."""
    out.say(f"predicting {args.subset}")
    from ea_fairseq.experiments.scoring.evaluation import predict

    predict(args.data, out.path / MODEL, output, args.subset, args.max_tokens, args.cpu)


def score(args: Namespace, output: Path) -> None:
    """Writes texts and results.json, and a table of the scores to ``output``."""
    from ea_fairseq.experiments.scoring.evaluation import score

    score(args, output)
