"""Fused kernels for logits, and which of them a tensor takes."""
