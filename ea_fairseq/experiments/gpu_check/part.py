"""Runs one part of the check in a process of its own, and prints its rows as lines of JSON."""

import argparse
import importlib
import os
import sys
from pathlib import Path

import torch

import ea_fairseq.plugin  # noqa: F401  its models and criteria
from ea_fairseq.experiments.gpu_check.settings import Settings


def main() -> None:
    """Whatever else is printed, by fairseq above all, goes to stderr."""
    rows = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    parser = argparse.ArgumentParser()
    parser.add_argument("part")
    parser.add_argument("device", type=torch.device)
    parser.add_argument("text", type=Path)
    parser.add_argument("data", type=Path)
    arguments = vars(parser.parse_args())
    part = importlib.import_module(f"ea_fairseq.experiments.gpu_check.{arguments.pop('part')}")
    for row in part.check(Settings(**arguments)):
        print(row.to_line(), file=rows, flush=True)


if __name__ == "__main__":
    main()
