"""Pictures of the demo and of the page on which attention is explored; see --help."""

from experiments.demo.pictures import main

# isort: split
from step import run

run(main)
