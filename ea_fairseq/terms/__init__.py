"""What own logits are the sum of, a term a file."""
