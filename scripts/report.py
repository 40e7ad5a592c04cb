"""Makes tables and figures of trained models' results; see --help."""

from experiments.reports.report import main  # before all else, see experiments

# isort: split
from step import run

if __name__ == "__main__":
    run(main)
