"""The parent's side of the worker processes, and the measurement of one case."""

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.benchmark.cases import Case, Settings, Variant
from ea_fairseq.experiments.benchmark.results import Measurement
from ea_fairseq.experiments.benchmark.samples import take_rounds
from ea_fairseq.plain.memory import MEMORY_SETTINGS
from ea_fairseq.plain.processes import last_line

ALLOCATOR = ("GLIBC_TUNABLES", "MALLOC_", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")
PATIENCE = 2.0  # seconds to wait for a process to end by itself
BENCH = "ea_fairseq.experiments.benchmark.bench"


class LeftOutError(Exception):
    """The reason why a variant cannot be run here."""


def prepare_processes(tuned: bool, threads: int) -> ForkServerContext | SpawnContext:
    """Returns a context that starts processes with the allocator settings of our scripts, or without.

    Tuned processes are forked from a server that has imported everything; the first tuned process starts it. The
    environment is set in this process, and its children inherit it.
    """
    for name in [name for name in os.environ if name.startswith(ALLOCATOR)]:
        del os.environ[name]
    os.environ.update({"OMP_NUM_THREADS": str(threads)} | (MEMORY_SETTINGS if tuned else {}))
    if not tuned:
        return get_context("spawn")
    forks = get_context("forkserver")
    forks.set_forkserver_preload([BENCH])
    return forks


def serve_bench(connection: Connection, log: Path) -> None:
    """Serves requests until the other end of the connection is closed; output goes into a log."""
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends this process
    from ea_fairseq.experiments.benchmark.bench import serve

    serve(connection)


class Worker:
    """One variant of a case, in a process of its own."""

    def __init__(self, case: Case, variant: Variant, settings: Settings):
        self.variant = variant
        self._folder = TemporaryDirectory()
        self._log = Path(self._folder.name, "log")
        context = prepare_processes(variant.tuned, settings.threads)
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve_bench, args=(theirs, self._log), daemon=True)
        self._process.start()
        theirs.close()
        self.tell("build", case, variant, settings)

    def tell(self, request: str, *arguments: object) -> None:
        """Sends a request; :meth:`answer` returns the result."""
        try:
            self._connection.send((request, arguments))
        except OSError:
            raise self._ended() from None

    def answer(self) -> Any:
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

    def ask(self, request: str, *arguments: object) -> Any:
        """Sends a request and returns the answer."""
        self.tell(request, *arguments)
        return self.answer()

    def _ended(self) -> UserError:
        last = last_line(self._log)
        if not last or last.startswith(" "):  # a line of code that belongs to a warning
            last = "often because memory ran out"
        return UserError(
            f"the process that measures {self.variant.name} has ended ({last}): measure less with --tokens, --sizes, "
            "--lengths or --only."
        )

    def close(self) -> None:
        """Ends the process, by force if it is busy, and waits until its memory is free."""
        self._connection.close()
        self._process.join(PATIENCE)
        self._process.kill()
        self._process.join()
        self._folder.cleanup()


def measure(case: Case, variants: tuple[Variant, ...], settings: Settings, say: Callable[[str], None]) -> Measurement:
    """Builds all variants, warms them up, measures their costs and then, round by round, their times.

    Raises:
        UserError: if a variant fails, or counts another number of words than the rest.
    """
    with ExitStack() as stack:
        workers = []
        for variant in variants:
            workers.append(Worker(case, variant, settings))
            stack.callback(workers[-1].close)
        words: dict[Worker, int] = {}
        left_out: dict[str, str] = {}
        for worker in workers:
            try:
                words[worker] = worker.answer()
            except LeftOutError as reason:
                left_out[worker.variant.name] = str(reason)
        if not words:
            raise UserError(f"{case.title}: nothing can be measured: {next(iter(left_out.values()))}")
        require_same_work(case, {worker.variant.name: count for worker, count in words.items()})
        seconds = sum(worker.ask("warm_up", settings.seconds) for worker in words)
        if settings.rounds:
            say(f"{case.part}, {case.title}: {len(words)} variants, about {settings.rounds * seconds:.0f} s")
        costs = {worker.variant.name: worker.ask("cost") for worker in words}
        rounds, disturbed = take_rounds(
            {worker.variant.name: partial(worker.ask, "sample") for worker in words},
            settings.rounds,
            settings.limit,
            settings.attempts,
        )
    measured = [worker.variant for worker in words]
    return Measurement(case, measured, max(words.values()), costs, rounds, disturbed, left_out)


def require_same_work(case: Case, words: dict[str, int]) -> None:
    """Raises UserError if the variants of a case count different numbers of words."""
    if len({*words.values()}) != 1:
        counts = ", ".join(f"{name} {count}" for name, count in words.items())
        raise UserError(f"{case.title}: the variants work on different numbers of words ({counts}).")
