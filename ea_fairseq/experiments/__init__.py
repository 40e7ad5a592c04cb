"""Training by recipes and evaluation of the results: scores, tables, figures, costs, speed."""
