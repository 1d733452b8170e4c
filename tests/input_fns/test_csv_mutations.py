"""CSV files that are changed in many ways, through the whole program: what is legal, what is said of the rest."""

import gzip

import pytest

from tests.input_fns.mutations import LATE, Case, Table, late, replaced, same

pytestmark = pytest.mark.once('oldest')

CONFIG = """
import input_fns.csv
experiment.model_fn = @mutation_model_fn
experiment.train_input_fn = @csv_input_fn
csv_input_fn.batch_size = 2
csv_input_fn.shuffle_buffer = 0
csv_input_fn.repeat = False
feature_description.features = {
    'mass': {'default': 1.5},
    'age': {'dtype': 'int32'},
    'kind': {'vocabulary': ['wild', 'tame'], 'out_of_vocabulary': 'error'},
    'name': {'hash_buckets': 10},
}
feature_description.label = {'species': {'vocabulary': ['cat', 'dog']}}
"""
HEADER = 'species,mass,age,kind,name'
FIRST = f"""{HEADER}
cat,4.5,3,tame,Minka
dog,20,7,tame,Rex
cat,3.25,1,wild,Felix
dog,8,2,tame,Waldi
cat,5e0,11,wild,Mimi
"""
SECOND = f"""{HEADER}
dog,30,4,wild,Wolf
cat,4,-2,tame,Leo
"""
FILES = {'a.csv': FIRST.encode(), 'b.csv': SECOND.encode()}
ROW = 'cat,5e0,11,wild,Mimi'
QUOTE = (
    'a quote that does not enclose a field; expected "..." around all of a field, on one line, with quotes in it doubled'
)


def row(new):
    """A change of the last row of the first file."""
    return replaced(ROW, new)


def number(cell):
    return Case(row(f'cat,{cell},11,wild,Mimi'), 2, f"@/a.csv:6: column 'mass': {cell!r}; expected a number")


def whole(cell, expected='a whole number', found=None):
    return Case(
        row(f'cat,5,{cell},wild,Mimi'), 2, f"@/a.csv:6: column 'age': {found or repr(cell)}; expected {expected}"
    )


def encoded(encoding):
    return lambda content: content.decode().encode(encoding)


FIELDS = {
    'text in a number': number('heavy'),
    'underscore in a number': number('1_000'),
    'hexadecimal': number('0x10'),
    'infinity': number('inf'),
    'not a number': number('nan'),
    'dash': number('-'),
    'Arabic digits': number('\u0661\u0662'),
    'no-break space': number('5\xa0'),
    'space alone': number(' '),
    'nul byte': number('5\0'),
    'unit': number('5 kg'),
    'null': number('NULL'),
    'too large for a float': Case(
        row('cat,1e39,11,wild,Mimi'), 2, "@/a.csv:6: column 'mass': '1e39'; expected a finite float32"
    ),
    'fraction in a whole number': whole('11.5'),
    'exponent in a whole number': whole('1e1'),
    'plus sign in a whole number': whole('+11'),
    'overflow': whole('2147483648', 'a whole number that fits int32', '2147483648'),
    'negative overflow': whole('-2147483649', 'a whole number that fits int32', '-2147483649'),
    'missing without default': whole('', 'a number, or a default in feature_description', 'no value'),
    'decimal comma': Case(row('cat,5,1,11,wild,Mimi'), 2, '@/a.csv:6: 6 fields; expected 5'),
    'unknown label': Case(
        row('cow,5,11,wild,Mimi'), 2, "@/a.csv:6: column 'species': 'cow'; expected one of cat, dog"
    ),
    'label in capitals': Case(
        row('Cat,5,11,wild,Mimi'),
        2,
        "@/a.csv:6: column 'species': 'Cat'; expected one of cat, dog; did you mean 'cat'?",
    ),
    'missing label': Case(row(',5,11,wild,Mimi'), 2, "@/a.csv:6: column 'species': no value; expected text"),
    'out of vocabulary': Case(
        row('cat,5,11,lame,Mimi'),
        2,
        "@/a.csv:6: column 'kind': 'lame'; expected one of wild, tame; did you mean 'tame'?",
    ),
    'too few fields': Case(row('cat,5,11'), 2, '@/a.csv:6: 3 fields; expected 5'),
    'lone quote': Case(row('cat,5,11,wild,Mimi "Mi"'), 2, f'@/a.csv:6: {QUOTE}'),
    'open quote': Case(row('cat,5,11,wild,"Mimi'), 2, f'@/a.csv:6: {QUOTE}'),
    'line break in quotes': Case(row('cat,5,11,wild,"Mi\nmi"'), 2, f'@/a.csv:6: {QUOTE} (and 1 more bad record)'),
    'semicolons': Case(row(ROW.replace(',', ';')), 2, '@/a.csv:6: 1 fields; expected 5'),
    'Latin-1': Case(row('cat,5,11,wild,M\udcefmi'), 2, "@/a.csv:6: column 'name': no UTF-8 text at byte 2"),
    'Latin-1 in a number': Case(row('cat,5\udce9,11,wild,Mimi'), 2, "@/a.csv:6: column 'mass': no UTF-8 text at byte 2"),
    'TFRecord': Case(lambda content: b'\x11\0\0\0\0\0\0\0\xff\xff' * 9, 2, '@/a.csv:1: ...'),
}
FILES_CHANGED = {
    'empty file beside another': Case(lambda content: b'', 2, '@/a.csv:1: no header; expected a row of column names'),
    'header only beside another': Case(lambda content: HEADER.encode(), 0, 2),
    'no file': Case(lambda content: None, 0, 2),
    'other header': Case(
        replaced(HEADER, 'species,mass,age,kind'),
        2,
        '@/b.csv:1: columns species,mass,age,kind,name; expected species,mass,age,kind as in @/a.csv',
    ),
    'column twice': Case(
        replaced('mass', 'age'), 2, "@/a.csv:1: column 'age' occurs twice in the header",
    ),
    'no such column': Case(
        replaced('mass', 'weight'), 2,
        "feature_description.features: no column 'mass' among species, weight, age, kind, name",
        ["csv_input_fn.files = '@/a.csv'"],
    ),
    'no match': Case(same, 2, "csv_input_fn.files: no file '@/*.tsv' or ...", ["csv_input_fn.files = '@/*.tsv'"]),
    'UTF-16': Case(encoded('utf-16'), 2, '@/a.csv:1: UTF-16 text; expected UTF-8'),
    'carriage returns alone': Case(lambda content: content.replace(b'\n', b'\r'), 2, '@/a.csv:1: ...'),
    'gzip cut short': Case(lambda content: gzip.compress(content)[:-12], 2, '@/a.csv:6: the gzip file is cut short'),
    'gzip damaged': Case(
        lambda content: gzip.compress(content)[:-8] + bytes(8), 2, '@/a.csv:7: cannot be read: CRC check failed...'
    ),
}
LEGAL = {
    'as it was': Case(same, 0, 7),
    'byte order mark': Case(lambda content: b'\xef\xbb\xbf' + content, 0, 7),
    'Windows line ends': Case(lambda content: content.replace(b'\n', b'\r\n'), 0, 7),
    'no last line end': Case(lambda content: content[:-1], 0, 7),
    'blank lines': Case(lambda content: content.replace(b'\ndog', b'\n\n\ndog') + b'\n\n\n', 0, 7),
    'default': Case(
        row('cat,,11,wild,Mimi'), 0, 7, (), ['of 7 records some have no value, and take the default: mass 1']
    ),
    'quoted delimiter': Case(row('"cat","5",11,wild,"Mimi, the ""cat"""'), 0, 7),
    'spaces around a number': Case(row('cat, 5\t, 11 ,wild,Mimi'), 0, 7),
    'gzip': Case(gzip.compress, 0, 7),
    'gzip in parts': Case(lambda content: gzip.compress(content[:40]) + gzip.compress(content[40:]), 0, 7),
    'column more': Case(
        lambda content: content.replace(b'\n', b',"x, y"\n'), 0, 5, ["csv_input_fn.files = '@/a.csv'"]
    ),
    'same file twice': Case(same, 0, 7, ["csv_input_fn.files = ['@/a.csv', '@/b.csv', './@/a.csv', '@/*.csv']"]),
    'nul byte in text': Case(row('cat,5,11,wild,Mi\0mi'), 0, 7),
    'large text': Case(row('cat,5,11,wild,"' + 'M' * 300_000 + '"'), 0, 7),
    'tabs': Case(
        lambda content: content.replace(b',', b'\t'), 0, 5,
        ["csv_input_fn.files = '@/a.csv'", r"csv_input_fn.delimiter = '\t'"],
    ),
    'value for nothing': Case(row('cat,NA,11,wild,Mimi'), 0, 7, ["csv_input_fn.na_value = 'NA'"]),
}  # fmt: skip
EARLY = FIELDS | FILES_CHANGED
CASES = EARLY | LEGAL | late(EARLY, 'text in a number', 'too few fields', 'unknown label', 'Latin-1 in a number',
'gzip cut short')
TABLE = Table(CONFIG, ["csv_input_fn.files = '@/*.csv'"], FILES, CASES)


@pytest.fixture(scope='module')
def outcomes(tmp_path_factory):
    cwd = tmp_path_factory.mktemp('csv')
    return cwd, TABLE.run(cwd)


@pytest.mark.parametrize('name', CASES)
def test_outcome(outcomes, name):
    cwd, results = outcomes
    TABLE.check(cwd, name, results[name])
