"""Trainings by recipes and what is made of them: scores, tables, figures, costs, speed."""
