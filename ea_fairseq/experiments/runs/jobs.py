"""Trainings and their evaluations, as many at once as there are places for them, for sweep and ablation."""

import hashlib
import os
import re
import shlex
import signal
import subprocess
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.data_checksum import data_checksum
from ea_fairseq.experiments.runs.recipe import Recipe, last_value
from ea_fairseq.experiments.runs.train import as_folder
from ea_fairseq.installation import cores
from ea_fairseq.plain.commands import Parser, at_least
from ea_fairseq.plain.output_folder import LOGS, OutputFolder
from ea_fairseq.plain.processes import die_with_parent, last_line, own_command, own_environment, stop_tree

SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
RESULTS = "results.json"


@dataclass(frozen=True)
class Job:
    """A training and its evaluation.

    Args:
        folder: in that of all jobs.
        recipe: of the training.
        training: the words after ``ea-fairseq train``.
    """

    folder: str
    recipe: Recipe
    training: list[str]


@dataclass(frozen=True)
class Step:
    """A process at work: the training or the evaluation of a job."""

    name: str
    job: Job
    device: str
    process: subprocess.Popen


def add_options(parser: Parser, seeds: str) -> None:
    """Adds the options that sweep and ablation share."""
    add = parser.add_argument
    text = f"seeds to train each model with (default: {seeds})"
    add("--seeds", type=seed_list, default=seeds, metavar="N,N,...", help=text)
    text = "trainings at once (default: one for each device; on the CPU one for each core)"
    add("--jobs", type=at_least(1), metavar="N", help=text)
    text = "GPUs by their numbers, or cpu (default: all the GPUs there are, or else cpu)"
    add("--devices", type=device_list, metavar="N,N,...", help=text)


def seed_list(text: str) -> list[str]:
    """Seeds, as they are given to fairseq."""
    if not re.fullmatch("(,(0|[1-9][0-9]*))+", f",{text}"):
        raise ArgumentTypeError(f"needs whole numbers with commas between them, not '{text}'")
    return text.split(",")


def device_list(text: str) -> list[str]:
    """Devices as CUDA names them, or the CPU."""
    if not re.fullmatch("(,[A-Za-z0-9/-]+)+", f",{text}"):
        raise ArgumentTypeError(f"needs numbers of GPUs with commas between them, or cpu, not '{text}'")
    return text.split(",")


def split_flags(words: list[str]) -> tuple[list[str], list[str]]:
    """The words before ``--``, and the flags of fairseq-train after it, which are for all jobs."""
    end = words.index("--") if "--" in words else len(words)
    flags = words[end + 1 :]
    if last_value("--seed", flags) is not None:
        raise UserError("--seed is not for all: name the seeds with --seeds.")
    return words[:end], flags


def gpu_numbers() -> list[str]:
    """The numbers of the GPUs that this machine has."""
    listing = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    try:
        return subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return []


class Jobs:
    """Jobs in a folder.

    Args:
        out: the folder, opened.
        data: binarised data of all.
        args: the options of ``add_options``.
        flags: of fairseq-train, for all jobs.
        subset: what is scored; by default what evaluate takes.
    """

    def __init__(self, out: OutputFolder, data: Path, args: Namespace, flags: list[str], subset: str | None = None):
        self.out, self.data, self.seeds, self.flags, self.subset = out, data, args.seeds, flags, subset
        self.scores = "validation" if subset else "evaluation"  # where evaluate by itself puts those of no subset
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        devices = args.devices or (gpu_numbers() if visible is None else list(filter(None, visible.split(","))))
        devices = devices or ["cpu"]
        count = args.jobs or (len(cores()) if devices == ["cpu"] else len(devices))
        self.places = [devices[number % len(devices)] for number in range(count)]
        self.threads = str(max(1, len(cores()) // count)) if devices == ["cpu"] else None
        self.checksum = data_checksum(data, test=True)
        self.jobs: list[Job] = []
        self.running: list[Step] = []
        self.failed: list[Job] = []

    def add(self, name: str, recipe: Recipe, training: list[str]) -> None:
        """Adds a job for each seed, in a folder of its name; raises UserError where there is one already."""
        for seed in self.seeds:
            job = Job(f"{as_folder(name)}/seed-{seed}", recipe, [*training, *self.flags, "--seed", seed])
            if job.folder in [other.folder for other in self.jobs]:
                raise UserError(f"{job.folder} would be trained twice: give each seed and each value once.")
            self.jobs.append(job)

    def run(self) -> None:
        """Does what is not done yet.

        Raises:
            SystemExit: after a signal, when all that was running is stopped.
        """
        with self.stopping():
            for job in self.jobs:
                if self.out.is_made(self.output(job), self.settings(job)):
                    self.out.say(f"{job.folder}: already done")
                    continue
                while not self.places:
                    self.collect()
                self.start("train", job, self.places.pop(0))
            while self.running:
                self.collect()

    def output(self, job: Job) -> str:
        """The results of a job, in the folder of all."""
        return f"{job.folder}/{self.scores}/{RESULTS}"

    def settings(self, job: Job) -> str:
        """All that the results of a job depend on."""
        recipe = hashlib.sha256(job.recipe.text.encode("utf-8", "surrogateescape")).hexdigest()
        return f"{self.data} {self.checksum} {self.subset} {recipe} {shlex.join(job.training)}"

    def start(self, name: str, job: Job, device: str) -> None:
        """Starts a step of a job."""
        folder = self.out.path / job.folder
        if name == "train":
            words = ["--data", str(self.data), "--out", str(folder), *job.training]
        else:
            words = [str(self.data), str(folder)]
            words += ["--subset", self.subset, "--out", str(folder / self.scores)] if self.subset else []
            user_dir = last_value("--user-dir", job.training)
            words += ["--user-dir", user_dir] if user_dir else []
        self.out.say(f"{job.folder}: {name} on device {device}")
        environment = own_environment() | {"CUDA_VISIBLE_DEVICES": "" if device == "cpu" else device}
        if self.threads:
            environment.setdefault("OMP_NUM_THREADS", self.threads)
        with self.log(job).open("ab") as log:
            process = subprocess.Popen(
                own_command(name, *words),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[self.out.lock],
                preexec_fn=die_with_parent,
            )
        self.running.append(Step(name, job, device, process))

    def log(self, job: Job) -> Path:
        """What the steps of a job print."""
        return self.out.path / LOGS / f"{job.folder.replace('/', '.')}.log"

    def collect(self) -> None:
        """Waits until a step ends; of those that ended, starts the next step, or frees the device."""
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        for step in [step for step in self.running if step.process.poll() is not None]:
            self.running.remove(step)
            if step.process.returncode:
                self.out.say(f"{step.job.folder}: {step.name} failed")
                self.failed.append(step.job)
            elif step.name == "train":
                self.start("evaluate", step.job, step.device)
                continue
            else:
                self.out.say(f"{step.job.folder}: done")
                self.out.stamp(self.output(step.job), self.settings(step.job))
            self.places.append(step.device)

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """Lets a signal that is not ignored stop all that is running, and then this process."""

        def stop(number: int, frame: object):
            for each in heeded:
                signal.signal(each, signal.SIG_IGN)
            raise SystemExit(128 + number)

        handlers = {number: signal.getsignal(number) for number in SIGNALS}
        heeded = [number for number, handler in handlers.items() if handler != signal.SIG_IGN]
        try:
            for number in heeded:
                signal.signal(number, stop)
            yield
        except SystemExit:
            for step in self.running:
                stop_tree(step.process.pid)
            for step in self.running:
                step.process.wait()
            self.out.say("stopped: run the same command again to resume.")
            raise
        finally:
            for number in heeded:
                signal.signal(number, handlers[number])

    def done(self) -> list[Path]:
        """The folders of the evaluations that are there."""
        return [self.out.path / job.folder / self.scores for job in self.jobs if job not in self.failed]

    def report_failures(self) -> None:
        """Raises UserError if a job failed, after the end of the log of each that did."""
        for job in self.failed:
            log = self.log(job)
            self.out.say(f"{job.folder} failed, see {log}, which ends: {last_line(log)}")
        if self.failed:
            raise UserError(
                f"{len(self.failed)} of {len(self.jobs)} failed: fix that, and run the same command again for "
                "what is left."
            )
