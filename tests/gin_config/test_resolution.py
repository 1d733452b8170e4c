"""The configuration as one file."""

import gin
import pytest

from estimator_trainer import gin_config
from tests.gin_config.helpers import inner, plain, read, write


def bound_in_gin():
    return {
        (scope, selector, parameter): repr(value)
        for (scope, selector), values in gin.config._CONFIG.items()
        for parameter, value in values.items()
    }


def resolve(config, modules=(), overrides=None):
    """Applies a configuration and returns its text and what gin then holds."""
    gin.clear_config()
    gin_config.apply(config, overrides or {})
    return gin_config.resolved(config, modules, overrides or {}), bound_in_gin()


def round_trip(directory, config, modules=(), overrides=None):
    """Returns the text of a configuration, once that alone is seen to be the same configuration."""
    text, want_bound = resolve(config, modules, overrides)
    (directory / 'config.gin').write_text(text, encoding='utf-8')
    _, bound = resolve(read(gin_files=['config.gin']))
    assert bound == want_bound
    return text


@pytest.mark.parametrize(
    'value',
    [
        '[1, [2, (3,), ()], {}]',
        "{'a': {'b': [None, True]}, 2: (1.5, -1e-10)}",
        '[@inner, @inner(), @a/b/inner(), {1: @gin_config_test.inner}]',
        '[@a.b/inner, %m, %s/m, {%m: %deep}]',
        '%deep',
        '[%ANSWER, %gin_config_test.ANSWER]',
        '@m/macro()',
        "[\n    'a',  # a note = with \"marks\"\n    'b'\n    'c',\n]",
        '"it\'s \\"quoted\\"\\n\\t\\\\ %m @inner # é✓ \\x00"',
        "'''several\nlines'''",
        '-1',
        '- 1.0',
        '1e-10',
        '123456789012345678901234567890',
        '0x10',
        '1e999',
        '[-1e999]',
        '-2j',
        "b'bytes'",
        'None',
        '@only/singleton()',
        str(list(range(100))),
        str({f'key_{index}': (index, 'v') for index in range(40)}),
    ],
)
def test_round_trip_of_values(directory, value):
    config = read(
        f'plain.size = {value}\nm = 1\ns/m = "s"\ndeep = [%m, %deeper]\ndeeper = {{1: %m}}\n'
        f'only/singleton.constructor = @inner\na/inner.x = 3\nx/y/inner.other_name = %m'
    )
    text = round_trip(directory, config)
    assert all(len(line) <= 120 for line in text.splitlines())


def test_round_trip_of_what_is_called(directory):
    config = read('plain.size = [@a/inner(), %deep]\na/inner.x = %deep\na/inner.z = 1\ndeep = (%ANSWER, "é")')
    round_trip(directory, config)
    assert plain() == ([((42, 'é'), 2, {'z': 1}), (42, 'é')], 1)


@pytest.mark.parametrize('value', ['text', "it's\n", 'é', 3, -1, True, None, 0.1])
def test_round_trip_of_flags(directory, value):
    overrides = {'plain.size': ('--size', value)}
    text = round_trip(directory, read('plain.size = 7\nplain.depth = 2'), overrides=overrides)
    assert f'plain.size = {value!r}  # --size\n' in text
    assert plain() == (value, 2)


def test_round_trip_of_the_shipped_configs(directory):
    for name in gin_config.shipped_configs():
        gin.clear_config()  # which also lets modules be imported
        config = read(gin_files=[name])
        from estimator_trainer import experiment, registry, run_config  # noqa: F401

        gin_config.import_modules(config, [])
        registry.register(config)
        round_trip(directory, config)


def test_the_text(directory):
    for name in ('mod_a', 'mod_b', 'mod_c'):
        write(directory / f'{name}.py', '')
    write(directory / 'base.gin', 'import mod_b\nimport mod_a as other\nplain.size = 1\nrate = 2\nplain.depth = 3')
    write(directory / 'my.gin', "import mod_a\ninclude 'base.gin'\nplain.size = %rate")
    config = read('import mod_b\ntrainer.peer_timeout = 4', gin_files=['my.gin'])
    text = round_trip(directory, config, ['mod_c', 'mod_a'], {'plain.depth': ('--depth', 5)})
    assert text == (
        'import mod_c\nimport mod_a\nimport mod_b\n\n'
        'rate = 2  # base.gin:4\n\n'
        'plain.size = %rate  # my.gin:3\nplain.depth = 5  # --depth\ntrainer.peer_timeout = 4  # --gin_param #1\n\n'
    )


def test_the_text_of_nothing():
    assert resolve(read())[0] == ''


def test_places_that_make_no_comment(directory):
    for name in ('a' * 80, 'new\nline'):
        write(directory / f'{name}.gin', 'plain.size = 1')
        text = round_trip(directory, read(gin_files=[f'{name}.gin']))
        assert text == 'plain.size = 1\n\n'


def test_round_trip_with_names_of_python(directory):
    write(directory / 'named_user.py', 'def f(x=1):\n  return x\nclass C:\n  def m(self, b=2):\n    return b\n')
    write(
        directory / 'named.gin',
        'from __gin__ import dynamic_registration\nimport named_user as n\n'
        'n.f.x = %m\nm = [1, @s/n.f()]\nn.C.m.b = 3\n',
    )
    config = read('plain.size = @n.f()', 'inner.x = 1', gin_files=['named.gin'])
    gin_config.import_modules(config, [])
    overrides = {'plain.depth': ('--depth', 2)}
    text, want_bound = resolve(config, ['named_user'], overrides)
    write(directory / 'config.gin', text)
    _, bound = resolve(read(gin_files=['config.gin']))
    assert set(bound) == set(want_bound)  # Names in values differ, for gin names each after one import.
    assert inner() == (1, 2, {})
    assert gin.query_parameter('plain.depth') == 2
