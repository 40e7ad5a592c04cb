"""What a model costs, and what its attention maps show."""
