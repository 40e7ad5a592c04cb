"""Representations: what the last layers of trained models read, how compact its classes are, and t-SNE's view of it."""
