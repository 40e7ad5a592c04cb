"""The benchmark of speed and memory, compared with fairseq's Transformer of the same size."""
