"""Code that needs neither PyTorch nor fairseq; scripts use it without importing these, which takes seconds."""
