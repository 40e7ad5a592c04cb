"""A small German-English grammar: sentences built once, spoken in both languages."""
