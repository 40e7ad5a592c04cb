"""The processes that measure, seen from the one that asks them in turn, and the measurement of one case."""

import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from subprocess import DEVNULL, Popen
from tempfile import TemporaryFile
from typing import BinaryIO

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.benchmark.cases import Case, Settings, Variant
from ea_fairseq.experiments.benchmark.results import Measurement
from ea_fairseq.experiments.benchmark.samples import take_rounds
from ea_fairseq.plain.huge_pages import HUGE_PAGES

ALLOCATOR = ("GLIBC_TUNABLES", "MALLOC_")


class LeftOutError(Exception):
    """Why a variant cannot be run here."""


class Worker:
    """One variant of a case, in a process of its own."""

    def __init__(self, variant: Variant, connection: Connection, complaints: BinaryIO):
        self.variant, self._connection, self._complaints = variant, connection, complaints

    def tell(self, request: str, *arguments) -> None:
        """Asks for what :meth:`answer` returns later."""
        try:
            self._connection.send((request, arguments))
        except OSError:
            raise self._ended() from None

    def answer(self):
        """
        Raises:
            LeftOutError, UserError
        """
        try:
            kind, answer = self._connection.recv()
        except (EOFError, OSError):
            raise self._ended() from None
        if kind == "left out":
            raise LeftOutError(answer)
        if kind == "failed":
            raise UserError(f"{self.variant.name} could not be measured ({answer}): see --sizes, --lengths, --tokens.")
        return answer

    def ask(self, request: str, *arguments):
        """What the process answers to a request."""
        self.tell(request, *arguments)
        return self.answer()

    def _ended(self) -> UserError:
        self._complaints.seek(0)
        last = self._complaints.read().decode(errors="replace").rstrip().rpartition("\n")[2]
        if not last or last.startswith(" "):  # the line of code that a warning shows
            last = "often for want of memory"
        return UserError(
            f"the process that measures {self.variant.name} has ended ({last}): measure less with --tokens, --sizes, "
            "--lengths or --only."
        )

    def close(self) -> None:
        """Waits until the process is gone, and its memory free."""
        with suppress(OSError, EOFError):
            self._connection.send(None)
            self._connection.recv()
        self._connection.close()


class Launcher:
    """A process that becomes workers; see experiments.benchmark.launcher."""

    def __init__(self, backend: str, tuned: bool, threads: int, complaints: BinaryIO):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(ALLOCATOR)}
        environment |= {"EA_BACKEND": backend, "OMP_NUM_THREADS": str(threads)} | (HUGE_PAGES if tuned else {})
        self._complaints = complaints
        self._control, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-m", "ea_fairseq.experiments.benchmark.launcher", str(theirs.fileno())]
        with theirs:
            self._process = Popen(
                command,
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=self._complaints,
                start_new_session=True,  # for killing it with all its workers, and none of them by Ctrl-C
            )

    def worker(self, variant: Variant) -> Worker:
        """One that fails when it is asked, where the launcher has ended."""
        ours, theirs = socket.socketpair()
        with theirs, suppress(BrokenPipeError):
            socket.send_fds(self._control, [b"."], [theirs.fileno()])
        return Worker(variant, Connection(ours.detach()), self._complaints)

    def close(self) -> None:
        """Ends the process and all its workers."""
        with suppress(ProcessLookupError):  # it may have ended, with all its workers
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._control.close()


class Pool:
    """Launchers, each started when the first variant needs it; at the end of the context all processes are gone."""

    def __init__(self, threads: int):
        self.threads = threads
        self._launchers: dict[tuple[str, bool], Launcher] = {}
        self._stack = ExitStack()

    def worker(self, variant: Variant) -> Worker:
        """A new worker for a variant; those of the same backend and tuning share a launcher."""
        settings = variant.backend, variant.tuned
        if settings not in self._launchers:
            self._launchers[settings] = launcher = Launcher(*settings, self.threads, self._complaints)
            self._stack.callback(launcher.close)
        return self._launchers[settings].worker(variant)

    def __enter__(self) -> "Pool":
        self._complaints = self._stack.enter_context(TemporaryFile("a+b"))
        return self

    def __exit__(self, *exception) -> None:
        self._stack.close()


def measure(
    case: Case, variants: tuple[Variant, ...], settings: Settings, pool: Pool, say: Callable[[str], None]
) -> Measurement:
    """Builds all variants, warms them up, takes their costs and then, round by round, their times.

    Where it raises an error, the workers are left to the pool, which does not wait for them.

    Raises:
        UserError: where a variant fails, or works on other words than the rest.
    """
    workers = [pool.worker(variant) for variant in variants]
    for worker in workers:
        worker.tell("build", case, worker.variant, settings)
    words, left_out = {}, {}
    for worker in workers:
        try:
            words[worker] = worker.answer()
        except LeftOutError as reason:
            left_out[worker.variant.name] = str(reason)
    if not words:
        raise UserError(f"{case.title}: nothing can be measured: {next(iter(left_out.values()))}")
    require_same_work(case, words)
    seconds = sum(worker.ask("warm_up", settings.seconds) for worker in words)
    if settings.rounds:
        say(f"{case.part}, {case.title}: {len(words)} variants, about {settings.rounds * seconds:.0f} s")
    costs = {worker.variant.name: worker.ask("cost") for worker in words}
    rounds, disturbed = take_rounds(
        {worker.variant.name: lambda worker=worker: worker.ask("sample") for worker in words},
        settings.rounds,
        settings.limit,
        settings.attempts,
    )
    for worker in workers:
        worker.close()
    measured = [worker.variant for worker in words]
    return Measurement(case, measured, max(words.values()), costs, rounds, disturbed, left_out)


def require_same_work(case: Case, words: dict[Worker, int]) -> None:
    """Raises UserError where variants count different numbers of words in a case."""
    if len({*words.values()}) != 1:
        counts = ", ".join(f"{worker.variant.name} {count}" for worker, count in words.items())
        raise UserError(f"{case.title}: the variants work on different numbers of words ({counts}).")
