"""Whether this package computes right on a GPU, how fast, and with how much memory: ea-fairseq check-gpu."""
