"""Imports BERT's weights; see --help."""

from experiments.runs.bert_import import main  # makes the imports from data-prep possible

# isort: split
from step import run

if __name__ == "__main__":
    run(main)
