"""What attentions do to their logits, a mechanism a file."""
