"""A preparation is killed at any moment and run again: the same bytes as if it never was, and no process is left."""

import os
import random
import re
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from corpora import LANGUAGES, SCRIPT, WORDS, checksums, environment, sentence, write_corpus
from dataset_runs import QUICK, TABLE, Archives, command, path_of
from datasets import TRAIN
from ea_fairseq.data.transform import CHUNK
from mirror import Mirror, stall
from projects import is_at_work, wait_until

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

    def start(self, out: Path, options: list[str]) -> subprocess.Popen:
        self.mirror.plan(self.path, *[stall(len(self.mirror.files[self.path]) // (STALLS + 1))] * STALLS)
        whole = command("iwslt14-deen", *self.options, *options, out)
        env = environment() | QUICK | {"DOWNLOAD_STALL": "0.2"}
        with out.with_suffix(".txt").open("w") as log:
            return subprocess.Popen(whole, env=env, stdout=log, stderr=log, start_new_session=True)

    def run(self, out: Path, options: list[str]) -> float:
        """Run to the end; how many seconds it takes."""
        started = time.monotonic()
        assert self.start(out, options).wait() == 0, out.with_suffix(".txt").read_text()
        return time.monotonic() - started


def killed_after(seconds: float, run: subprocess.Popen, out: Path) -> str | None:
    """Kill all processes of a run; the step that it was at, None if it had ended well before."""
    time.sleep(seconds)
    with suppress(ProcessLookupError):
        os.killpg(run.pid, signal.SIGKILL)
    log = out.with_suffix(".txt").read_text()
    assert run.wait() in (0, -signal.SIGKILL), log
    return re.findall(r"(\S+): making it", f"start: making it\n{log}")[-1] if run.returncode else None


def whole_files(out: Path) -> dict[str, str]:
    """The checksums of what is there under its own name."""
    return {name: checksum for name, checksum in checksums(out).items() if not PARTIAL.search(name)}


@pytest.mark.slow
def test_killed_at_moments_spread_over_the_whole_run(tmp_path: Path):
    chance = random.Random(6)
    archives = Archives(tmp_path / "the archives", 40 * TRAIN)
    with Mirror(archives.served()) as mirror:
        preparation = Preparations(archives, mirror)
        times = {name: preparation.run(tmp_path / name, options) for name, options in ALL_OPTIONS.items()}
        for number in range(KILLS):
            name, out = ("compressed" if number % 2 else "plain"), tmp_path / f"killed {number}"
            moment = (number + chance.random()) / KILLS * times[name]
            while not (step := killed_after(moment, preparation.start(out, ALL_OPTIONS[name]), out)):
                shutil.rmtree(out)
                moment *= 0.9
            print(f"{name}: killed after {moment:.1f} of {times[name]:.1f} s, in {step}")
            assert whole_files(out).items() <= checksums(tmp_path / name).items()
            preparation.run(out, ALL_OPTIONS[name])
            assert checksums(out) == checksums(tmp_path / name)


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_worker_outlives_a_preparation(tmp_path: Path, sign: signal.Signals):
    corpus, out = write_corpus(tmp_path / "corpus"), tmp_path / "out"
    for language in WORDS:
        lines = [sentence(language, number) + "\n" for number in range(3 * CHUNK)]
        (corpus / f"train.{language}").write_text("".join(lines), encoding="utf-8")
    command = ["bash", SCRIPT, *LANGUAGES, "--subword", "none", "--workers", "2", corpus, out]
    run = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, start_new_session=True)
    wait_until(lambda: out.exists() and len(processes(run.pid)) > 2)
    os.kill(run.pid, sign) if sign != signal.SIGINT else os.killpg(run.pid, sign)  # Ctrl-C reaches all of them
    assert run.wait() == (128 + sign if sign == signal.SIGINT else -sign)
    wait_until(lambda: not is_at_work(run.pid))
    assert run.stderr.read() == b"" and not (out / "tokenized/train").exists()
    assert sign != signal.SIGINT or not list(out.rglob("*.tmp"))


def processes(session: int) -> list[str]:
    """Those of a session."""
    return subprocess.run(["ps", "-o", "pid=", "-s", str(session)], capture_output=True, text=True).stdout.split()
