"""How fast evolving attention is, and how much memory it takes, beside fairseq's Transformer of the same size."""
