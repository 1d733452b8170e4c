"""JSON lines that are changed in many ways, through the whole program: what is legal, what is said of the rest."""

import gzip

import pytest

from tests.input_fns.mutations import Case, Table, late, replaced, same

CONFIG = """
import input_fns.json_lines
experiment.model_fn = @mutation_model_fn
experiment.train_input_fn = @json_lines_input_fn
json_lines_input_fn.batch_size = 2
json_lines_input_fn.shuffle_buffer = 0
json_lines_input_fn.repeat = False
feature_description.features = {
    'mass': {'default': 1.5},
    'size': {'shape': [2, 1]},
    'age': {'dtype': 'int64'},
    'kind': {'vocabulary': ['wild', 'tame'], 'out_of_vocabulary': 'error'},
}
feature_description.label = {'price': {}}
"""
LAST = '{"price": 5, "mass": 5e0, "size": [[1], [2]], "age": 11, "kind": "wild"}'
FIRST = f"""\
{{"price": 1.5, "mass": 4.5, "size": [[1], [2]], "age": 3, "kind": "tame"}}
{{"price": 2, "mass": 20, "size": [[1.5], [2]], "age": 7, "kind": "tame"}}
{{"price": 3, "mass": 3.25, "size": [[1], [-2]], "age": 1, "kind": "wild"}}
{{"price": 4, "mass": 8, "size": [[1], [0]], "age": 2, "kind": "tame"}}
{LAST}
"""
SECOND = """\
{"kind": "wild", "mass": 30, "size": [[1], [2]], "age": 4, "price": 6}
{"price": 7, "mass": 4, "size": [[1], [2]], "age": -2, "kind": "tame"}
"""
FILES = {'a.jsonl': FIRST.encode(), 'b.jsonl': SECOND.encode()}
LARGEST = 2**63 - 1


def line(new):
    """A change of the last line of the first file."""
    return replaced(LAST, new)


def unlike(new, want):
    return Case(line(new), 2, f'@/a.jsonl:5: {want}')


def key(name, new, want):
    """A last line whose key `name` has another value, as JSON, and what is to be said of it."""
    old = {'mass': '5e0', 'size': '[[1], [2]]', 'age': '11', 'kind': '"wild"', 'price': '5'}[name]
    text = LAST.replace(f'"{name}": {old}', f'"{name}": {new}')
    assert text != LAST
    return unlike(text, want if want.startswith('no JSON') else f'key {name!r}: {want}')


BAD = {
    'text in a number': key('mass', '"heavy"', "'heavy'; expected a number"),
    'number as text': key('mass', '"5"', "'5'; expected a number"),
    'true': key('mass', 'true', 'True; expected a number'),
    'false in a whole number': key('age', 'false', 'False; expected a whole number'),
    'NaN': key('mass', 'NaN', 'nan; expected a finite float32'),
    'Infinity': key('price', '-Infinity', '-inf; expected a finite float32'),
    '1e400': key('mass', '1e400', 'inf; expected a finite float32'),
    '1e39': key('mass', '1e39', '1e+39; expected a finite float32'),
    '500 digits': key('mass', '9' * 500, f'{"9" * 40}...; expected a finite float32'),
    '5000 digits': unlike(LAST.replace('11', '9' * 5000), 'a number of too many digits'),
    '2 to the 63': key('age', str(2**63), f'{2**63}; expected a whole number that fits int64'),
    'fraction in a whole number': key('age', '1.5', '1.5; expected a whole number'),
    'number for text': key('kind', '5', '5; expected text'),
    'half a character': key('kind', r'"\ud800"', r"'\ud800'; expected text without halves of characters"),
    'out of vocabulary': key('kind', '"lame"', "'lame'; expected one of wild, tame; did you mean 'tame'?"),
    'object for a number': key('mass', '{"kg": 5}', "{'kg': 5}; expected one value"),
    'list for a number': key('mass', '[5]', '[5]; expected one value'),
    'number for a list': key('size', '5', '5; expected a list of 2'),
    'short list': key('size', '[[1]]', 'a list of 1; expected a list of 2'),
    'flat list': key('size', '[1, 2]', '1; expected a list of 1'),
    'null in a list': key('size', '[[1], [null]]', 'None; expected a number'),
    'null': key('age', 'null', 'no value; expected a number, or a default in feature_description'),
    'missing': unlike(
        LAST.replace('"kind"', '"kinds"'),
        "key 'kind': no value; expected text, or a default in feature_description; did you mean 'kinds'?",
    ),
    'missing label': unlike(LAST.replace('"price": 5, ', ''), "key 'price': no value; expected a number"),
    'key twice': unlike(LAST.replace('{', '{"age": 12, '), "key 'age' occurs twice"),
    'trailing comma': unlike(LAST.replace('}', ',}'), 'no JSON at column ...'),
    'underscore': key('age', '1_000', "no JSON at column 55: Expecting ',' delimiter"),
    'hexadecimal': key('age', '0x10', "no JSON at column 55: Expecting ',' delimiter"),
    'decimal comma': key('mass', '1,5', 'no JSON at column 24: ...'),
    'single quotes': unlike(LAST.replace('"', "'"), 'no JSON at column 2: ...'),
    'cut short': unlike(LAST[:30], 'no JSON at column 27: ...'),
    'two objects': unlike(LAST + LAST, 'no JSON at column 73: Extra data'),
    'array': unlike(f'[{LAST}]', "[{'price': 5, 'mass': 5.0, 'size': [[1],...; expected a JSON object, {\"name\": value, ...}"),
    'number alone': unlike('5', '5; expected a JSON object, {"name": value, ...}'),
    'many brackets': unlike('[' * 100_000, 'too many brackets within brackets'),
    'nul byte': unlike(LAST.replace('wild', 'wi\0ld'), 'no JSON at column 69: Invalid control character at'),
    'Latin-1': unlike(LAST.replace('wild', 'w\udcefld'), 'no UTF-8 text at byte 68'),
    'gzip cut short': Case(lambda content: gzip.compress(content)[:-12], 2, '@/a.jsonl:5: the gzip file is cut short'),
}  # fmt: skip
FILE = {
    'pretty': Case(lambda content: content.replace(b', "mass"', b',\n"mass"'), 2, '@/a.jsonl:1: no JSON at column ...'),
    'UTF-16': Case(lambda content: content.decode().encode('utf-16'), 2, '@/a.jsonl: UTF-16 text; expected UTF-8'),
    'UTF-16 without mark': Case(lambda content: content.decode().encode('utf-16-le'), 2, '@/a.jsonl:1: no JSON at ...'),
    'CSV': Case(lambda content: b'a,b\n1,2\n', 2, '@/a.jsonl:1: no JSON at column 1: Expecting value (and 1 more bad record)'),
    'empty file': Case(
        lambda content: b'', 2, '@/a.jsonl: the file is empty; expected a JSON object a line',
        ["json_lines_input_fn.files = '@/a.jsonl'"],
    ),
    'blank lines alone': Case(
        lambda content: b'\n \n\n', 2, '@/a.jsonl: no record', ["json_lines_input_fn.files = '@/a.jsonl'"]
    ),
    'blank lines alone, late': Case(
        lambda content: b'\n \n\n', 2, '@/a.jsonl: no record',
        ["json_lines_input_fn.files = '@/a.jsonl'", 'json_lines_input_fn.repeat = True', 'trainer.input_check_secs = 0.0'],
    ),
}  # fmt: skip
LEGAL = {
    'as it was': Case(same, 0, 7),
    'byte order mark': Case(lambda content: b'\xef\xbb\xbf' + content, 0, 7),
    'Windows line ends': Case(lambda content: content.replace(b'\n', b'\r\n'), 0, 7),
    'no last line end': Case(lambda content: content[:-1], 0, 7),
    'blank lines': Case(lambda content: b'\n\n' + content.replace(b'\n', b'\n \n\t\n') + b'\n\n', 0, 7),
    'default': Case(
        line(LAST.replace('"mass": 5e0, ', '')), 0, 7, (),
        ['of 7 records some have no value, and take the default: mass 1'],
    ),
    'null for a default': Case(line(LAST.replace('5e0', 'null')), 0, 7),
    'key more': Case(line(LAST.replace('{', '{"colours": {"fur": ["red", null, NaN]}, ')), 0, 7),
    'whole number as a fraction': Case(line(LAST.replace('11', '11.0')), 0, 7),
    'largest whole number': Case(line(LAST.replace('11', str(LARGEST))), 0, 7),
    'escapes': Case(line(LAST.replace('wild', r'\u0077\u0069ld')), 0, 7),
    'spaces': Case(line(f'  {LAST} \t'), 0, 7),
    'gzip': Case(gzip.compress, 0, 7),
    'empty file beside another': Case(lambda content: b'', 0, 2),
}  # fmt: skip
CASES = BAD | FILE | LEGAL | late(BAD, 'text in a number', 'key twice', 'Latin-1', 'gzip cut short')
TABLE = Table(CONFIG, ["json_lines_input_fn.files = '@/*.jsonl'"], FILES, CASES)


@pytest.fixture(scope='module')
def outcomes(tmp_path_factory):
    cwd = tmp_path_factory.mktemp('json_lines')
    return cwd, TABLE.run(cwd)


@pytest.mark.once('oldest')
@pytest.mark.parametrize('name', CASES)
def test_outcome(outcomes, name):
    cwd, results = outcomes
    TABLE.check(cwd, name, results[name])
