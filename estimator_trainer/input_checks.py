"""Which records of the inputs are bad: looked at before training, and again when reading one has failed.

An input_fn that can say so registers an `InputCheck` when it is called. TensorFlow's own errors name neither file nor
line, and a check in the graph would slow down the reading of good records.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from estimator_trainer import console
from estimator_trainer.compat import tf
from estimator_trainer.errors import TrainerError, tensorflow_message

# So long the record at fault is looked for when reading has failed; the first of them without a word.
_SEARCH_SECONDS = 300.0
_SILENT_SECONDS = 2.0
_BETWEEN_LOOKS = 100  # records between two looks at the clock
_TOLD = 10  # of the records that are skipped so many are told one by one


class InputCheck(Protocol):
    """One input that knows which of its records are bad.

    Attributes:
        max_bad_records: number of bad records that are skipped.
        files: what an error calls all of the input.
    """

    max_bad_records: int
    files: str

    def examine(self) -> Iterator[str | None]:
        """Yields for each record None, or its place and what is wrong with it."""

    def remarks(self) -> list[str]:
        """Returns what is to be said of the records examined."""


@dataclasses.dataclass
class Examination:
    """What is known of the inputs after their records were looked at.

    Attributes:
        mistake: the message of the error, None where the inputs are good as far as was looked.
        remarks: what else is to be said.
        complete: whether all records were looked at.
    """

    mistake: str | None = None
    remarks: Sequence[str] = ()
    complete: bool = True


class Skipped:
    """The bad records that this process has left out, once each.

    Attributes:
        places: what was wrong with which.
        say: told of each, up to a number.
    """

    def __init__(self):
        self.places: dict[str, None] = {}
        self.say: Callable[[str], None] = console.say

    def add(self, text: str) -> None:
        """Takes note of one."""
        if text not in self.places:
            self.places[text] = None
            if len(self.places) <= _TOLD:
                self.say(f'skipped {text}')
            elif len(self.places) == _TOLD + 1:
                self.say('skipped further bad records; their number is told at the end')


skipped = Skipped()
_checks: dict[str, list[InputCheck]] = {}
_failures: dict[str, str] = {}
_mode = ''  # of the input_fn that is being called


@contextlib.contextmanager
def collecting(mode: str):
    """While the block, which calls an input_fn, runs, the checks that are registered are those of a mode's input."""
    global _mode
    _mode, _checks[mode] = mode, []
    _failures.pop(mode, None)
    try:
        yield
    finally:
        _mode = ''


def register(check: InputCheck) -> str:
    """Adds a check to the input whose input_fn is being called, and returns the mode, for `fail`."""
    _checks.setdefault(_mode, []).append(check)
    return _mode


def fail(mode: str, text: str) -> TrainerError:
    """Returns the error to be raised by Python code that TensorFlow calls, whose message TensorFlow would bury."""
    _failures.setdefault(mode, text)
    return TrainerError(text)


def examine(mode: str, seconds: float) -> Examination:
    """Looks at the records of a mode's input, for at most so many seconds."""
    found = Examination()
    end = time.monotonic() + seconds
    for check in _checks.get(mode, ()):
        bad: list[str] = []
        count, complete = 0, True
        for count, text in enumerate(check.examine(), 1):
            if text is not None:
                bad.append(text)
            if count % _BETWEEN_LOOKS == 1 and time.monotonic() > end:
                found.complete = complete = False
                break
        if len(bad) > check.max_bad_records:
            found.mistake = _message(bad, check, complete)
        elif complete and len(bad) == count:
            found.mistake = f'{bad[0]}; no record is good' if bad else f'{check.files}: no record'
        if found.mistake:
            return found
        found.remarks = [*found.remarks, *check.remarks()]
    return found


def _message(bad: Sequence[str], check: InputCheck, complete: bool) -> str:
    more = len(bad) - 1
    further = f' (and {more:,} more bad record{"s" * (more > 1)}{"" if complete else " so far"})' if more else ''
    return f'{bad[0]}{further}{limit(check.max_bad_records)}'


def limit(max_bad_records: int) -> str:
    """Returns the end of an error for one bad record too many."""
    return f'; max_bad_records = {max_bad_records} allows no more' if max_bad_records else ''


@contextlib.contextmanager
def explained(mode: str):
    """Has an error of TensorFlow that comes from a mode's input name the record at fault, or at least the files.

    Raises:
        TrainerError: instead of the error of the block, where that comes from an input of ours.
    """
    try:
        yield
    except (tf.errors.OpError, UnicodeDecodeError) as error:
        if mode in _failures:
            raise TrainerError(_failures[mode]) from None
        told = _told(error)
        if not _checks.get(mode) or 'IteratorGetNext' not in f'{told} {getattr(told.op, "type", "")}':
            raise
        found = examine(mode, _SILENT_SECONDS)
        if found.mistake is None and not found.complete:
            console.say(f'a record of the input cannot be read: looking for it, for at most {_SEARCH_SECONDS:.0f} s')
            found = examine(mode, _SEARCH_SECONDS)
        if found.mistake is not None:
            raise TrainerError(found.mistake) from None
        # Of the user's own code, or of an op of the model that was merely waiting for the input.
        if 'Traceback' in told.message or (told.op is not None and 'Iterator' not in told.op.type):
            raise
        files = ', '.join(check.files for check in _checks[mode])
        raise TrainerError(f'{files}: {tensorflow_message(told)}; no record is known to be bad') from None


def _told(error: tf.errors.OpError | UnicodeDecodeError) -> tf.errors.OpError:
    """Returns the error of TensorFlow, which Python cannot raise where its message holds a value that is not UTF-8."""
    if isinstance(error, tf.errors.OpError):
        return error
    return tf.errors.InvalidArgumentError(None, None, error.object.decode(errors='backslashreplace'))
