"""A process that has imported everything and becomes a worker for each variant of each case.

What a process settles when it starts, such as EA_BACKEND and the allocator's settings, its workers have in common.
"""

import logging
import math
import os
import signal
import socket
import sys
import time
from multiprocessing.connection import Connection

import torch

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.benchmark.cases import Case, Settings, Variant
from ea_fairseq.experiments.benchmark.costs import count_operations, memory, saved_for_backward
from ea_fairseq.experiments.benchmark.encoder_workloads import ENCODER_WORKLOADS
from ea_fairseq.experiments.benchmark.load import Reading
from ea_fairseq.experiments.benchmark.peer import PEER_WORKLOADS
from ea_fairseq.experiments.benchmark.results import Cost
from ea_fairseq.experiments.benchmark.samples import Sample
from ea_fairseq.experiments.benchmark.series_workloads import SERIES_WORKLOADS
from ea_fairseq.experiments.benchmark.translation import Translation
from ea_fairseq.experiments.benchmark.workloads import WORKLOADS

WARM_UP_STEPS = 3


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
