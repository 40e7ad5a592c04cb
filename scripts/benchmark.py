"""Measures speed and memory beside fairseq's Transformer; see --help."""

from experiments.benchmark.command import main

# isort: split
from step import run

if __name__ == "__main__":
    run(main)
