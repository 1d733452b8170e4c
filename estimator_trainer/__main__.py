"""`python -m estimator_trainer`."""

from estimator_trainer.cli import console_main

if __name__ == '__main__':
    console_main()
