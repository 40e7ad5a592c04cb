"""``ea-fairseq check-gpu``: checks within minutes everything that this package does on a GPU."""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from argparse import Namespace
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ea_fairseq.data import embedded_corpus
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.gpu_check.rows import Part, Row, page
from ea_fairseq.plain.commands import Parser, at_least
from ea_fairseq.plain.files import require_path, write_whole
from ea_fairseq.plain.processes import last_line, own_command, own_environment
from ea_fairseq.plain.project import PROJECT

COMMAND = "ea-fairseq check-gpu"
DESCRIPTION = """\
Compares kernels, training and translation on a GPU with plain PyTorch, and measures their speed and memory. After each
part it writes gpu.json and gpu.md, a page of tables to publish or to paste into a bug report. The exit status is 0 if
all parts ran and agree. Parts for which there was no time are listed. Each part runs in its own process:
"""
TITLES = {
    "facts": "Machine",
    "kernels": "Kernels: largest error, relative to what rounding explains",
    "losses": "Losses of training on the embedded corpus, in bits per token",
    "speed": "Training: target tokens per second (relative to the Transformer's), and peak memory",
    "translation": "Translation of the embedded corpus by the released models: source tokens per second",
    "mechanisms": "Losses of other mechanisms, and of a compiled model, in bits per token",
    "processes": "Losses of two processes and of one, in bits per token",
    "self_checks": "Kernels that training and translation checked before use",
}
PREPARE = ("prepare", "corpus", "--source-lang", "de", "--target-lang", "en", "--merges", "5000", "--joined-dictionary")
FIRST_WITH_DATA = "losses"


def parse_arguments() -> Namespace:
    """Parses the command line and checks each value."""
    description = DESCRIPTION + "\n".join(f"  {title[0].lower()}{title[1:]}" for title in TITLES.values())
    parser = Parser("check-gpu", description, f"{COMMAND} --minutes 8 --out runs/gpu")
    add = parser.add_argument
    add("--minutes", type=at_least(0.1, float), default=8.0, metavar="N", help="time limit (default: 8)")
    add("--out", type=Path, default=PROJECT / "runs/gpu", metavar="DIR", help="folder of results (default: runs/gpu)")
    text = "cpu runs a smaller version without a GPU (default: cuda)"
    add("--device", choices=("cuda", "cpu"), default="cuda", help=text)
    return parser.parse_args()


def main() -> None:
    """Runs the parts one after the other; raises UserError if there is no GPU or a part does not agree."""
    args = parse_arguments()
    out = require_path(args.out).absolute()
    import torch

    if args.device == "cuda" and not torch.cuda.is_available():
        raise UserError(f"torch {torch.__version__} of {sys.executable} sees no GPU: give --device cpu to try without.")
    try:
        (out / "logs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write in {out} ({error.strerror}): give another folder with --out.") from None
    deadline = time.monotonic() + 60 * args.minutes
    parts = [Part(name, title) for name, title in TITLES.items()]
    for part in parts:
        if part.name == FIRST_WITH_DATA and (problem := prepare(out, deadline)):
            print(f"\n{problem}", flush=True)
        if time.monotonic() < deadline:
            print(f"\n{part.title}", flush=True)
            command = [sys.executable, "-P", "-m", "ea_fairseq.experiments.gpu_check.part", part.name, args.device]
            command += [str(out / "text"), str(out / "prepared/data-bin")]
            run(part, command, out / f"logs/{part.name}.log", deadline)
        write(parts, out)
    print(f"\nThe tables are in {out / 'gpu.md'}, the figures in {out / 'gpu.json'}, the logs next to them.")
    if wrong := [part for part in parts if not part.agrees]:
        raise UserError(
            f"{', '.join(part.name for part in wrong)}: not everything ran and agreed with PyTorch, see gpu.md."
        )
    print("Everything agrees with PyTorch.")


def prepare(out: Path, deadline: float) -> str:
    """Writes and binarises the embedded corpus; returns the problem, if any. Parts that need it then fail, too."""
    embedded_corpus.write(out / "text", embedded_corpus.unpack())
    log = out / "logs/data.log"
    with log.open("w") as file:
        process = start(
            own_command(*PREPARE, str(out / "text"), str(out / "prepared")),
            stdout=file,
            stderr=file,
            env=own_environment(),
        )
    try:
        status = process.wait(max(1.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return "there was no time to prepare the embedded corpus"
    finally:
        stop(process)
    return f"the embedded corpus could not be prepared: see {log}" if status else ""


def start(command: list[str], **options: Any) -> subprocess.Popen:
    """Starts a process that can be stopped with all its children."""
    return subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL, **options)


def stop(process: subprocess.Popen) -> None:
    """Ends a process and all its children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run(part: Part, command: list[str], log: Path, deadline: float) -> None:
    """Runs a part until the deadline, and prints each row as it arrives."""
    begin = time.monotonic()
    is_late = threading.Event()
    with log.open("w") as errors:
        process = start(command, stdout=subprocess.PIPE, stderr=errors, text=True)

    def end() -> None:
        is_late.set()
        stop(process)

    timer = threading.Timer(deadline - time.monotonic(), end)
    timer.start()
    try:
        assert process.stdout is not None
        for line in process.stdout:
            part.rows.append(Row(**json.loads(line)))
            show(part.rows[-1])
        status = process.wait()
    finally:
        timer.cancel()
        stop(process)
    part.seconds = time.monotonic() - begin
    part.state = "out of time" if is_late.is_set() else "failed" if status else "done"
    if part.state == "failed":
        part.problem = f"its process ended with {status} ({last_line(log)[:200] or 'nothing said'}): see {log}"


def show(row: Row) -> None:
    """Prints a row."""
    facts = ", ".join(f"{name} {value}".strip() for name, value in row.found.items())
    print(f"  {row.name}: {facts}" if facts else f"  {row.name}", flush=True)
    if row.problem:
        print(f"    WRONG: {row.problem}", flush=True)


def write(parts: list[Part], out: Path) -> None:
    """Writes gpu.json and gpu.md, replacing older ones."""
    command = shlex.join([*COMMAND.split(), *sys.argv[1:]])
    content = {"command": command, "parts": [asdict(part) | {"agrees": part.agrees} for part in parts]}
    write_whole(out / "gpu.json", json.dumps(content, indent=1) + "\n")
    write_whole(out / "gpu.md", page(command, parts))
