"""Pictures and statistics of a trained model's attention maps; see --help."""

from experiments.maps.attention_maps import main

# isort: split
from step import run

run(main)
