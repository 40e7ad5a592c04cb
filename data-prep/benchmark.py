"""Measure what prepare-wmt14-ende.sh costs on a corpus of any size, stage by stage, and foretell WMT'14 English-French.

    python data-prep/benchmark.py --corpus DIR [--pairs N...] [--workers N...] [--distinct] [--out DIR] [-- OPTION...]

DIR has the raw text train.de and train.en, plain or .gz, which is repeated until there is enough of it; what follows
`--` goes to the script. Each run prints a table, and OUT/benchmark.json receives all figures. Needs Linux.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from benchmarking.corpus import Corpus, write_archives
from benchmarking.projection import project
from benchmarking.stages import measure

SCRIPT = Path(__file__).with_name("prepare-wmt14-ende.sh")
OF_TRAINING = re.compile(r"europarl|/train$|^(bpe|sentencepiece|data-bin)")  # stages, whose cost grows with the text
CORES = (2, 32)  # to project to
LOG = "benchmark.log"  # of the script, beside its folder
LEAST = 0.01  # of the whole time, for a line in a table


def machine() -> dict[str, object]:
    """What this machine is."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())
    return {"cpu": model, "cores": os.cpu_count()}


def open_folder(out: Path) -> None:
    """Make the folder of the measurements; raises ValueError where it holds other files, which would be lost."""
    if out.is_dir() and any(out.iterdir()) and not (out / LOG).is_file():
        raise ValueError(f"{out} holds other files: give a new folder with --out, or that of an earlier run.")
    out.mkdir(parents=True, exist_ok=True)
    (out / LOG).touch()


def run(archives: Path, accepted: dict[str, str], workers: int, options: list[str], out: Path) -> dict[str, object]:
    """Run the script once in a new folder; what it cost."""
    shutil.rmtree(out, ignore_errors=True)
    command = ["bash", str(SCRIPT), "--archives", str(archives), "--workers", str(workers), *options]
    for archive, checksum in accepted.items():
        command += ["--accept", f"{archive}={checksum}"]
    begin = time.monotonic()
    stages, disk = measure([*command, str(out)], out, out.with_name(LOG))
    return {
        "workers": workers,
        "options": options,
        "seconds": time.monotonic() - begin,
        "disk": disk,
        "stages": [stage.described() for stage in stages if OF_TRAINING.search(stage.name)],
        "versions": json.loads((out / "data-bin/manifest.json").read_text(encoding="utf-8"))["versions"],
    }


def measured(run: dict) -> str:
    """A run in Markdown."""
    lines = [
        f"{run['pairs']:,} pairs, {run['bytes'] / 1e6:.0f} MB{', distinct' if run['distinct'] else ', repeated'}; "
        f"{' '.join(['--workers', str(run['workers']), *run['options']])}: "
        f"{run['seconds']:.0f} s, {run['disk'] / 1e6:.0f} MB of disk at most",
        "",
        "| stage | seconds | pairs/s | memory | output | processor, step + workers |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for stage in run["stages"]:
        if stage["seconds"] > LEAST * run["seconds"]:
            lines.append(
                f"| {stage['name']} | {stage['seconds']:.1f} | {run['pairs'] / stage['seconds']:,.0f} "
                f"| {stage['memory'] / 1e6:.0f} MB | {stage['bytes'] / 1e6:.0f} MB "
                f"| {stage['step_cpu']:.1f} + {stage['workers_cpu']:.1f} s |"
            )
    return "\n".join([*lines, ""])


def projected(by_cores: list[dict]) -> str:
    """What a run foretells, in Markdown."""
    lines = [
        f"WMT'14 English-French would take {by_cores[0]['disk'] / 1e9:.0f} GB of disk besides its archives and",
        "",
        f"| stage | {' | '.join(f'hours on {cores} cores' for cores in CORES)} |",
        f"| --- |{' --- |' * len(CORES)}",
    ]
    for stage, hours in by_cores[0]["hours"].items():
        if hours > LEAST * by_cores[0]["hours"]["all"]:
            cells = [f"{projection['hours'][stage]:.2f}" for projection in by_cores]
            lines.append(f"| {stage} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, metavar="DIR")
    parser.add_argument("--pairs", type=int, nargs="+", default=[100_000, 1_000_000], metavar="N")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument(
        "--distinct", action="store_true", help="give repeated pairs new words, as more text would have"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark"), metavar="DIR")
    parser.add_argument("options", nargs="*", metavar="OPTION")
    args = parser.parse_args()
    corpus, archives = Corpus(args.corpus), args.out / "archives"
    open_folder(args.out)
    report = {"command": sys.argv, "machine": machine(), "runs": []}
    if not args.distinct:
        print("Repeated text has no new words: what depends on them, the memory of BPE, needs --distinct.\n")
    for pairs in args.pairs:
        shutil.rmtree(archives, ignore_errors=True)
        archives.mkdir(parents=True)
        accepted, size = write_archives(archives, corpus.growing() if args.distinct else corpus.repeated(), pairs)
        for workers in args.workers:
            costs = run(archives, accepted, workers, args.options, args.out / "prepared")
            costs |= {"pairs": pairs, "bytes": size, "distinct": args.distinct}
            if workers > 1:
                costs["projected"] = [project(costs, cores) for cores in CORES]
            report["runs"].append(costs)
            (args.out / "benchmark.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
            print(measured(costs), flush=True)
    for costs in [costs for costs in report["runs"] if "projected" in costs][-1:]:
        print(projected(costs["projected"]))


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as error:
        sys.exit(f"benchmark: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"benchmark: the script ended with status {error.returncode}: run it by itself to see why.")
