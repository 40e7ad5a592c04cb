"""Losses, which fairseq finds by their name."""
