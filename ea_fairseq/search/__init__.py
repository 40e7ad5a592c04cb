"""What a decoder remembers from step to step, and how it follows beam search."""
