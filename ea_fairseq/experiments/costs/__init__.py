"""Parameters, FLOPs and memory of models, counted on them."""
