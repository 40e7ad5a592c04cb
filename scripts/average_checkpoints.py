"""Averages checkpoints; see --help."""

from experiments.runs.averaging import main  # makes the imports from data-prep possible

# isort: split
from step import run

if __name__ == "__main__":
    run(main)
