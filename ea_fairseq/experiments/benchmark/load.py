"""How much of the processor others took while a process worked."""

import resource
import time
from dataclasses import dataclass
from pathlib import Path

from ea_fairseq.experiments.environment import cores

TICKS = 100  # of /proc/stat in a second
BUSY = (0, 1, 2, 5, 6, 7)  # its columns user, nice, system, irq, softirq and steal


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
