"""What takes a part of a layer's channels beside its self-attention."""
