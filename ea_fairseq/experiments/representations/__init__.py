"""Representations: the inputs of trained models' last layers, how compact their classes are, and their t-SNE plot."""
