"""Literals compared with annotations."""

import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Optional

import gin
import pytest

from estimator_trainer import gin_config
from estimator_trainer.gin_config import annotations
from tests.gin_config.helpers import apply, error_of, write


@gin.configurable(module='gin_config_test')
def annotated(
    whole: int = 0,
    number: float = 0.0,
    text: str = '',
    flag: bool = False,
    nothing: None = None,
    maybe: int | None = None,
    optional: Optional[str] = None,  # noqa: UP045
    either: str | Iterable[str] = '',
    words: Sequence[str] = (),
    wholes: list[int] = (),
    pair: tuple[float, float] = (0, 0),
    many: tuple[int, ...] = (),
    bare: list = (),
    ranges: dict[str, tuple[float, float]] = (),
    params: Mapping[str, Any] | None = None,
    call: Callable | None = None,
    calls: Sequence[Callable] = (),
    mode: Literal['a', 'b'] = 'a',
    anything: Any = None,
    path: pathlib.Path | None = None,
    unknown=None,
):
    return None


@gin.configurable(module='gin_config_test')
class Annotated:
    def __init__(self, whole: int = 0, hidden: 'NoSuchName' = 0):  # noqa: F821
        pass


@gin.configurable(module='gin_config_test')
class AnnotatedChild:
    whole: str

    def __init__(self, whole: int = 0):
        pass


@pytest.fixture
def as_ours(monkeypatch):
    """Takes the configurables of this file for ones that ship."""
    here = pathlib.Path(__file__).resolve()
    monkeypatch.setattr(annotations, 'INSTALL_ROOT', here.parents[1])
    monkeypatch.setattr(annotations, '_PACKAGES', (here.parent.name,))


FITTING = {
    'whole': ['3', '-3', '@inner()', '%m', '%ANSWER'],
    'number': ['1', '1.5', '1e-10', '%m'],
    'text': ["'a'", '%s'],
    'flag': ['True', 'False'],
    'nothing': ['None'],
    'maybe': ['None', '1', '%none'],
    'optional': ['None', "'a'"],
    'either': ["'a'", "['a', 'b']", "('a',)", '%words', '[%s, @inner()]', "{'a': 1}"],
    'words': ["['a']", "('a', 'b')", '[]', '%words', '[%s]'],
    'wholes': ['[1, 2]', '(1, 2)', '[%m]'],
    'pair': ['(1, 2.0)', '[1, 2]'],
    'many': ['()', '(1, 2, 3)'],
    'bare': ["[1, 'a']"],
    'ranges': ["{'a': (1, 2.5)}", '{}', '{%s: [1, 2]}'],
    'params': ["{'a': [1]}", 'None', '%ANSWER'],
    'call': ['@inner', '@a/inner()', 'None', '%f'],
    'calls': ['[@inner, @inner()]', '[]'],
    'mode': ["'a'"],
    'anything': ['1', "'a'", '[]', '{}'],
    'path': ["'a'", '1'],
    'unknown': ['1', "'a'"],
}
MISFITS = [
    ('whole', "'3'", 'expected a whole number, found a string'),
    ('whole', '3.0', 'expected a whole number, found a number'),
    ('whole', 'True', 'expected a whole number, found True'),
    ('whole', 'None', 'expected a whole number, found None'),
    ('whole', '%s', 'expected a whole number, found a string'),
    ('whole', '%twice', 'expected a whole number, found a string'),
    ('number', "'fast'", 'expected a number, found a string'),
    ('number', 'False', 'expected a number, found False'),
    ('number', '[1.0]', 'expected a number, found a list'),
    ('number', '1.0j', 'expected a number, found a complex number'),
    ('text', '1', 'expected a string, found a whole number'),
    ('text', "['a']", 'expected a string, found a list'),
    ('text', "b'a'", 'expected a string, found bytes'),
    ('flag', '1', 'expected True or False, found a whole number'),
    ('flag', "'yes'", 'expected True or False, found a string'),
    ('nothing', '1', 'expected None, found a whole number'),
    ('maybe', "'1'", 'expected a whole number or None, found a string'),
    ('optional', '1', 'expected a string or None, found a whole number'),
    ('either', '1', 'expected a string or a list of strings, found a whole number'),
    ('either', "['a', 1]", 'expected a string or a list of strings, found a whole number in it'),
    ('words', "'abc'", 'expected a list of strings, found a string'),
    ('words', "{'a': 1}", 'expected a list of strings, found a dict'),
    ('words', '[%m]', 'expected a list of strings, found a whole number in it'),
    ('wholes', "[16, 'x']", 'expected a list of whole numbers, found a string in it'),
    ('wholes', '[[1]]', 'expected a list of whole numbers, found a list in it'),
    ('pair', '(1,)', 'expected a list (a number, a number), found a tuple'),
    ('pair', "(1, 'a')", 'expected a list (a number, a number), found a string in it'),
    ('many', "(1, 'a')", 'expected a list of whole numbers, found a string in it'),
    ('bare', '3', 'expected a list, found a whole number'),
    ('ranges', '[1]', 'expected a dict of strings to lists (a number, a number), found a list'),
    ('ranges', '{1: (1, 2)}', 'found a whole number in it'),
    ('ranges', "{'a': (1, None)}", 'found None in it'),
    ('params', '[1]', 'expected a dict of strings to anything or None, found a list'),
    ('call', "'other'", 'expected a reference to a function (@name) or None, found a string'),
    ('call', "'inner'", 'expected a reference to a function (@name) or None, found a string; did you mean @inner?'),
    ('calls', "[@inner, 'other']", 'expected a list of references to functions, found a string in it'),
    ('mode', "'c'", "expected 'a' or 'b', found a string"),
]
MACROS = "m = 3\ns = 'a'\nnone = None\nwords = ['a', %s]\nf = @inner\ntwice = %s\n"


@pytest.mark.parametrize(('parameter', 'value'), [(name, value) for name in FITTING for value in FITTING[name]])
def test_what_fits(as_ours, parameter, value):
    gin_config.check_types(apply(f'{MACROS}annotated.{parameter} = {value}'))


@pytest.mark.parametrize(('parameter', 'value', 'want_text'), MISFITS)
def test_what_does_not_fit(as_ours, parameter, value, want_text):
    bindings = apply(MACROS, f'a/annotated.{parameter} = {value}')
    message = error_of(gin_config.check_types, bindings)
    assert message.startswith(f'--gin_param #2: a/annotated.{parameter} = {value}: expected ')
    assert message.endswith(want_text)


def test_the_annotations_of_a_class_are_those_of_its_constructor(as_ours):
    assert 'expected a whole number' in error_of(gin_config.check_types, apply("AnnotatedChild.whole = 'a'"))


def test_annotations_that_cannot_be_resolved_accept_everything(as_ours):
    gin_config.check_types(apply("Annotated.whole = 'a'"))


def test_configurables_of_others_are_not_checked():
    gin_config.check_types(apply("annotated.whole = 'a'"))


def test_flags_are_checked(as_ours):
    bindings = apply('annotated.whole = 1', overrides={'annotated.whole': ('--whole', 'a')})
    assert error_of(gin_config.check_types, bindings).startswith("--whole: annotated.whole = 'a': expected")


def test_what_ships_is_checked(directory):
    from estimator_trainer import experiment, registry, run_config  # noqa: F401

    write(directory / 'my.gin', "include 'penguins.gin'\ndense_model_fn.learning_rate = 'fast'")
    config = gin_config.read(['my.gin'], [], [])
    gin_config.import_modules(config, [])
    registry.register(config)
    gin_config.apply(config, {'RunConfig.model_dir': ('--model_dir', 'm')})
    message = error_of(gin_config.check_types, gin_config.bindings(config, {}))
    assert message == "my.gin:2: dense_model_fn.learning_rate = 'fast': expected a number, found a string"


def test_the_configs_that_ship_fit():
    from estimator_trainer import experiment, registry, run_config  # noqa: F401

    for name in gin_config.shipped_configs():
        gin.clear_config()  # which also lets modules be imported
        config = gin_config.read([name], [], [])
        gin_config.import_modules(config, [])
        registry.register(config)
        gin_config.apply(config, {})
        gin_config.check_types(gin_config.bindings(config, {}))
