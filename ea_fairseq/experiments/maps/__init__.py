"""Attention maps: figures, statistics and word alignment."""
