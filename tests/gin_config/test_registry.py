"""Which parameters a configurable is known to have."""

import pytest

from estimator_trainer import gin_config
from estimator_trainer.gin_config import registry
from tests.gin_config import helpers  # noqa: F401  registers them


@pytest.mark.parametrize(
    ('selector', 'want_names', 'want_open'),
    [
        ('plain', ['size', 'depth'], False),
        ('gin_config_test.needy', ['size', 'depth'], False),
        ('inner', ['x', 'y'], True),
        ('Keeper', ['size'], True),
        ('HandsOn', ['units', 'name', 'dtype'], False),
        ('HandsOnTwice', ['rate', 'units', 'name', 'dtype'], False),
        ('Inherits', ['units', 'name', 'dtype'], False),
        ('Pops', ['units'], True),
        ('Mixed', ['units'], True),
        ('OldStyle', ['units', 'name', 'dtype'], False),
        ('partial_plain', ['size', 'depth'], False),
        ('allowing', ['size'], False),
        ('Teller.tell', ['times'], False),
    ],
)
def test_known_parameters(selector, want_names, want_open):
    assert gin_config.parameters_of(selector) == want_names
    assert registry.known_parameters(registry.configurable(selector)) == (want_names, want_open)


def test_registered_names_are_with_and_without_modules():
    assert {'plain', 'gin_config_test.plain', 'trainer', 'estimator_trainer.trainer'} <= set(
        gin_config.registered_names()
    )


def test_classes_of_keras_are_not_taken_for_stricter_than_they_are():
    from estimator_trainer.compat import tf

    for cls, name in ((tf.keras.layers.Dense, 'input_shape'), (tf.keras.optimizers.legacy.Adam, 'clipnorm')):
        names, is_open = registry._class_parameters(cls)
        assert is_open or name in names
