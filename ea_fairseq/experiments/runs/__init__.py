"""Trainings: starting, watching and reading them, their checkpoints, and models made from these."""
