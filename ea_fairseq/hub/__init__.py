"""Trained models in Python: what they make of raw text, and their attention maps."""
