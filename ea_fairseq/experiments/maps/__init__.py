"""Attention maps: figures, statistics and the alignment of words."""
