"""Arrays that are changed in many ways, through the whole program: what is legal, what is said of the rest."""

import dataclasses
import io

import numpy as np
import pytest

from tests.input_fns.mutations import Case, Table, same

CONFIG = """
import input_fns.memory
experiment.model_fn = @mutation_model_fn
experiment.train_input_fn = @memory_input_fn
memory_input_fn.batch_size = 2
memory_input_fn.shuffle_buffer = 0
memory_input_fn.repeat = False
feature_description.features = {
    'mass': {'default': 1.5},
    'size': {'shape': [2]},
    'age': {'dtype': 'int32', 'num_buckets': 100},
    'kind': {'vocabulary': ['wild', 'tame'], 'out_of_vocabulary': 'error'},
}
feature_description.label = {'price': {}}
"""
WHERE = '--gin_param #1: memory_input_fn.data: '
NPZ = '--gin_param #2: npz_arrays.file: '
COLUMNS = {
    'price': np.arange(7.0),
    'mass': np.arange(7.0),
    'size': np.ones([7, 2]),
    'age': np.arange(7),
    'kind': np.array(['wild', 'tame'] * 4)[:7],
}


def npz(columns, compressed=False):
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **columns)
    return file.getvalue()


FILES = {'a.npz': npz(COLUMNS)}


def column(name, value, want, *statements):
    """Data whose column `name` is what an expression says, and what is to be said of it."""
    code = 2 if isinstance(want, str) else 0
    made = [
        'memory_input_fn.data = @odd_columns',
        f'odd_columns.column = {name!r}',
        f'odd_columns.value = {value!r}',
        *statements,
    ]
    return Case(same, code, f'--gin_param #1: memory_input_fn.data: column {name!r}{want}' if code else want, made)


def of_file(case):
    return dataclasses.replace(
        case, statements=['memory_input_fn.data = @npz_arrays', "npz_arrays.file = '@/a.npz'", *case.statements]
    )


MISSING = 'no value; expected a number, or a default in feature_description'
WHOLE = ["feature_description.features = {'age': {'dtype': 'int64'}}"]
BAD = {
    'missing': column('size', 'good * [1, np.nan]', f', row 0: {MISSING}'),
    'None': column('age', '[0, 1, 2, None, 4, 5, 6]', f', row 3: {MISSING}'),
    'NA': column('age', 'np.array([0, 1, 2, 3, 4, 5, NA], object)', f', row 6: {MISSING}'),
    'masked': column('age', 'np.ma.array(good, mask=[0, 0, 1, 0, 0, 0, 0])', f', row 2: {MISSING}'),
    'missing text': column('kind', '["wild"] * 6 + [None]', ', row 6: no value; expected text, or a default in feature_description'),
    'infinity': column('mass', 'np.array([*good[:4], np.inf, *good[5:]])', ', row 4: inf; expected a finite float32'),
    'too large for a float': column('mass', 'good * 1e39', ', row 0: 5e+38; expected a finite float32'),
    'too large a label': column('price', 'good + 1e300', ', row 0: 1e+300; expected a finite float32'),
    'complex': column('mass', 'good + 1j', ', row 0: (0.5+1j); expected a number'),
    'bools': column('age', 'good > 3', ', row 0: False; expected a whole number'),
    'dates': column('mass', 'good.astype("datetime64[s]")', ': datetime64[s]; expected float32'),
    'spans of time': column('age', 'good.astype("timedelta64[ns]")', ': timedelta64[ns]; expected int32'),
    'text in a number': column('mass', '["a"] + [1.0] * 6', ", row 0: 'a'; expected a number"),
    'number in text': column('kind', 'np.array([*good[:-1], 5], object)', ', row 6: 5; expected text'),
    'half a character': column('kind', 'np.array([*good[:-1], "\\ud800"], object)', r", row 6: '\ud800'; expected text without halves of characters"),
    'fraction': column('age', 'good + 0.5', ', row 0: 0.5; expected a whole number'),
    'above the buckets': column('age', 'good + 94', ', row 6: 100; expected 0 to 99'),
    'below the buckets': column('age', 'good - 1', ', row 0: -1; expected 0 to 99'),
    'overflow': column('age', 'good + 2**31', ', row 0: 2147483648; expected a whole number that fits int32'),
    '2 to the 63': column('age', 'good + 2.0**63', ', row 0: 9.223372036854776e+18; expected a whole number that fits int64', *WHOLE),
    'unsigned overflow': column('age', 'good.astype("uint64") + np.uint64(2**63)', ', row 0: 9223372036854775808; expected a whole number that fits int64', *WHOLE),
    'large object': column('age', 'np.array([0] * 6 + [10**400], object)', f', row 6: 1{"0" * 39}...; expected a whole number that fits int32'),
    'large object as a float': column('mass', 'np.array([0] * 6 + [10**400], object)', f', row 6: 1{"0" * 39}...; expected a finite float32'),
    'out of vocabulary': column('kind', 'good[:6] + ["lame"]', ", row 6: 'lame'; expected one of wild, tame; did you mean 'tame'?"),
    'column of columns': column('mass', 'good[:, None]', ': shape [7, 1]; expected [examples]'),
    'flat': column('size', 'good[:, 0]', ': shape [7]; expected [examples, 2]'),
    'scalar': column('mass', '1.0', ': shape []; expected [examples]'),
    'ragged': column('size', '[[1, 2]] * 6 + [[1]]', ': setting an array element with a sequence...'),
}  # fmt: skip
DATA = {
    'lengths': Case(
        same, 2, '--gin_param #1: memory_input_fn.data: columns of different lengths: mass 7, size 7, age 6, kind 7, price 7',
        ['memory_input_fn.data = @odd_columns', "odd_columns.column = 'age'", "odd_columns.value = 'good[1:]'"],
    ),
    'no array': Case(same, 2, '--gin_param #1: memory_input_fn.data: int; expected ...', ['memory_input_fn.data = 5']),
    'no such column': Case(
        lambda _: npz({**{name: it for name, it in COLUMNS.items() if name != 'mass'}, 'masse': COLUMNS['mass']}), 2,
        f"{WHERE}no column 'mass' among price, size, age, kind, masse; did you mean 'masse'?",
    ),
    'no rows': Case(lambda _: npz({name: it[:0] for name, it in COLUMNS.items()}), 2, f'{WHERE}no examples'),
    'empty file': Case(lambda _: b'', 2, f'{NPZ}@/a.npz is no .npz file of arrays: No data left in file'),
    'no zip': Case(lambda _: b'mass,kind\n1,wild\n', 2, f'{NPZ}@/a.npz is no .npz file of arrays: ...'),
    'cut short': Case(lambda content: content[:-100], 2, f'{NPZ}cannot read @/a.npz: File is not a zip file'),
    'damaged': Case(
        lambda content: content.replace(COLUMNS['price'].tobytes(), bytes(56)), 2,
        f"{NPZ}cannot read @/a.npz: Bad CRC-32 for file 'price.npy'",
    ),
    'pickled': Case(
        lambda _: npz({**COLUMNS, 'kind': COLUMNS['kind'].astype(object)}), 2,
        f'{NPZ}@/a.npz is no .npz file of arrays: Object arrays cannot be loaded when allow_pickle=False',
    ),
    'two files': Case(
        lambda folder: (folder / 'b.npz').write_bytes(b''), 2, "--gin_param #3: npz_arrays.file: 2 files match '@/*.npz'; expected one",
        ["npz_arrays.file = '@/*.npz'"],
    ),
}  # fmt: skip
LEGAL = {
    'as it was': Case(same, 0, 7),
    'compressed': Case(lambda _: npz(COLUMNS, compressed=True), 0, 7),
    'array more': Case(lambda _: npz({**COLUMNS, 'colour': np.ones([2, 2])}), 0, 7),
    'lists': column('mass', '[1, 2.5, 3, 4, 5, 6, 7]', 7),
    'frame': column('mass', 'good', 7, 'odd_columns.frame = True'),
    'objects': column('mass', 'np.array([1, 2.0, np.float32(3), np.int8(4), None, NA, np.nan], object)', 7),
    'floats that are whole': column('age', 'np.arange(7.0)', 7),
    'unsigned': column('age', 'good.astype("uint64")', 7),
    'bytes': column('kind', 'np.array(good, "S4")', 7),
    'half floats': column('mass', 'good.astype("float16")', 7),
    'largest whole number': column('age', '[2**63 - 1] * 7', 7, *WHOLE),
}  # fmt: skip
LEGAL['default'] = Case(
    same, 0, 7, column('mass', 'np.array([*good[:-2], np.nan, np.nan])', 7).statements,
    ['of 7 records some have no value, and take the default: mass 2'],
)  # fmt: skip
CASES = {
    name: case if any('odd_columns' in it or '= 5' in it for it in case.statements) else of_file(case)
    for name, case in (BAD | DATA | LEGAL).items()
}
TABLE = Table(CONFIG, [], FILES, CASES)


@pytest.fixture(scope='module')
def outcomes(tmp_path_factory):
    cwd = tmp_path_factory.mktemp('memory')
    return cwd, TABLE.run(cwd)


@pytest.mark.once('oldest')
@pytest.mark.parametrize('name', CASES)
def test_outcome(outcomes, name):
    cwd, results = outcomes
    TABLE.check(cwd, name, results[name])
