"""``ea-fairseq check-gpu``: correctness, speed and memory of this package on a GPU."""
