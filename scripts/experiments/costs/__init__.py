"""Parameters, FLOPs and times of models, by formula and counted."""
