"""A page on which attention maps are explored: layers, heads, stages, two models beside each other."""
