"""Gin files, each runnable by name: `python -m estimator_trainer --gin_file=configs/penguins.gin`."""
