"""T5's sentinels: tokens that stand for spans of a text."""

SENTINELS = tuple(f"<extra_id_{number}>" for number in range(100))  # in the order of their use in a text
