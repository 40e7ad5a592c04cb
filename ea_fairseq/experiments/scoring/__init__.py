"""Scores of translations, and results.json."""
