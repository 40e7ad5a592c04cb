"""Checkpoints as untrusted input: read as data, their options checked."""
