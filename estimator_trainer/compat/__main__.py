"""Runs a program with the bridge installed: `python -m estimator_trainer.compat script.py ...`."""

from estimator_trainer.compat import runner

runner.main()
