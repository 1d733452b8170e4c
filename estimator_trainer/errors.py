"""The errors people see, each with the exit code it ends the process with.

A message is one line: the place at fault (file and line, flag, environment variable, record), what was
found there, what was expected, and the nearest valid name.
"""

import difflib
import re
import traceback
from collections.abc import Iterable


class TrainerError(Exception):
    """A failure that a restart cannot mend: exit code 1, one line, no traceback."""

    exit_code = 1


class UserError(TrainerError):
    """The caller's mistake, found before anything is written: exit code 2."""

    exit_code = 2


class RestartableError(TrainerError):
    """A failure that a restart may mend (lost peer, failed chief, start-up time-out): exit code 138.

    138 is what Kubeflow's `ExitCode` restart policy retries; `trainer.restart_exit_code` changes it.
    """

    exit_code = 138


def nearest(name: str, valid: Iterable[str]) -> str:
    """Returns `"; did you mean 'a' or 'b'?"` for the names in `valid` close to `name`, or an empty string."""
    matches = difflib.get_close_matches(name, list(dict.fromkeys(valid)), n=3, cutoff=0.6)
    return f'; did you mean {" or ".join(repr(match) for match in matches)}?' if matches else ''


# What TensorFlow and Python say where code for eager mode meets a graph.
_EAGER_CODE = re.compile(
    r"Tensor'? object has no attribute '(?P<method>numpy|item|tolist)'|"
    r'(?P<eager>numpy)\(\) is only available when eager|'
    r'(?P<bool>[Uu]sing a( symbolic)? `?tf.Tensor`? as a Python `?bool`?)|'
    r"(?P<iteration>[Ii]terating over a( symbolic)? `?tf.Tensor`?|'SymbolicTensor' is not iterable)|"
    r"(?P<value>a symbolic (tf\.)?Tensor|not 'SymbolicTensor'|'SymbolicTensor' object cannot|SymbolicTensor.__format__)"
)


def graph_mode_hint(error: BaseException) -> str | None:
    """Returns a line about code that only works in eager mode, or None for another error."""
    found = _EAGER_CODE.search(str(error))
    if not found:
        return None
    what = {
        'bool': 'a tensor as a Python bool',
        'iteration': 'iterating over a tensor',
        'value': 'the value of a tensor',
    }.get(found.lastgroup) or f'.{found[found.lastgroup]}()'
    return f'model_fn and input_fn run in graph mode: {what} is not available ({_users_line(error)})'


def _users_line(error: BaseException) -> str:
    """Returns file and line of the innermost of the user's own lines that an exception has come through."""
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    # AutoGraph runs copies of the functions of a dataset; which lines these are of is told in its message.
    frames += re.findall(r'File "(.+?)", line (\d+)', str(error))
    users = [(path, line) for path, line in frames if not re.search('site-packages|__autograph_generated', path)]
    path, line = (users or frames)[-1]
    return f'{path}:{line}'


def tensorflow_message(error: BaseException) -> str | None:
    """Returns what an error of a TensorFlow op says, without names of nodes and stack; None for another error."""
    message = getattr(error, 'message', None)
    if not isinstance(message, str) or not hasattr(error, 'op'):
        return None
    message = re.sub(r'^\s*From /job:\S+:\n', '', message)  # which task has sent it
    message = re.sub(r'\{\{.*?\}\}|\[\[.*?\]\]', ' ', message.split('Original stack trace')[0])
    # Where the node was made, which stands before what went wrong.
    message = re.sub(r'Graph execution error:|Detected at node.*?\nNode: \S+', ' ', message, flags=re.DOTALL)
    lines = [' '.join(line.split()) for line in message.splitlines() if line.strip()]
    return f'{type(error).__name__}: {lines[0] if lines else "no message"}'
