"""Runs trainings and their evaluations for sweep and ablation, in parallel on the available devices."""

import asyncio
import hashlib
import os
import re
import shlex
import signal
import subprocess
from argparse import ArgumentTypeError, Namespace
from dataclasses import dataclass
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.environment import of_gpus
from ea_fairseq.experiments.runs.data_checksum import data_checksum
from ea_fairseq.experiments.runs.recipe import Recipe, last_value
from ea_fairseq.experiments.runs.train import as_folder
from ea_fairseq.installation import cores
from ea_fairseq.plain.commands import Parser, at_least
from ea_fairseq.plain.output_folder import LOGS, OutputFolder
from ea_fairseq.plain.processes import die_with_parent, last_line, own_command, own_environment, stop_tree

SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Job:
    """A training and its evaluation.

    Args:
        folder: relative to the folder of all jobs.
        recipe: of the training.
        training: the arguments of ``ea-fairseq train``.
    """

    folder: str
    recipe: Recipe
    training: list[str]


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
    """Parses seeds, written as fairseq takes them."""
    if not re.fullmatch("(,(0|[1-9][0-9]*))+", f",{text}"):
        raise ArgumentTypeError(f"needs whole numbers with commas between them, not '{text}'")
    return text.split(",")


def device_list(text: str) -> list[str]:
    """Parses devices: CUDA's names for them, or cpu."""
    if not re.fullmatch("(,[A-Za-z0-9/-]+)+", f",{text}"):
        raise ArgumentTypeError(f"needs numbers of GPUs with commas between them, or cpu, not '{text}'")
    return text.split(",")


def split_flags(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Returns the arguments before ``--``, and the flags of fairseq-train after it, which all jobs get."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    flags = arguments[end + 1 :]
    if last_value("--seed", flags) is not None:
        raise UserError("--seed cannot be set for all jobs: name the seeds with --seeds.")
    return arguments[:end], flags


def usual_devices() -> list[str]:
    """Returns the GPUs of CUDA_VISIBLE_DEVICES or else all of this machine's; the CPU if there are none."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return (of_gpus("index") if visible is None else list(filter(None, visible.split(",")))) or ["cpu"]


class Jobs:
    """Jobs in a folder.

    Args:
        out: the folder, opened.
        data: the binarised data of all jobs.
        args: the options of ``add_options``.
        flags: of fairseq-train, for all jobs.
        subset: the one to score; by default, evaluate chooses it.
    """

    def __init__(self, out: OutputFolder, data: Path, args: Namespace, flags: list[str], subset: str | None = None):
        self.out, self.data, self.seeds, self.flags, self.subset = out, data, args.seeds, flags, subset
        self.scores = "validation" if subset else "evaluation"  # the latter is evaluate's default
        devices = args.devices or usual_devices()
        count = args.jobs or (len(cores()) if devices == ["cpu"] else len(devices))
        self.devices = [devices[number % len(devices)] for number in range(count)]
        self.threads = str(max(1, len(cores()) // count)) if devices == ["cpu"] else None
        self.checksum = data_checksum(data, test=True)
        self.jobs: list[Job] = []
        self.failed: list[Job] = []

    def add(self, name: str, recipe: Recipe, training: list[str]) -> None:
        """Adds a job for each seed, in a folder of this name; raises UserError if one of them was added before."""
        for seed in self.seeds:
            job = Job(f"{as_folder(name)}/seed-{seed}", recipe, [*training, *self.flags, "--seed", seed])
            if job.folder in [other.folder for other in self.jobs]:
                raise UserError(f"{job.folder} would be trained twice: give each seed and each value once.")
            self.jobs.append(job)

    def run(self) -> None:
        """Runs the jobs that are not done yet.

        Raises:
            SystemExit: after a signal, once all running commands are stopped.
        """
        asyncio.run(self.do_all())

    async def do_all(self) -> None:
        """Runs all jobs; a signal that is not ignored stops them, and then this process."""
        everything = asyncio.ensure_future(self.do_each())
        received: list[int] = []

        def stop(number: int) -> None:
            if not received:
                received.append(number)
                everything.cancel()

        for number in SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(number, stop, number)
        try:
            await everything
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        except asyncio.CancelledError:
            self.out.say("stopped: run the same command again to resume.")
            raise SystemExit(128 + received[0]) from None

    async def do_each(self) -> None:
        """Runs each job on the next device that becomes free."""
        free: asyncio.Queue[str] = asyncio.Queue()
        for device in self.devices:
            free.put_nowait(device)
        async with asyncio.TaskGroup() as tasks:
            for job in self.jobs:
                if self.out.is_made(self.output(job), self.settings(job)):
                    self.out.say(f"{job.folder}: already done")
                else:
                    tasks.create_task(self.do(job, free))

    async def do(self, job: Job, free: asyncio.Queue[str]) -> None:
        """Trains and evaluates one job on a free device."""
        folder, device = str(self.out.path / job.folder), await free.get()
        scored = ["--subset", self.subset, "--out", f"{folder}/{self.scores}"] if self.subset else []
        user_dir = last_value("--user-dir", job.training)
        scored += ["--user-dir", user_dir] if user_dir else []
        commands = {
            "train": ["--data", str(self.data), "--out", folder, *job.training],
            "evaluate": [str(self.data), folder, *scored],
        }
        for name, arguments in commands.items():
            self.out.say(f"{job.folder}: {name} on device {device}")
            if await self.status(own_command(name, *arguments), device, self.log(job)):
                self.out.say(f"{job.folder}: {name} failed")
                self.failed.append(job)
                break
        else:
            self.out.say(f"{job.folder}: done")
            self.out.stamp(self.output(job), self.settings(job))
        free.put_nowait(device)

    async def status(self, command: list[str], device: str, log: Path) -> int:
        """Returns the exit status of a command; if this task is cancelled, stops it and its child processes."""
        environment = own_environment() | {"CUDA_VISIBLE_DEVICES": "" if device == "cpu" else device}
        if self.threads:
            environment.setdefault("OMP_NUM_THREADS", self.threads)
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[self.out.lock],
                preexec_fn=die_with_parent,
            )
        try:
            return await process.wait()
        except asyncio.CancelledError:
            stop_tree(process.pid)
            await process.wait()
            raise

    def output(self, job: Job) -> str:
        """Returns the path of a job's results, relative to the folder of all jobs."""
        return f"{job.folder}/{self.scores}/results.json"

    def settings(self, job: Job) -> str:
        """Returns everything that a job's results depend on, as one text."""
        recipe = hashlib.sha256(job.recipe.text.encode("utf-8", "surrogateescape")).hexdigest()
        return f"{self.data} {self.checksum} {self.subset} {recipe} {shlex.join(job.training)}"

    def log(self, job: Job) -> Path:
        """Returns the log file of a job's commands."""
        return self.out.path / LOGS / f"{job.folder.replace('/', '.')}.log"

    def done(self) -> list[Path]:
        """Returns the folders of the evaluations that succeeded."""
        return [self.out.path / job.folder / self.scores for job in self.jobs if job not in self.failed]

    def report_failures(self) -> None:
        """Raises UserError if a job failed, after printing the last line of each failed job's log."""
        for job in self.failed:
            self.out.say(f"{job.folder} failed, see {self.log(job)}, which ends: {last_line(self.log(job))}")
        if self.failed:
            raise UserError(
                f"{len(self.failed)} of {len(self.jobs)} failed: fix that, and run the same command again for "
                "what is left."
            )
