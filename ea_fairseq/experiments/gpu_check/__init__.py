"""Whether this package computes right on a GPU, how fast, and with how much memory: scripts/check_gpu.sh."""
