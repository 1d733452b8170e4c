"""The trainer's settings: bound in gin, and checked."""

import gin
import pytest

from estimator_trainer.errors import UserError
from estimator_trainer.settings import Settings, trainer


def test_unbound_settings_are_the_defaults(clean_gin):
    assert trainer() == Settings()


def test_a_peer_is_not_lost_between_two_heartbeats(clean_gin):
    gin.bind_parameter('trainer.peer_timeout', 1)
    with pytest.raises(UserError, match=r'trainer\.peer_timeout: expected at least 10, .*found 1'):
        trainer()


def test_each_binding_reaches_its_own_field(clean_gin):
    want = {
        'startup_timeout': 1,
        'peer_timeout': 12.5,
        'grace_period': 3,
        'step_timeout': 99,
        'end_policy': 'chief',
        'uneven_input': 'pad',
        'throttle_secs': 0,
        'restart_exit_code': 75,
    }
    for name, value in want.items():
        gin.bind_parameter(f'trainer.{name}', value)
    assert trainer() == Settings(**want)


@pytest.mark.parametrize(
    ('name', 'value'),
    [
        ('uneven_input', 'pat'),
        ('end_policy', None),
        ('step_timeout', -1),
        ('startup_timeout', -1),
        ('peer_timeout', '60'),
        ('grace_period', None),
        ('throttle_secs', True),
        ('restart_exit_code', -0.5),
    ],
)
def test_what_is_no_duration_is_refused_by_name(name, value):
    with pytest.raises(UserError, match=rf'trainer\.{name}: expected .*, found {value!r}'):
        Settings(**{name: value})
