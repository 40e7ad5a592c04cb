"""The worker process that measures one variant of a case: the time and other costs of a step."""

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ea_fairseq.analysis.cost import saved_for_backward
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.benchmark.cases import Case, Settings, Variant
from ea_fairseq.experiments.benchmark.encoder_workloads import Inference, SeriesTraining, Tuning
from ea_fairseq.experiments.benchmark.peer import PeerGeneration, PeerTranslation
from ea_fairseq.experiments.benchmark.results import Cost
from ea_fairseq.experiments.benchmark.samples import Sample
from ea_fairseq.experiments.benchmark.translation import Translation
from ea_fairseq.experiments.benchmark.workloads import Block, Generation, Training, Workload
from ea_fairseq.installation import cores
from ea_fairseq.kernels import dispatch

WORKLOADS: dict[str, type[Workload]] = {
    "block": Block,
    "growth": Block,
    "training": Training,
    "generation": Generation,
    "tuning": Tuning,
    "inference": Inference,
    "translation": Translation,
    "series": SeriesTraining,
}
PEER_WORKLOADS: dict[str, type[Workload]] = {"generation": PeerGeneration, "translation": PeerTranslation}
TICKS = 100  # per second, in /proc/stat
BUSY = (0, 1, 2, 5, 6, 7)  # columns user, nice, system, irq, softirq and steal of /proc/stat
UNDECLARED_VIEWS = ("aten::_unsafe_view", "aten::_reshape_alias")
WARM_UP_STEPS = 3


def serve(connection: Connection) -> None:
    """Answers requests until the other end is closed; each names a method of Bench and its arguments."""
    logging.disable(logging.WARNING)
    bench = Bench()
    while True:
        try:
            name, arguments = connection.recv()
        except EOFError:
            return
        try:
            connection.send(("answer", getattr(bench, name)(*arguments)))
        except UserError as error:
            connection.send(("left out", str(error)))
        except Exception as error:
            connection.send(("failed", f"{type(error).__name__}: {error}".partition("\n")[0]))


class Bench:
    """Times one variant of a case."""

    def build(self, case: Case, variant: Variant, settings: Settings) -> int:
        """Builds the workload; returns the number of words that a step processes."""
        torch.set_num_threads(settings.threads)
        dispatch.backend = variant.backend
        self.device = torch.device(settings.device)
        self.before = memory(self.device, "VmRSS")
        self.workload = (PEER_WORKLOADS if variant.peer else WORKLOADS)[case.part](case, variant, settings)
        return self.workload.words

    def warm_up(self, least: float) -> float:
        """Sets the steps per sample so that it lasts at least ``least`` seconds; returns its expected seconds."""
        self.steps = 1
        seconds = min(self.timed() for _ in range(WARM_UP_STEPS))
        self.steps = max(1, math.ceil(least / seconds))
        return self.steps * seconds

    def timed(self) -> float:
        """Returns the mean seconds of a step over one sample."""
        self.synchronize()
        begin = time.perf_counter()
        for _ in range(self.steps):
            self.workload.step()
        self.synchronize()
        return (time.perf_counter() - begin) / self.steps

    def synchronize(self) -> None:
        """Waits until the GPU has finished its work."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def sample(self) -> Sample:
        """Returns the seconds of a step, and the share of processor time that others took meanwhile."""
        before = Reading.now()
        seconds = self.timed()
        return Sample(seconds, before.taken_by_others(Reading.now()))

    def cost(self) -> Cost:
        """Returns the costs of a step; without a backward pass, operations and saved bytes are None."""
        peak = memory(self.device, "VmHWM") - self.before
        workload = self.workload
        if not workload.has_backward:
            return Cost(peak, None, None, workload.one_map)
        operations = count_operations(workload.step)
        return Cost(peak, operations, saved_for_backward(workload.forward, workload.parameters), workload.one_map)


@dataclass(frozen=True)
class Reading:
    """A reading of three clocks, in seconds: wall time, this process' CPU time, and busy time of its cores.

    Args:
        busy: summed over the cores that this process may use; time stolen by a virtual machine's host counts.
    """

    wall: float
    own: float
    busy: float
    cores: int

    @classmethod
    def now(cls) -> "Reading":
        """Reads the clocks."""
        allowed = cores()
        busy = busy_seconds(Path("/proc/stat").read_text(), allowed)
        return cls(time.perf_counter(), time.process_time(), busy, len(allowed))

    def taken_by_others(self, later: "Reading") -> float:
        """Returns the share of the cores' time, until a later reading, that other processes used."""
        others = (later.busy - self.busy) - (later.own - self.own)
        return max(0.0, others) / ((later.wall - self.wall) * self.cores)


def busy_seconds(stat: str, allowed: set[int]) -> float:
    """Returns the busy seconds of the allowed cores, from the text of /proc/stat."""
    names = {f"cpu{core}" for core in allowed}
    lines = [line.split() for line in stat.splitlines()]
    return sum(int(numbers[column]) for name, *numbers in lines if name in names for column in BUSY) / TICKS


class OperationCount(TorchDispatchMode):
    """Counts the operations that are dispatched to a device, except views."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.operations += not (operation.is_view or operation.name() in UNDECLARED_VIEWS)
        return operation(*args, **(kwargs or {}))


def count_operations(step: Callable[[], object]) -> int:
    """Counts the torch operations of a step, except views."""
    with OperationCount() as count:
        step()
    return count.operations


def memory(device: torch.device, name: str) -> int:
    """Returns bytes of memory: those in use now (``VmRSS``), or the peak since the process began (``VmHWM``)."""
    if device.type == "cuda":
        now = name == "VmRSS"
        return torch.cuda.memory_allocated(device) if now else torch.cuda.max_memory_allocated(device)
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
