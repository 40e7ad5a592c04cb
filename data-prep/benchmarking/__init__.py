"""What a preparation costs: corpora of any size, stages measured, and what they foretell of larger ones."""
