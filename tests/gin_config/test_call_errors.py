"""Errors that gin raises when a configurable is called."""

import gin
import pytest

from estimator_trainer import gin_config
from estimator_trainer.errors import UserError
from tests.gin_config.helpers import Base, Keeper, apply, inner, needy, open_plain, plain


@pytest.mark.parametrize(
    ('call', 'want_message'),
    [
        (needy, 'needy.size has no value: bind it, e.g. --gin_param="needy.size = ..."'),
        (lambda: needy(1), 'needy.depth has no value: bind it, e.g. --gin_param="needy.depth = ..."'),
        (plain, 'plain.size has no value: bind it, e.g. --gin_param="plain.size = ..."'),
        (lambda: plain(1, 2, 3), None),
        (lambda: [].pop(), None),
        (lambda: None + 1, None),
    ],
)
def test_missing_binding(call, want_message):
    with pytest.raises(Exception) as caught:
        call()
    error = gin_config.missing_binding(caught.value)
    if want_message is None:
        assert error is None
    else:
        assert isinstance(error, UserError)
        assert str(error) == want_message


@pytest.mark.parametrize(
    ('error', 'want_line'),
    [
        (ValueError('bad'), 'bad'),
        (ValueError('bad\n  In call to configurable \'f\' (<function f>)\n  In file "a.gin", line 3'), 'bad'),
        (ValueError('two\nlines\n  In bindings string line 1\n    a.b = 1'), 'two\nlines'),
        (KeyError('name'), "'name'"),
        (ValueError(), ''),
    ],
)
def test_first_line(error, want_line):
    assert gin_config.first_line(error) == want_line


@gin.configurable(module='gin_config_test')
def of_keras(size=1, **others):
    raise TypeError('Keyword argument not understood:', next(iter(others)))


@gin.configurable(module='gin_config_test')
def mistaken(size=1, **others):
    return Base(size=size)


@gin.configurable(module='gin_config_test')
class Popping(Base):
    def __init__(self, units=1, **kwargs):
        kwargs.pop('special', None)
        super().__init__(**kwargs)


@gin.configurable(module='gin_config_test')
def outer(**others):
    return Popping(**others)


def in_scope(function):
    def call():
        with gin.config_scope('a/b'):
            function()

    return call


@pytest.mark.parametrize(
    ('text', 'call', 'want_message'),
    [
        ('open_plain.siz = 1', open_plain, "--gin_param #1: open_plain.siz = 1: open_plain takes no 'siz'"),
        ('Popping.unit = 1', Popping, "Popping.unit = 1: Popping takes no 'unit'; did you mean 'units'?"),
        ('a/Popping.unit = 1\nPopping.unit = 2', in_scope(Popping), 'a/Popping.unit = 1: '),
        ('a/Popping.unit = 1', lambda: Popping(unit=2), None),  # not of that scope
        ('of_keras.siz = %m\nm = 1', of_keras, "of_keras.siz = %m: of_keras takes no 'siz'; did you mean 'size'?"),
        ('outer.unit = 1', outer, "outer.unit = 1: outer takes no 'unit'"),
        ('mistaken.size = 1', mistaken, None),  # its code's mistake
        ('inner.x = 1', lambda: inner(1, x=2), None),
        ('Keeper.other = 1', lambda: Keeper(1, 2), None),
        ('open_plain.size = 1', lambda: 1 + 'a', None),
        ('open_plain.size = 1', lambda: Base(size=1), None),  # not called by gin
    ],
)
def test_unexpected_argument(text, call, want_message):
    bindings = apply(text)
    with pytest.raises(TypeError) as caught:
        call()
    error = gin_config.unexpected_argument(caught.value, bindings)
    if want_message is None:
        assert error is None
    else:
        assert isinstance(error, UserError)
        assert want_message in str(error)


def test_layers_of_keras_say_it_in_words_of_their_own():
    from estimator_trainer.compat import tf

    dense = gin.external_configurable(tf.keras.layers.Dense, name='KerasDense', module='gin_config_test')
    bindings = apply('KerasDense.units = 1\nKerasDense.activatio = 1')
    with pytest.raises(TypeError) as caught:
        dense()
    error = gin_config.unexpected_argument(caught.value, bindings)
    want = "--gin_param #1: KerasDense.activatio = 1: KerasDense takes no 'activatio'; did you mean 'activation'?"
    assert str(error) == want
