"""Prints lines for a person: to stdout what a run reports, to stderr what is unexpected. No TensorFlow.

Training does not end because nobody reads its output any more (a closed pipe, a full disk under a log).
"""

import os
import sys
from typing import TextIO

import tqdm


def out(line: str) -> None:
    """Prints a line of the run's report."""
    _write(line, sys.stdout)


def say(message: str) -> None:
    """Prints a line about something unexpected."""
    err(f'estimator_trainer: {message}')


def err(text: str) -> None:
    """Prints what is not ours, such as the lines of another task, to stderr."""
    _write(text, sys.stderr)


def _write(line: str, file: TextIO) -> None:
    try:
        tqdm.tqdm.write(line, file=file)  # a progress bar moves out of the way
        file.flush()
    except OSError:
        # The rest goes nowhere, without an error for each line and for the flush when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())
