"""Short names for what every test of gin_config does, and configurables to bind."""

import functools
import textwrap

import gin
import pytest

from estimator_trainer import gin_config
from estimator_trainer.errors import UserError
from estimator_trainer.settings import trainer  # noqa: F401  what the tests bind


@gin.configurable(module='gin_config_test')
def needy(size=gin.REQUIRED, depth=gin.REQUIRED):
    return size, depth


@gin.configurable(module='gin_config_test')
def plain(size, depth=1):
    return size, depth


@gin.configurable(module='gin_config_test')
def inner(x=1, y=2, **others):
    return x, y, others


def _takes_size(size):
    return size


@gin.configurable(module='gin_config_test')
def open_plain(**others):
    return _takes_size(**others)


@gin.configurable(module='gin_config_test')
class Keeper:
    """Keeps what it is given: any name is taken."""

    def __init__(self, size=1, **rest):
        self.size = size


class Base:
    def __init__(self, name=None, dtype=None):
        self.name = name


@gin.configurable(module='gin_config_test')
class HandsOn(Base):
    def __init__(self, units=1, **kwargs):
        super().__init__(**kwargs)
        self.units = units


@gin.register(module='gin_config_test')
class HandsOnTwice(HandsOn):
    def __init__(self, rate=1.0, **kwargs):
        super().__init__(**kwargs)


@gin.configurable(module='gin_config_test')
class Pops(Base):
    """Takes one more name than its signature tells."""

    def __init__(self, units=1, **kwargs):
        self.size = kwargs.pop('size', None)
        super().__init__(**kwargs)


class Mixin:
    def __init__(self):
        pass


@gin.configurable(module='gin_config_test')
class Mixed(Mixin, Base):
    """Hands its **kwargs to a class that is not the next."""

    def __init__(self, units=1, **kwargs):
        Mixin.__init__(self)
        Base.__init__(self, **kwargs)


@gin.configurable(module='gin_config_test')
class OldStyle(Base):
    def __init__(self, units=1, **kwargs):
        super(OldStyle, self).__init__(**kwargs)  # noqa: UP008


@gin.configurable(module='gin_config_test')
class Inherits(HandsOn):
    pass


@gin.register(module='gin_config_test')
class Teller:
    def __init__(self, name='nobody'):
        self.name = name

    @gin.register
    def tell(self, times=1):
        return self.name * times


@functools.wraps(plain)
def _wraps_plain(*args, **kwargs):
    return plain(*args, **kwargs)


partial_plain = gin.external_configurable(
    functools.partial(_wraps_plain, depth=3), name='partial_plain', module='gin_config_test'
)
allowing = gin.external_configurable(_takes_size, name='allowing', module='gin_config_test', allowlist=['size'])
gin.constant('gin_config_test.ANSWER', 42)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding='utf-8')


def read(*gin_params, gin_files=(), search_paths=()):
    return gin_config.read(gin_files, gin_params, search_paths)


def apply(*gin_params, overrides=None, **kwargs):
    """Applies a configuration and returns its bindings."""
    config = read(*gin_params, **kwargs)
    gin_config.apply(config, overrides or {})
    return gin_config.bindings(config, overrides or {})


def error_of(function, *args, **kwargs):
    with pytest.raises(UserError) as caught:
        function(*args, **kwargs)
    message = str(caught.value)
    assert '\n' not in message
    return message
