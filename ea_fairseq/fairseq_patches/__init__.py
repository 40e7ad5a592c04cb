"""What is mended in fairseq, a fault a file."""
