"""Values as gin text."""

import pytest

from estimator_trainer.gin_config.statements import references, text_of
from tests.gin_config.helpers import read


def value_of(text):
    return read(f'f.x = {text}').literal('f.x')


@pytest.mark.parametrize(
    ('text', 'want_text'),
    [
        ('1_000', '1000'),
        ('- 1', '-1'),
        ('1e-10', '1e-10'),
        ('1e999', '1e999'),
        ('[-1e999, 2.0]', '[-1e999, 2.0]'),
        ('-2j', '-2.0j'),
        ('"it\'s"', '"it\'s"'),
        ("'inf'", "'inf'"),
        ("'a' 'b'", "'ab'"),
        ("'''a\nb'''", "'a\\nb'"),
        ("'é✓\\x00'", "'é✓\\x00'"),
        ("b'x'", "b'x'"),
        ('(1)', '1'),
        ('(1,)', '(1,)'),
        ('()', '()'),
        ('[]', '[]'),
        ('{}', '{}'),
        ('[@f, @a.b/c/f() , # note\n %m]', '[@f, @a.b/c/f(), %m]'),
        ("{'a': [(%m, None)], 2: {True: @f}}", "{'a': [(%m, None)], 2: {True: @f}}"),
        ('{%k: 1}', '{%k: 1}'),
    ],
)
def test_text_of_is_read_as_the_same_value(text, want_text):
    value = value_of(text)
    assert text_of(value) == want_text
    assert value_of(text_of(value)) == value
    assert value_of(text_of(value, wide=True)) == value


def test_wide_has_a_line_for_each_item():
    assert text_of({'a': [1, 2], 'b': ()}, wide=True) == "{\n    'a': [1, 2],\n    'b': (),\n}"
    assert text_of([], wide=True) == '[]'


def test_references_are_found_however_deep():
    found = references(value_of("{%k: [1, ('%no', @f())], 'b': {'c': %m}}"))
    assert [reference.text for reference in found] == ['%k', '@f()', '%m']
