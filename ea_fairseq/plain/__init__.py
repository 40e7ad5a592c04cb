"""What needs neither PyTorch nor fairseq; scripts take it without importing the package, which takes seconds."""
