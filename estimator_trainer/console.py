"""Prints lines for a person: to stdout what a run reports, to stderr what is unexpected. No TensorFlow.

Training does not end because nobody reads its output any more (a closed pipe, a full disk under a log).
"""

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

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


def tasks(rows: Iterable[Mapping[str, Any]]) -> None:
    """Prints the table of all tasks, from rows as in `Summary.tasks`."""
    columns = ('task', 'host', 'status', 'steps', 'examples', 'seconds', 'exit')
    cells = [columns, *(['-' if row[name] is None else str(row[name]) for name in columns] for row in rows)]
    widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
    for line in cells:
        out('  '.join(f'{cell:<{width}}' for cell, width in zip(line, widths, strict=True)).rstrip())


def _write(line: str, file: TextIO) -> None:
    try:
        tqdm.tqdm.write(line, file=file)  # a progress bar moves out of the way
        file.flush()
    except OSError:
        # The rest goes nowhere, without an error for each line and for the flush when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())
