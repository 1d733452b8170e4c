"""Lines of text that are changed in many ways, through the whole program: what is legal, what is said of the rest."""

import gzip

import pytest

from tests.input_fns.mutations import Case, Table, late, replaced, same

CONFIG = """
import input_fns.text
experiment.model_fn = @mutation_model_fn
experiment.train_input_fn = @text_input_fn
text_input_fn.batch_size = 2
text_input_fn.shuffle_buffer = 0
text_input_fn.repeat = False
feature_description.features = {'text': {'dtype': 'string'}}
feature_description.label = {'mood': {'vocabulary': ['good', 'bad']}}
"""
LAST = 'good\tAll is well'
FIRST = f"""good\tWhat a day
bad\tIt "rains
good\tthe sun\tis out
bad\tno, no, no
{LAST}
"""
SECOND = 'bad\tout of milk\ngood\tfriends, at last\n'
FILES = {'a.tsv': FIRST.encode(), 'b.tsv': SECOND.encode()}
FIRST_ALONE = ["text_input_fn.files = '@/a.tsv'"]
NUMBER = ["feature_description.label = {'stars': {}}", *FIRST_ALONE]
WHOLE_NUMBER = ["feature_description.label = {'stars': {'num_buckets': 6}}", *FIRST_ALONE]


def line(new):
    """A change of the last line of the first file."""
    return replaced(LAST, new)


def unlike(new, want):
    return Case(line(new), 2, f'@/a.tsv:5: {want}')


def stars(label, want, statements=NUMBER):
    """The first file with numbers for labels, `label` at last, and what is to be said of it."""
    content = f'1\tbad\n2.0\tso so\n3\tgood\n{label}\tvery good\n'
    content = content.replace('.0', '') if statements is WHOLE_NUMBER else content
    return Case(lambda _: content.encode(), 2, f'@/a.tsv:4: label: {want}', statements)


BAD = {
    'unknown label': unlike('god\tAll is well', "label: 'god'; expected one of good, bad; did you mean 'good'?"),
    'label in capitals': unlike('GOOD\tAll is well', "label: 'GOOD'; expected one of good, bad"),
    'blank after the label': unlike('good \tAll is well', "label: 'good '; expected one of good, bad; did you mean 'good'?"),
    'no label': unlike('\tAll is well', 'label: no value; expected text'),
    'no separator': unlike('All is well', r"no separator '\t' in 'All is well'; expected label and text"),
    'blanks for the separator': unlike('good All is well', r"no separator '\t' in 'good All is well'; expected label and text"),
    'no text': unlike('good\t', 'no text'),
    'blank text': unlike('good\t \t ', 'no text'),
    'Latin-1': unlike('good\tna\udcefve', 'no UTF-8 text at byte 8'),
    'overlong UTF-8': unlike('good\t\udcc0\udc80', 'no UTF-8 text at byte 6'),
    'half a character': unlike('good\t\udced\udca0\udc80', 'no UTF-8 text at byte 6'),
    'quoted label': unlike('"good"\tAll is well', "label: '\"good\"'; expected one of good, bad; did you mean 'good'?"),
    'text for stars': stars('five', "'five'; expected a number"),
    'no stars': stars('', 'no value; expected a number'),
    'decimal comma': stars('4,5', "'4,5'; expected a number"),
    'hexadecimal': stars('0x5', "'0x5'; expected a number"),
    'not a number': stars('nan', "'nan'; expected a number"),
    'too many stars': stars('6', "'6'; expected 0 to 5", WHOLE_NUMBER),
    'fraction of a star': stars('4.5', "'4.5'; expected a whole number", WHOLE_NUMBER),
    'far too many stars': stars(str(2**63), f"'{2**63}'; expected a whole number that fits int32", WHOLE_NUMBER),
    'gzip cut short': Case(lambda content: gzip.compress(content)[:-12], 2, '@/a.tsv:5: the gzip file is cut short'),
    'gzip damaged': Case(
        lambda content: gzip.compress(content)[:-8] + bytes(8), 2, '@/a.tsv:6: cannot be read: CRC check failed...'
    ),
}  # fmt: skip
FILE = {
    'UTF-16': Case(lambda content: content.decode().encode('utf-16'), 2, '@/a.tsv: UTF-16 text; expected UTF-8'),
    'carriage returns': Case(
        lambda content: content.replace(b'\n', b'\r'), 2,
        '@/a.tsv:1: carriage returns between the lines; expected line feeds',
    ),
    'bzip2': Case(
        lambda content: b'BZh91AY&SY' + content, 2, '@/a.tsv: compressed by bzip2; expected gzip or no compression'
    ),
    'empty file': Case(lambda content: b'', 2, '@/a.tsv: the file is empty; expected a text a line', FIRST_ALONE),
    'blank lines alone': Case(lambda content: b'\n\n', 2, '@/a.tsv: no record', FIRST_ALONE),
    'no match': Case(
        same, 2, "--gin_param #2: text_input_fn.files: no file '@/a.txt' or ...", ["text_input_fn.files = '@/a.txt'"]
    ),
    'two features': Case(
        same, 2, '--gin_param #2: feature_description.features: text (string), n (float32); text_input_fn expects one '
        'feature, of dtype string', ["feature_description.features = {'text': {'dtype': 'string'}, 'n': {}}"],
    ),
    'separator of nothing': Case(
        same, 2, '--gin_param #2: text_input_fn.separator: empty; expected what stands between label and text',
        ["text_input_fn.separator = ''"],
    ),
    'label without vocabulary': Case(
        same, 2,
        "--gin_param #2: feature_description.label['mood']: text without a vocabulary; expected that of its classes",
        ["feature_description.label = {'mood': {'dtype': 'string'}}"],
    ),
}  # fmt: skip
LEGAL = {
    'as it was': Case(same, 0, 7),
    'byte order mark': Case(lambda content: b'\xef\xbb\xbf' + content, 0, 7),
    'Windows line ends': Case(lambda content: content.replace(b'\n', b'\r\n'), 0, 7),
    'no last line end': Case(lambda content: content[:-1], 0, 7),
    'blank lines': Case(lambda content: b'\n\n' + content.replace(b'\n', b'\n \n\t\n') + b'\n\n', 0, 7),
    'nul byte': Case(line('good\tAll \0 well'), 0, 7),
    'no-break spaces alone': Case(line('good\t\xa0\u3000'), 0, 7),
    'emoji': Case(line('good\t\U0001f600'), 0, 7),
    'large text': Case(line('good\t' + 'well ' * 100_000), 0, 7),
    'other separator': Case(
        lambda content: content.replace(b'\t', b' ## '), 0, 5, [*FIRST_ALONE, "text_input_fn.separator = ' ## '"]
    ),
    'gzip': Case(gzip.compress, 0, 7),
    'gzip in parts': Case(lambda content: gzip.compress(content[:20]) + gzip.compress(content[20:]), 0, 7),
    'empty file beside another': Case(lambda content: b'', 0, 2),
    'stars': Case(lambda _: b' 1\tbad\n2.5e0\tso so\n-3.\tgood\n', 0, 3, NUMBER),
}  # fmt: skip
CASES = BAD | FILE | LEGAL | late(BAD, 'unknown label', 'no separator', 'Latin-1', 'text for stars', 'gzip cut short')
TABLE = Table(CONFIG, ["text_input_fn.files = '@/*.tsv'"], FILES, CASES)


@pytest.fixture(scope='module')
def outcomes(tmp_path_factory):
    cwd = tmp_path_factory.mktemp('text')
    return cwd, TABLE.run(cwd)


@pytest.mark.once('newest')
@pytest.mark.parametrize('name', CASES)
def test_outcome(outcomes, name):
    cwd, results = outcomes
    TABLE.check(cwd, name, results[name])
