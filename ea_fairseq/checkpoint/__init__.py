"""Checkpoints of strangers, read as data."""
