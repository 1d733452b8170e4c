"""Lines that gin cannot read."""

import pytest

from tests.gin_config.helpers import error_of, read, write


def message_of(directory, text):
    write(directory / 'bad.gin', text)
    return error_of(read, gin_files=['bad.gin'])


@pytest.mark.parametrize(
    ('text', 'want_message'),
    [
        ('f.x = [1,', 'bad.gin:1: f.x = [1,: '),
        ("f.x = 'a", "bad.gin:1: f.x = 'a: "),
        ('f.x = 1 2', 'bad.gin:1: f.x = 1 2: Expected newline'),
        ("\nf.x = 'it's'", "bad.gin:2: f.x = 'it's': Expected newline"),
        ('f..x = 1', 'bad.gin:1: f..x = 1: Malformatted scope or selector'),
        ('f.y = 1\nf.x = {[]: 1}', "bad.gin:2: f.x = {[]: 1}: unhashable type: 'list'"),
        ('f:\n    y = 1\n  x = 1', 'bad.gin:3: x = 1: '),
    ],
)
def test_what_gin_itself_says(directory, text, want_message):
    message = message_of(directory, text)
    assert message.startswith(want_message)
    assert message.endswith("; expected gin's configurable.parameter = value")


@pytest.mark.parametrize(
    ('value', 'want_fixed'),
    [
        ('text', "'text'"),
        ('text  # a note', "'text'"),
        ('/tmp/x', "'/tmp/x'"),
        ('./x-1', "'./x-1'"),
        ('~/x', "'~/x'"),
        ('data/x.csv', "'data/x.csv'"),
        ('*.csv', "'*.csv'"),
        ('gs://bucket/dir', "'gs://bucket/dir'"),
        ('https://a/b?c=d', "'https://a/b?c=d'"),
        ('tf.float32', "'tf.float32'"),
        ('two words', "'two words'"),
        ('-foo', "'-foo'"),
        ('[a, 1, None]', "['a', 1, None]"),
        ('{a: b/c}', "{'a': 'b/c'}"),
        ("['$HOME', '%d-1', a]", "['$HOME', '%d-1', 'a']"),
        ('[@f, a]', None),
    ],
)
def test_text_without_quotes(directory, value, want_fixed):
    fixed = "'a'" if want_fixed is None else f'f.x = {want_fixed}'
    want_reason = f': strings need quotes: {fixed}'
    assert message_of(directory, f'\nf.x = {value}') == f'bad.gin:2: f.x = {value}{want_reason}'


def test_text_without_quotes_within_a_value_of_several_lines(directory):
    message = message_of(directory, 'f.x = [\n    1,\n    foo,\n]')
    assert message == "bad.gin:3: foo,: strings need quotes: 'foo'"


@pytest.mark.parametrize(
    ('param', 'want_reason'),
    [
        ('train.name=foo', """train.name = 'foo' (in a shell: --gin_param="train.name = 'foo'")"""),
        ('a.b = [c, d]', """a.b = ['c', 'd'] (in a shell: --gin_param="a.b = ['c', 'd']")"""),
    ],
)
def test_the_shell_has_eaten_the_quotes(param, want_reason):
    message = error_of(read, 'f.x = 1', param)
    assert message == f'--gin_param #2: {param}: strings need quotes: {want_reason}'


@pytest.mark.parametrize(
    ('value', 'want_fixed'),
    [('true', 'True'), ('FALSE', 'False'), ('null', 'None'), ('none', 'None'), ('[1, true]', '[1, True]')],
)
def test_names_of_other_languages(directory, value, want_fixed):
    message = message_of(directory, f'f.x = {value}')
    assert message == f'bad.gin:1: f.x = {value}: not a Python value; did you mean f.x = {want_fixed}?'


@pytest.mark.parametrize(
    ('value', 'want_reason'),
    [
        ('1/10', ': write 0.1'),
        ('1 / 10  # a tenth', ': write 0.1'),
        ('2**10', ': write 1024'),
        ('-(1 + 2) * 3', ': write -9'),
        ('+1', ': write 1'),
        ('[1, 24*60]', ': write [1, 1440]'),
        ('2 * %n', ''),
        ('@f() + 1', ''),
    ],
)
def test_arithmetic(directory, value, want_reason):
    message = message_of(directory, f'f.x = {value}')
    assert message == f'bad.gin:1: f.x = {value}: gin values are literals, no arithmetic{want_reason}'


@pytest.mark.parametrize('value', ['1/0', '9**9**9', '10**100000', '1 << 99999999'])
def test_arithmetic_that_has_no_result_or_too_large_a_one_is_not_worked_out(directory, value):
    assert message_of(directory, f'f.x = {value}').startswith(f'bad.gin:1: f.x = {value}: ')


@pytest.mark.parametrize(
    ('value', 'want_what'),
    [
        ("float('inf')", 'calls'),
        ('range(3)', 'calls'),
        ('lambda x: 1', 'expressions'),
        ('a if b else c', 'expressions'),
        ('{1, 2}', 'expressions'),
    ],
)
def test_code(directory, value, want_what):
    message = message_of(directory, f'f.x = {value}')
    assert message.startswith(f'bad.gin:1: f.x = {value}: gin values are literals, no {want_what}')


@pytest.mark.parametrize('value', ['$HOME', '$HOME/x', '[${DATA}]'])
def test_variables_of_the_shell(directory, value):
    message = message_of(directory, f'f.x = {value}')
    assert message.startswith(f'bad.gin:1: f.x = {value}: gin does not expand $')


def test_a_variable_in_quotes_is_text():
    assert read("f.x = '$HOME'").literal('f.x') == '$HOME'


@pytest.mark.parametrize(
    ('line', 'want_hint'),
    [
        ('f.x', ''),
        ('f.x 1', '; did you mean f.x = 1?'),
        ('a/f.x 1', '; did you mean a/f.x = 1?'),
        ('f.x: 3', '; did you mean f.x = 3?'),
        ('f.x == 3', '; did you mean f.x = 3?'),
        ('f.x := 3', '; did you mean f.x = 3?'),
        ('f.x += 3', '; did you mean f.x = 3?'),
    ],
)
def test_a_missing_equals_sign(directory, line, want_hint):
    message = message_of(directory, f'f.y = 1\n\n{line}')
    want_reason = f"no '=' after the name; expected gin's configurable.parameter = value{want_hint}"
    assert message == f'bad.gin:3: {line}: {want_reason}'


@pytest.mark.parametrize('text', ['f.x =', 'f.x =\nf.y = 1'])
def test_a_missing_value(directory, text):
    assert message_of(directory, text).startswith("bad.gin:1: f.x =: no value after '='")


@pytest.mark.parametrize('line', ['%rate = 1', '@f.x = 1'])
def test_a_mark_on_the_left(directory, line):
    message = message_of(directory, line)
    assert message == f'bad.gin:1: {line}: the name on the left is written without {line[0]}: {line[1:]}'


@pytest.mark.parametrize(
    'line', ['from a import *', 'from a import b, c', 'import a, b', 'import a b', 'import .a', 'from . import b']
)
def test_imports_that_gin_does_not_have(directory, line):
    message = message_of(directory, line)
    assert message.startswith(f'bad.gin:1: {line}: gin supports only `import a.b`')


@pytest.mark.parametrize('line', ['import a.b', 'import a as b', 'from a import b', 'from a import b as c'])
def test_imports_that_gin_has(line):
    assert len(list(read(line).statements)) == 1


def test_features_that_gin_does_not_have(directory):
    message = message_of(directory, 'from __gin__ import dynamic')
    assert message.startswith("bad.gin:1: from __gin__ import dynamic: gin has no feature 'dynamic'")


@pytest.mark.parametrize('name', ['base', 'base.gin', 'paths/base.gin'])
def test_include_without_quotes(directory, name):
    message = message_of(directory, f'include {name}')
    assert message == f"bad.gin:1: include {name}: strings need quotes: include '{name}'"


def test_syntax_error_in_an_included_file_names_that_file(directory):
    write(directory / 'bad.gin', 'f.x = 1\nf.y = text')
    write(directory / 'my.gin', "\n\n\ninclude 'bad.gin'")
    assert error_of(read, gin_files=['my.gin']).startswith('bad.gin:2: f.y = text')


def test_lines_are_counted_as_python_does(directory):
    assert message_of(directory, "f.x = '\u2028\x0c'\r\nf.y = a b").startswith('bad.gin:2: f.y = a b: strings need')


def test_the_line_within_a_block(directory):
    assert message_of(directory, 'f:\n  x = 1\n  y = foo\n') == "bad.gin:3: y = foo: strings need quotes: y = 'foo'"
