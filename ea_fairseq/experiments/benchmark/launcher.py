"""A process that has imported everything and becomes a worker for each variant of each case.

What a process settles when it starts, such as EA_BACKEND and the allocator's settings, its workers have in common.
"""

import logging
import math
import os
import resource
import signal
import socket
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.benchmark.cases import Case, Settings, Variant
from ea_fairseq.experiments.benchmark.costs import count_operations, memory, saved_for_backward
from ea_fairseq.experiments.benchmark.encoder_workloads import ENCODER_WORKLOADS, SERIES_WORKLOADS
from ea_fairseq.experiments.benchmark.peer import PEER_WORKLOADS
from ea_fairseq.experiments.benchmark.results import Cost
from ea_fairseq.experiments.benchmark.samples import Sample
from ea_fairseq.experiments.benchmark.translation import Translation
from ea_fairseq.experiments.benchmark.workloads import WORKLOADS
from ea_fairseq.installation import cores

TICKS = 100  # of /proc/stat in a second
BUSY = (0, 1, 2, 5, 6, 7)  # its columns user, nice, system, irq, softirq and steal
WARM_UP_STEPS = 3


@dataclass(frozen=True)
class Reading:
    """Seconds on clocks: of the wall, of this process' own work, and of all work on its cores.

    Args:
        busy: summed over the cores that this process may use; what a virtual machine's host took of them counts.
    """

    wall: float
    own: float
    busy: float
    cores: int

    @classmethod
    def now(cls) -> "Reading":
        """Seconds of wall clock, of this process, and of all that the cores did."""
        usage, allowed = resource.getrusage(resource.RUSAGE_SELF), cores()
        busy = busy_seconds(Path("/proc/stat").read_text(), allowed)
        return cls(time.perf_counter(), usage.ru_utime + usage.ru_stime, busy, len(allowed))

    def taken_by_others(self, later: "Reading") -> float:
        """Share of the cores' time until a later reading that was neither idle nor this process' own."""
        others = (later.busy - self.busy) - (later.own - self.own)
        return max(0.0, others) / ((later.wall - self.wall) * self.cores)


def busy_seconds(stat: str, allowed: set[int]) -> float:
    """Seconds in which the allowed cores were not idle, from the text of /proc/stat."""
    names = {f"cpu{core}" for core in allowed}
    lines = [line.split() for line in stat.splitlines()]
    return sum(int(numbers[column]) for name, *numbers in lines if name in names for column in BUSY) / TICKS


class Bench:
    """Times one variant of a case."""

    def build(self, case: Case, variant: Variant, settings: Settings) -> int:
        """Returns the words that a step works on."""
        torch.set_num_threads(settings.threads)
        self.device = torch.device(settings.device)
        self.before = memory(self.device, "VmRSS")
        ours = WORKLOADS | ENCODER_WORKLOADS | SERIES_WORKLOADS | {"translation": Translation}
        self.workload = (PEER_WORKLOADS if variant.peer else ours)[case.part](
            case, variant, self.device, settings.dictionary, settings.seed
        )
        return self.workload.words

    def warm_up(self, least: float) -> float:
        """Takes so many steps for a sample that it lasts ``least`` seconds; returns how many seconds it lasts."""
        self.steps = 1
        seconds = min(self.timed() for _ in range(WARM_UP_STEPS))
        self.steps = max(1, math.ceil(least / seconds))
        return self.steps * seconds

    def timed(self) -> float:
        """Seconds of a step, on average over those of a sample."""
        self.synchronize()
        begin = time.perf_counter()
        for _ in range(self.steps):
            self.workload.step()
        self.synchronize()
        return (time.perf_counter() - begin) / self.steps

    def synchronize(self) -> None:
        """Waits until the GPU has done all that it was given."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def sample(self) -> Sample:
        """The seconds of one run, and the part of the processor's time that others took meanwhile."""
        before = Reading.now()
        seconds = self.timed()
        return Sample(seconds, before.taken_by_others(Reading.now()))

    def cost(self) -> Cost:
        """What a step costs; without a backward pass, operations and saved storages are None."""
        peak = memory(self.device, "VmHWM") - self.before
        workload = self.workload
        if not workload.has_backward:
            return Cost(peak, None, None, workload.one_map)
        operations = count_operations(workload.step)
        return Cost(peak, operations, saved_for_backward(workload.forward, workload.parameters), workload.one_map)


def serve(connection: Connection) -> None:
    """Answers requests, each the name of a method of Bench and its arguments, until there comes an empty one."""
    bench = Bench()
    while request := connection.recv():
        name, arguments = request
        try:
            connection.send(("answer", getattr(bench, name)(*arguments)))
        except UserError as error:
            connection.send(("left out", str(error)))
        except Exception as error:
            connection.send(("failed", f"{type(error).__name__}: {error}".partition("\n")[0]))


def launch(control: socket.socket) -> None:
    """Becomes a worker for each socket that is sent through ``control``, until that is closed."""
    logging.disable(logging.WARNING)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        _, descriptors, *_ = socket.recv_fds(control, 1, 1)
        if not descriptors:
            return
        if os.fork() == 0:
            control.close()
            try:
                serve(Connection(descriptors[0]))
            finally:
                os._exit(0)
        os.close(descriptors[0])


if __name__ == "__main__":
    launch(socket.socket(fileno=int(sys.argv[1])))
