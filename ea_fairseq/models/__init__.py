"""Models, which fairseq finds by their architecture's name."""
