"""Trainings: how they are started, watched and read, their checkpoints, and models made of these."""
