"""Bindings that nothing has consumed."""

import gin
import pytest

from estimator_trainer import gin_config
from tests.gin_config.helpers import HandsOn, HandsOnTwice, Teller, apply, inner, plain


def in_scope(scope, function, *args, **kwargs):
    with gin.config_scope(scope):
        return function(*args, **kwargs)


def tell():
    return gin.get_configurable(Teller)().tell()


@pytest.mark.parametrize(
    ('text', 'call', 'want_unused'),
    [
        ('plain.size = 1', lambda: None, ['plain.size']),
        ('plain.size = 1\nplain.depth = 2', plain, []),
        ('plain.size = 1\nplain.depth = 2', lambda: plain(3), ['plain.size']),
        ('plain.size = 1\nplain.depth = 2', lambda: plain(size=3), ['plain.size']),
        ('plain.size = 1', lambda: (plain(size=3), plain()), []),
        # Scopes.
        ('inner.x = 1\na/inner.x = 2', inner, ['a/inner.x']),
        ('inner.x = 1\na/inner.x = 2', lambda: in_scope('a', inner), ['inner.x']),
        ('inner.x = 1\na/inner.y = 2', lambda: in_scope('a', inner), []),
        ('a/inner.x = 1\na/b/inner.y = 2\nb/inner.x = 3', lambda: in_scope('a/b', inner), ['b/inner.x']),
        ('a/inner.x = 1\na/b/inner.x = 2', lambda: in_scope('a/b/c', inner), ['a/inner.x']),
        ('inner.x = 1', lambda: in_scope('a', inner), []),
        # References.
        ('plain.size = @inner()\ninner.x = 1', plain, []),
        ('plain.size = @inner\ninner.x = 1', plain, ['inner.x']),
        ('plain.size = @inner\ninner.x = 1', lambda: plain()[0](), []),
        ('plain.size = @a/inner\na/inner.x = 1\ninner.x = 2', lambda: plain()[0](), ['inner.x']),
        ('plain.size = [{1: @a/inner()}]\na/inner.x = 1', plain, []),
        # Names that only **kwargs takes.
        ('inner.z = 1', inner, []),
        ('HandsOn.name = 1', HandsOn, []),
        ('HandsOn.name = 1', lambda: HandsOn(name=1), ['HandsOn.name']),
        # The constructor of a base is called too.
        ('HandsOn.units = 1\nHandsOnTwice.rate = 1', lambda: gin.get_configurable(HandsOnTwice)(), []),
        # A class that is only registered gets nothing when Python code calls it itself.
        ('HandsOnTwice.rate = 1', HandsOnTwice, ['HandsOnTwice.rate']),
        ('Teller.name = "n"\nTeller.tell.times = 2', tell, []),
        ('Teller.name = "n"\nTeller.tell.times = 2', lambda: gin.get_configurable(Teller)(), ['Teller.tell.times']),
        # Macros and constants.
        ('plain.size = %m\nm = 1', plain, []),
        ('plain.size = %m\nm = 1', lambda: None, ['plain.size', 'm']),
        ('plain.size = %m\nm = 1', lambda: plain(size=3), ['plain.size', 'm']),
        ('plain.size = %m\nm = [{1: %n}]\nn = 1\nlost = 2', plain, ['lost']),
        ('plain.size = %a/m\na/m = 1\nm = 2', plain, ['m']),
        ('lost = %m\nm = 1', plain, ['lost', 'm']),
        ('plain.size = %ANSWER', plain, []),
        ('plain.size = %ANSWER', lambda: plain(1), ['plain.size']),
        # One object for all who ask.
        ('plain.size = @o/singleton()\no/singleton.constructor = @inner\no/inner.x = 1', plain, []),
        ('o/singleton.constructor = @inner', plain, ['o/singleton.constructor']),
    ],
)
def test_unused(text, call, want_unused):
    bindings = apply(text)
    try:
        call()
    except TypeError:  # plain() where no size is bound
        assert 'plain.size' not in text
    assert [binding.name for binding in gin_config.unused(bindings)] == want_unused


def test_unused_tells_of_flags_too():
    bindings = apply('plain.size = 1', overrides={'plain.depth': ('--depth', 3)})
    plain(1, 2)
    assert [binding.where for binding in gin_config.unused(bindings)] == ['--gin_param #1', '--depth']
