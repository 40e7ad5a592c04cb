"""Rationales: which words of a document a classifier's decision rests on, by several measures of importance."""
