"""Rationales: the words of a document that a classifier's decision rests on, by several measures of importance."""
