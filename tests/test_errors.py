"""Exit codes, and what a mistyped name is told to be."""

import pytest

from estimator_trainer.errors import RestartableError, TrainerError, UserError, nearest


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
