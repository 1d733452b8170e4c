"""TFRecord files that are changed in many ways, through the whole program: what is legal, what is said of the rest."""

import gzip

import pytest

from estimator_trainer.compat import tf
from tests.input_fns.example_records import example, file_of, of_values
from tests.input_fns.mutations import Case, Table, late, same

CONFIG = """
import input_fns.tfrecord
experiment.model_fn = @mutation_model_fn
experiment.train_input_fn = @tfrecord_input_fn
tfrecord_input_fn.batch_size = 2
tfrecord_input_fn.shuffle_buffer = 0
tfrecord_input_fn.repeat = False
feature_description.features = {
    'mass': {'default': 1.5},
    'size': {'shape': [2]},
    'age': {'dtype': 'int32'},
    'kind': {'vocabulary': ['wild', 'tame'], 'out_of_vocabulary': 'error'},
}
feature_description.label = {'species': {'num_buckets': 2}}
"""
ROW = {'species': 1, 'mass': 4.5, 'size': [1.0, 2.0], 'age': 3, 'kind': 'tame'}
FIRST = [of_values({**ROW, 'age': age}) for age in range(5)]
SECOND = [of_values({**ROW, 'age': age}) for age in range(5, 7)]
FILES = {'a.tfrecord': file_of(FIRST), 'b.tfrecord': file_of(SECOND)}
LENGTH = len(FIRST[0])  # all have the same
WHOLE = len(FILES['a.tfrecord'])
IN_THE_LAST = 4 * (12 + LENGTH + 4)


def last(record):
    """A change of the first file's last record."""
    return lambda content: file_of([*FIRST[:-1], record])


def value(want, **changed):
    """A last record of other values, and what is to be said of it."""
    row = {name: it for name, it in {**ROW, **changed}.items() if it is not None}
    return Case(last(of_values(row)), 2, f'@/a.tfrecord: record 5: feature {want}')


def stored(want, **lists):
    """A last record with lists of another kind, and what is to be said of it."""
    row = {name: it for name, it in ROW.items() if name not in lists}
    return Case(last(of_values(row) + example(**lists)), 2, f'@/a.tfrecord: record 5: feature {want}')


def cut(bytes_left, want, number=5):
    return Case(lambda content: content[:bytes_left], 2, f'@/a.tfrecord: record {number}: {want}')


def flipped(at, want):
    def change(content):
        return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]

    return Case(change, 2, f'@/a.tfrecord: record 5: {want}')


def sequence(_):
    one = tf.train.SequenceExample()
    one.feature_lists.feature_list['mass'].feature.add().float_list.value.append(1.0)
    return file_of([*FIRST[:-1], one.SerializeToString()])


CUT = 'cut short: the file ends within a record'
BAD = {
    'kind of list': stored("'mass': int64_list; expected float_list (numbers) for dtype float32", mass=('int64_list', [4])),
    'number for a whole number': stored(
        "'age': float_list; expected int64_list (whole numbers) for dtype int32", age=('float_list', [4.0])
    ),
    'number for text': stored("'kind': int64_list; expected bytes_list (texts) for dtype string", kind=('int64_list', [4])),
    'text for a number': stored("'size': bytes_list; expected float_list (numbers) for dtype float32", size=('bytes_list', [b'a', b'b'])),
    'too many values': value("'mass': 2 values; expected 1", mass=[1.0, 2.0]),
    'too few values': value("'size': 1 values; expected 2", size=1.0),
    'empty list': stored("'age': 0 values; expected 1", age=('int64_list', [])),
    'empty list with default': stored("'mass': 0 values; expected 1", mass=('float_list', [])),
    'missing': value("'age': no value; expected a number, or a default in feature_description", age=None),
    'misspelt': value("'kind': no value; expected text, or a default in feature_description; did you mean 'kinds'?", kind=None, kinds='tame'),
    'missing label': value("'species': no value; expected a number", species=None),
    'unknown label': value("'species': 2; expected 0 to 1", species=2),
    'negative label': value("'species': -1; expected 0 to 1", species=-1),
    'out of vocabulary': value("'kind': 'lame'; expected one of wild, tame; did you mean 'tame'?", kind='lame'),
    'bytes out of vocabulary': value("'kind': '\\udcff'; expected one of wild, tame", kind=b'\xff'),
    'not a number': value("'mass': nan; expected a finite float32", mass=float('nan')),
    'infinity': value("'size': inf; expected a finite float32", size=[1.0, float('inf')]),
    'overflow': value("'age': 2147483648; expected a whole number that fits int32", age=2**31),
    'negative overflow': value("'age': -2147483649; expected a whole number that fits int32", age=-(2**31) - 1),
    'no Example': Case(last(b'\xff\xff\xff'), 2, '@/a.tfrecord: record 5: 3 bytes that are no tf.train.Example'),
    'nothing': Case(last(b''), 2, "@/a.tfrecord: record 5: feature 'size': no value; expected ..."),
    'SequenceExample': Case(sequence, 2, '@/a.tfrecord: record 5: a tf.train.SequenceExample; expected tf.train.Example'),
    'cut in the data': cut(WHOLE - 20, f'damaged: truncated record at {IN_THE_LAST}'),
    'cut in the length': cut(IN_THE_LAST + 5, CUT),
    'cut before the data': cut(IN_THE_LAST + 12, 'damaged: ...'),
    'cut in the last checksum': cut(WHOLE - 1, 'damaged: ...'),
    'data flipped': flipped(WHOLE - 20, 'damaged: ...'),
    'length flipped': flipped(IN_THE_LAST, 'damaged: ...'),
    'length flipped to be huge': flipped(IN_THE_LAST + 7, 'damaged: ...'),
    'rubbish behind': Case(lambda content: content + b'abc', 2, f'@/a.tfrecord: record 6: {CUT}'),
}  # fmt: skip
GZIP = {
    'gzip cut short': Case(
        # Stored as it is: how far a compressed record would reach goes by the order of its features, which varies.
        lambda content: gzip.compress(content, 0)[:-30],
        2,
        '@/a.tfrecord: record 5: the gzip file is cut short',
    ),
    'gzip without its end': Case(
        lambda content: gzip.compress(content)[:-8], 2, '@/a.tfrecord: record 6: the gzip file is cut short'
    ),
    'gzip of what is cut in the length': Case(
        lambda content: gzip.compress(content[: IN_THE_LAST + 5]), 2, f'@/a.tfrecord: record 5: {CUT}'
    ),
    'gzip damaged': Case(
        lambda content: gzip.compress(content)[:-8] + bytes(8),
        2,
        '@/a.tfrecord: record 6: cannot be read: CRC check...',
    ),
}
FILE = {
    'empty file': Case(
        lambda content: b'',
        2,
        '@/a.tfrecord: the file is empty; expected records',
        ["tfrecord_input_fn.files = '@/a*'"],
    ),
    'no record': Case(
        lambda content: gzip.compress(b''), 2, '@/a.tfrecord: no record', ["tfrecord_input_fn.files = '@/a*'"]
    ),
    'CSV': Case(lambda content: b'a,b,c\n1,2,3\n' * 9, 2, '@/a.tfrecord: record 1: damaged: ...'),
    'three bytes': Case(lambda content: b'a,b', 2, f'@/a.tfrecord: record 1: {CUT}'),
    'zlib': Case(
        lambda content: file_of(FIRST, 'ZLIB'),
        2,
        '@/a.tfrecord: record 1: compressed by zlib; expected gzip or no compression',
    ),
    'xz': Case(
        lambda content: b'\xfd7zXZ\0' + content, 2, '@/a.tfrecord: compressed by xz; expected gzip or no compression'
    ),
    'vanishes': Case(
        same,
        1,
        '@/b.tfrecord: record 1: cannot be read: ...',
        ['experiment.hooks = [@Once()]', "Once.path = '@/b.tfrecord'"],
    ),
}
LEGAL = {
    'as it was': Case(same, 0, 7),
    'gzip': Case(gzip.compress, 0, 7),
    'gzip in parts': Case(lambda content: gzip.compress(content[:40]) + gzip.compress(content[40:]), 0, 7),
    'default': Case(
        last(of_values({name: it for name, it in ROW.items() if name != 'mass'})), 0, 7, (),
        ['of 7 records some have no value, and take the default: mass 1'],
    ),
    'feature without a list': Case(
        last(of_values({**ROW, 'mass': 0.5}) + example(mass=('float_list', [1.0]))), 0, 7,
    ),
    'feature more': Case(last(of_values({**ROW, 'colour': 'red', 'images': [b'\xff', b'\0']})), 0, 7),
    'empty file beside another': Case(lambda content: b'', 0, 2),
    'record added': Case(lambda content: content + file_of(FIRST[:1]), 0, 8),
    'same file twice': Case(same, 0, 7, ["tfrecord_input_fn.files = ['@/a.tfrecord', './@/a.tfrecord', '@/*']"]),
}  # fmt: skip
CASES = BAD | FILE | LEGAL | late(BAD, 'kind of list', 'missing', 'overflow', 'cut in the length', 'data flipped')
ON_BOTH = GZIP | late(GZIP, 'gzip cut short', 'gzip without its end', 'gzip of what is cut in the length')
TABLE = Table(CONFIG, ["tfrecord_input_fn.files = '@/*.tfrecord'"], FILES, CASES)
GZIP_TABLE = Table(CONFIG, ["tfrecord_input_fn.files = '@/*.tfrecord'"], FILES, ON_BOTH)


@pytest.fixture(scope='module')
def outcomes(tmp_path_factory):
    cwd = tmp_path_factory.mktemp('tfrecord')
    return cwd, TABLE.run(cwd)


@pytest.fixture(scope='module')
def outcomes_of_gzip(tmp_path_factory):
    cwd = tmp_path_factory.mktemp('gzip')
    return cwd, GZIP_TABLE.run(cwd)


@pytest.mark.once('newest')
@pytest.mark.parametrize('name', CASES)
def test_outcome(outcomes, name):
    cwd, results = outcomes
    TABLE.check(cwd, name, results[name])


@pytest.mark.parametrize('name', ON_BOTH)
def test_outcome_of_gzip(outcomes_of_gzip, name):
    cwd, results = outcomes_of_gzip
    GZIP_TABLE.check(cwd, name, results[name])
