"""Turns archives and raw text into binarised data, in steps that resume where they stopped."""
