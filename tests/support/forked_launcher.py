"""benchmark.py's workers, in processes forked from one that has imported fairseq already."""

import os
import socket
from multiprocessing.reduction import DupFd

from forked import context


class ForkedLauncher:
    """Stands in for the process that Popen would start."""

    def __init__(self, command: list[str], env: dict[str, str], pass_fds: list[int], **_):
        self._process = context.Process(target=become_launcher, args=(DupFd(pass_fds[0]), env))
        self._process.start()
        self.pid = self._process.pid

    def wait(self) -> None:
        self._process.join()


def become_launcher(control, environment: dict[str, str]):
    os.setsid()
    os.environ.update(environment)
    from ea_fairseq.experiments.benchmark.launcher import launch

    launch(socket.socket(fileno=control.detach()))


def fork_launchers(monkeypatch) -> list[ForkedLauncher]:
    """Has launchers started so; returns them."""
    from ea_fairseq.experiments.benchmark import workers

    started = []

    def start(*arguments, **options) -> ForkedLauncher:
        started.append(ForkedLauncher(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(workers, "Popen", start)
    return started
