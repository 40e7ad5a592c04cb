"""data-prep/prepare-iwslt14-deen.sh is killed at any moment and run again: the same bytes as if it never was."""

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from corpora import checksums, environment
from dataset_runs import QUICK, TABLE, Archives, command, path_of
from datasets import TRAIN
from mirror import Mirror, stall

OPTIONS = ["--merges", "200", "--workers", "1"]
ALL_OPTIONS = {"plain": OPTIONS, "compressed": [*OPTIONS, "--workers", "2", "--compress"]}
PARTIAL = re.compile(r"\.(tmp|part)\b")
STALLS = 3
KILLS = 20


class Preparations:
    """Preparations of IWSLT'14 from a mirror that comes to a standstill a few times in every download."""

    def __init__(self, archives: Archives, mirror: Mirror) -> None:
        self.mirror = mirror
        self.path = path_of(TABLE["iwslt14-de-en"][0])
        self.options = ["--mirror", mirror.url, *archives.accepting()]

    def run(self, out: Path, options: list[str], kill_after: float | None = None) -> tuple[float, str]:
        """Run to the end, or kill it after some seconds; how long it took, and the stage it was in at the end."""
        self.mirror.plan(self.path, *[stall(len(self.mirror.files[self.path]) // (STALLS + 1))] * STALLS)
        whole = command("iwslt14-deen", *self.options, *options, out)
        env = environment() | QUICK | {"DOWNLOAD_STALL": "0.2"}
        output = out.with_name(f"{out.name}.txt")
        started = time.monotonic()
        with output.open("w") as file:
            run = subprocess.Popen(whole, env=env, stdout=file, stderr=file, start_new_session=True)
            try:
                status = run.wait(kill_after)
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, signal.SIGKILL)
                status = run.wait()
        assert status == 0 or (kill_after and status == -signal.SIGKILL), output.read_text()
        stages = [line.split()[1] for line in output.read_text().splitlines() if line.endswith(": making it")]
        return time.monotonic() - started, (stages[-1] if stages else "start:")[:-1]


@contextmanager
def preparations(folder: Path, train: int) -> Iterator[Preparations]:
    """Preparations of a number of training pairs."""
    archives = Archives(folder / "the archives", train)
    with Mirror(archives.served()) as mirror:
        yield Preparations(archives, mirror)


def whole_files(out: Path) -> dict[str, str]:
    """The checksums of what is there under its own name."""
    return {name: checksum for name, checksum in checksums(out).items() if not PARTIAL.search(name)}


def test_killed_again_and_again(tmp_path: Path):
    chance = random.Random(5)
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    with preparations(tmp_path, TRAIN) as preparation:
        seconds, _ = preparation.run(undisturbed, OPTIONS)
        for _ in range(3):
            after, stage = preparation.run(killed, OPTIONS, chance.uniform(0.05, 0.25) * seconds)
            print(f"killed after {after:.1f} of {seconds:.1f} s, in {stage}")
            assert whole_files(killed).items() <= checksums(undisturbed).items()
        preparation.run(killed, OPTIONS)
    assert checksums(killed) == checksums(undisturbed)


@pytest.mark.slow
def test_killed_at_moments_spread_over_the_whole_run(tmp_path: Path):
    chance = random.Random(6)
    with preparations(tmp_path, 40 * TRAIN) as preparation:
        times = {name: preparation.run(tmp_path / name, options)[0] for name, options in ALL_OPTIONS.items()}
        for kill in range(KILLS):
            name, out = ("compressed" if kill % 2 else "plain"), tmp_path / f"killed {kill}"
            moment = (kill + chance.random()) / KILLS * times[name]
            after, stage = preparation.run(out, ALL_OPTIONS[name], moment)
            print(f"{name}: killed after {after:.1f} of {times[name]:.1f} s, in {stage}")
            assert whole_files(out).items() <= checksums(tmp_path / name).items()
            preparation.run(out, ALL_OPTIONS[name])
            assert checksums(out) == checksums(tmp_path / name)
