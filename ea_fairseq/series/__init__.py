"""Multivariate time series: files, what is known of a data set, and examples for training."""
