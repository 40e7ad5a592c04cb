"""Prints what a model costs by part; see --help."""

from experiments.costs.profile import main

# isort: split
from step import run

if __name__ == "__main__":
    run(main)
