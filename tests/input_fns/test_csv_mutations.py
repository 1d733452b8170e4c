"""CSV files that are changed in many ways, through the whole program: what is legal, what is said of the rest."""

import gzip
import os
import shutil

import pytest

from tests.input_fns.mutations import Case, Table, late, replaced, same

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
QUOTE = 'a quote that does not enclose a field; expected "..." around all of a field, on one line, with quotes in it doubled'
FIRST_ALONE = ["csv_input_fn.files = '@/a.csv'"]


def row(new):
    """A change of the last row of the first file."""
    return replaced('cat,5e0,11,wild,Mimi', new)


def number(cell, expected='a number'):
    return Case(row(f'cat,{cell},11,wild,Mimi'), 2, f"@/a.csv:6: column 'mass': {cell!r}; expected {expected}")


def whole(cell, expected='a whole number'):
    return Case(row(f'cat,5,{cell},wild,Mimi'), 2, f"@/a.csv:6: column 'age': {cell!r}; expected {expected}")


def unlike(new, want):
    return Case(row(new), 2, f'@/a.csv:6: {want}')


def broken_link(folder):
    (folder / 'c.csv').symlink_to('nowhere.csv')


def odd_name(folder):
    shutil.copy(folder / 'b.csv', os.fsencode(folder) + b'/\xff.csv')


BAD = {
    'text in a number': number('heavy'),
    'underscore in a number': number('1_000'),
    'hexadecimal': number('0x10'),
    'infinity': number('inf'),
    'not a number': number('nan'),
    'dash': number('-'),
    'Arabic digits': number('\u0661\u0662'),
    'blank': number(' '),
    'nul byte in a number': number('5\0'),
    'too large for a float': number('1e39', 'a finite float32'),
    'long number': Case(
        row('cat,0.' + '1' * 50 + ',11,wild,Mimi'),
        2,
        f"@/a.csv:6: column 'mass': '0.{'1' * 37}...; expected a number of at most 31 characters",
    ),
    'fraction in a whole number': whole('11.5'),
    'plus sign in a whole number': whole('+11'),
    'overflow': whole('2147483648', 'a whole number that fits int32'),
    'missing': Case(
        row('cat,5,,wild,Mimi'),
        2,
        "@/a.csv:6: column 'age': no value; expected a number, or a default in feature_description",
    ),
    'decimal comma': unlike('cat,5,1,11,wild,Mimi', '6 fields; expected 5'),
    'unknown label': unlike('cow,5,11,wild,Mimi', "column 'species': 'cow'; expected one of cat, dog"),
    'missing label': unlike(',5,11,wild,Mimi', "column 'species': no value; expected text"),
    'out of vocabulary': unlike(
        'cat,5,11,lame,Mimi', "column 'kind': 'lame'; expected one of wild, tame; did you mean 'tame'?"
    ),
    'too few fields': unlike('cat,5,11', '3 fields; expected 5'),
    'lone quote': unlike('cat,5,11,wild,Mimi "Mi"', QUOTE),
    'line break in quotes': unlike('cat,5,11,wild,"Mi\nmi"', f'{QUOTE} (and 1 more bad record)'),
    'Latin-1': unlike('cat,5,11,wild,M\udcefmi', 'no UTF-8 text at byte 16'),
    'gzip cut short': Case(lambda content: gzip.compress(content)[:-12], 2, '@/a.csv:6: the gzip file is cut short'),
    'gzip damaged': Case(
        lambda content: gzip.compress(content)[:-8] + bytes(8), 2, '@/a.csv:7: cannot be read: CRC check failed...'
    ),
}
BAD_FILES = {
    'TFRecord': Case(lambda content: (b'\x11' + bytes(7) + b'\xff\xfe') * 9, 2, '@/a.csv:1: no text, but bytes...'),
    'empty file beside another': Case(lambda content: b'', 2, '@/a.csv:1: no header; expected a row of column names'),
    'header only': Case(
        lambda content: HEADER.encode(), 2, '@/a.csv: no record after the header', FIRST_ALONE,
    ),
    'other header': Case(
        replaced(HEADER, 'species,mass,age,kind'),
        2,
        '@/b.csv:1: columns species,mass,age,kind,name; expected species,mass,age,kind as in @/a.csv',
    ),
    'no such column': Case(
        replaced('mass', 'weight'), 2,
        "case.gin:9: feature_description.features: no column 'mass' among species, weight, age, kind, name",
        FIRST_ALONE,
    ),
    'no match': Case(
        same, 2, "--gin_param #2: csv_input_fn.files: no file '@/*.tsv' or ...", ["csv_input_fn.files = '@/*.tsv'"]
    ),
    'broken link': Case(broken_link, 2, '--gin_param #1: csv_input_fn.files: cannot read @/c.csv: ...'),
    'odd name': Case(odd_name, 2, '--gin_param #1: csv_input_fn.files: a file whose name is no UTF-8 text: ...'),
    'UTF-16': Case(lambda content: content.decode().encode('utf-16'), 2, '@/a.csv: UTF-16 text; expected UTF-8'),
    'UTF-16 without mark': Case(
        lambda content: content.decode().encode('utf-16-le'), 2, '@/a.csv:1: no text, but bytes...'
    ),
    'carriage returns': Case(
        lambda content: content.replace(b'\n', b'\r'), 2,
        '@/a.csv:1: carriage returns between the lines; expected line feeds',
    ),
    'vanishes': Case(
        same, 1, '@/b.csv:1: cannot be read: ...', ["experiment.hooks = [@Once()]", "Once.path = '@/b.csv'"],
    ),
    'is replaced': Case(
        lambda folder: (folder / 'c').write_bytes(b'x\ny\n'), 1, '@/b.csv:2: 1 fields; expected 5',
        ["experiment.hooks = [@Once()]", "Once.path = '@/b.csv'", "Once.by = '@/c'"],
    ),
    # TensorFlow refuses what Python takes for the end of the file.
    'gzip and zeros': Case(
        lambda content: gzip.compress(content) + bytes(64), 1, '@/a.csv, @/b.csv: DataLossError: ...'
    ),
}  # fmt: skip
LEGAL = {
    'as it was': Case(same, 0, 7),
    'byte order mark': Case(lambda content: b'\xef\xbb\xbf' + content, 0, 7),
    'Windows line ends': Case(lambda content: content.replace(b'\n', b'\r\n'), 0, 7),
    'no last line end': Case(lambda content: content[:-1], 0, 7),
    'blank lines': Case(lambda content: content.replace(b'\ndog', b'\n\n\ndog') + b'\n\n\n', 0, 7),
    'default': Case(
        row('cat,,11,wild,Mimi'), 0, 7, (), ['of 7 records some have no value, and take the default: mass 1']
    ),
    'quotes': Case(row('"cat","5",11,wild,"Mimi, the ""cat"""'), 0, 7),
    'spaces around a number': Case(row('cat, 5\t, 11 ,wild,Mimi'), 0, 7),
    'gzip': Case(gzip.compress, 0, 7),
    'gzip in parts': Case(lambda content: gzip.compress(content[:40]) + gzip.compress(content[40:]), 0, 7),
    'column more': Case(lambda content: content.replace(b'\n', b',"x, y"\n'), 0, 5, FIRST_ALONE),
    'no header': Case(
        lambda content: b'\xef\xbb\xbf' + content.partition(b'\n')[2], 0, 5,
        [*FIRST_ALONE, "csv_input_fn.columns = ['species', 'mass', 'age', 'kind', 'name']"],
    ),
    'header only beside another': Case(lambda content: HEADER.encode(), 0, 2),
    'same file twice': Case(same, 0, 7, ["csv_input_fn.files = ['@/a.csv', '@/b.csv', './@/a.csv', '@/*.csv']"]),
    'folder': Case(lambda folder: (folder / 'c.csv').mkdir(), 0, 7),
    'nul byte in text': Case(row('cat,5,11,wild,Mi\0mi'), 0, 7),
    'large text': Case(row('cat,5,11,wild,"' + 'M' * 300_000 + '"'), 0, 7),
    'tabs': Case(
        lambda content: content.replace(b',', b'\t'), 0, 5, [*FIRST_ALONE, r"csv_input_fn.delimiter = '\t'"]
    ),
    'value for nothing': Case(row('cat,NA,11,wild,Mimi'), 0, 7, ["csv_input_fn.na_value = 'NA'"]),
}  # fmt: skip
CASES = BAD | BAD_FILES | LEGAL | late(BAD, 'text in a number', 'too few fields', 'unknown label', 'Latin-1')
TABLE = Table(CONFIG, ["csv_input_fn.files = '@/*.csv'"], FILES, CASES)


@pytest.fixture(scope='module')
def outcomes(tmp_path_factory):
    cwd = tmp_path_factory.mktemp('csv')
    return cwd, TABLE.run(cwd)


@pytest.mark.once('oldest')
@pytest.mark.parametrize('name', CASES)
def test_outcome(outcomes, name):
    cwd, results = outcomes
    TABLE.check(cwd, name, results[name])
