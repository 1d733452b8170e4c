"""Where bindings come from."""

import pytest

from estimator_trainer import gin_config
from tests.gin_config.helpers import apply, write


@pytest.fixture
def bound(directory):
    write(
        directory / 'base.gin',
        """\
        gin_config_test.plain.size = [%m, @s/inner()]
        m = 1
        s/inner:
            x = 'a'
        """,
    )
    write(directory / 'my.gin', "trainer.peer_timeout = 1\ninclude 'base.gin'\nplain.size = {\n    1: %m}\ns/m = 2")
    return apply(
        'estimator_trainer.trainer.peer_timeout = 2\nTeller.tell.times = 3',
        'macro.value = 4',
        gin_files=['my.gin'],
        overrides={'trainer.peer_timeout': ('--peers', 5), 'trainer.grace_period': ('--grace', '6')},
    )


def test_bindings_are_one_for_each_parameter_and_scope(bound):
    assert [
        (binding.scope, binding.selector, binding.parameter, binding.name, binding.value, binding.where)
        for binding in bound
    ] == [
        ('', 'estimator_trainer.trainer', 'peer_timeout', 'trainer.peer_timeout', '5', '--peers'),
        ('', 'gin_config_test.plain', 'size', 'plain.size', '{1: %m}', 'my.gin:3'),
        ('m', 'gin.macro', 'value', 'm', '1', 'base.gin:2'),
        ('s', 'gin_config_test.inner', 'x', 's/inner.x', "'a'", 'base.gin:4'),
        ('s/m', 'gin.macro', 'value', 's/m', '2', 'my.gin:5'),
        ('', 'gin_config_test.Teller.tell', 'times', 'Teller.tell.times', '3', '--gin_param #1'),
        ('', 'gin.macro', 'value', 'macro.value', '4', '--gin_param #2'),
        ('', 'estimator_trainer.trainer', 'grace_period', 'trainer.grace_period', "'6'", '--grace'),
    ]


def test_what_was_won_over_is_told_nearest_first(bound):
    assert [binding.overridden for binding in bound[:3]] == [
        (('2', '--gin_param #1'), ('1', 'my.gin:1')),
        (('[%m, @s/inner()]', 'base.gin:1'),),
        (),
    ]


@pytest.mark.parametrize(
    ('message', 'want_place'),
    [
        ('trainer.grace_period: expected a number', '--grace: '),
        ('estimator_trainer.trainer.grace_period: expected a number', '--grace: '),
        ("RunConfig: cannot be with plain.size = '3'", 'my.gin:3: '),
        ('no such thing as x.y, but plain.size is there', 'my.gin:3: '),
        ('a/plain.size: expected', 'my.gin:3: '),  # holds in that scope
        ('s/inner.x: expected', 'base.gin:4: '),
        ('s/t/inner.x: expected', 'base.gin:4: '),
        ('inner.x: expected', 'base.gin:4: '),  # the only one
        ('t/inner.x: expected', ''),
        ('inner.y: expected', ''),
        ('plain.sizes: expected', ''),
        ('explain.size: expected', ''),
        ('Teller.tell.times is bad', '--gin_param #1: '),
        ('tell.times is bad', '--gin_param #1: '),
        ('other.gin:1: plain.size: expected', ''),
        ('my own.gin:1: plain.size: expected', ''),
        ('gs://b/c.gin:1: plain.size: expected', ''),
        ('--gin_param #2: plain.size: expected', ''),
        ('', ''),
    ],
)
def test_locate(bound, message, want_place):
    assert gin_config.locate(message, bound) == f'{want_place}{message}'


@pytest.mark.parametrize(
    ('text', 'message', 'want_place'),
    [
        ('inner.x = 1\n', 'b/inner.x', '--gin_param #1: '),
        ('a/inner.x = 1', 'a/inner.x', '--gin_param #2: '),
        ('inner.x = 1', 'a/b/inner.x', '--gin_param #2: '),
        ('', 'inner.x', ''),  # two scopes, and no telling which
    ],
)
def test_locate_among_scopes(text, message, want_place):
    bound = apply(text, 'a/inner.x = 2', 'b/c/inner.x = 3')
    assert gin_config.locate(message, bound) == f'{want_place}{message}'
