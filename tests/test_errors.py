"""Exit codes, and what a mistyped name is told to be."""

import pytest

from estimator_trainer.errors import RestartableError, TrainerError, UserError, nearest, tensorflow_message


def test_exit_codes_by_which_launchers_decide():
    assert [error.exit_code for error in (TrainerError, UserError, RestartableError)] == [1, 2, 138]


@pytest.mark.parametrize(
    ('name', 'valid', 'want_hint'),
    [
        ('wroker', ['chief', 'worker', 'ps'], "; did you mean 'worker'?"),
        ('step', ['steps', 'stop', 'other'], "; did you mean 'steps' or 'stop'?"),
        ('step', ['steps', 'steps'], "; did you mean 'steps'?"),
        ('worker', ['chief', 'ps'], ''),
        ('', ['chief'], ''),
        ('chief', [], ''),
    ],
)
def test_nearest(name, valid, want_hint):
    assert nearest(name, valid) == want_hint


NODE = "Graph execution error:\n\nDetected at node 'Get' defined at (most recent call last):\n  File x\nNode: 'Get'\n"


@pytest.mark.parametrize(
    ('message', 'want'),
    [
        (f'{NODE}evl.csv; No such file\n\t [[{{{{node Get}}}}]]', 'OpError: evl.csv; No such file'),
        ('Graph execution error:\n\nno number: a\n\t [[{{node Cast}}]]\n\t [[Get]]', 'OpError: no number: a'),
        ('{{function_node f}} bad cell\n\nOriginal stack trace for x:\n  File y', 'OpError: bad cell'),
        ('From /job:worker/replica:0/task:0:\nbad cell', 'OpError: bad cell'),
        ('', 'OpError: no message'),
    ],
)
def test_what_a_tensorflow_error_says(message, want):
    class OpError(Exception):
        op = None

    error = OpError()
    error.message = message
    assert tensorflow_message(error) == want
    assert tensorflow_message(KeyError('x')) is None
