"""Releases a trained model; see --help."""

from experiments.runs.release import main  # makes the imports from data-prep possible

# isort: split
from step import run

if __name__ == "__main__":
    run(main)
