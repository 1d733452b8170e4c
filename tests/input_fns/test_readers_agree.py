"""A record that Python finds good TensorFlow reads, as the same values; one that Python finds bad it does not."""

import dataclasses
import random
import re

import numpy as np
import pytest

from estimator_trainer.compat import tf
from estimator_trainer.features import Description, Feature
from input_fns.csv import _Csv, _Splitter
from input_fns.forms import Lines
from input_fns.image_folder import _Images
from input_fns.json_lines import _JsonLines, _object
from input_fns.memory import _Rows
from input_fns.text import _Text
from input_fns.tfrecord import _TFRecord
from tests.input_fns.example_images import bmp, gif, jpeg, png
from tests.input_fns.example_records import example

LABEL = Feature('x', 'string', vocabulary=('cat', 'dog', 'é'), is_label=True)
FEATURES = [
    Feature('x'),
    Feature('x', default=0.5),
    Feature('x', 'float64'),
    Feature('x', 'int32'),
    Feature('x', 'int64'),
    Feature('x', 'int64', default=7),
    Feature('x', 'int32', num_buckets=20),
    Feature('x', 'int64', vocabulary=(-1, 3, 2**40), out_of_vocabulary='error'),
    Feature('x', 'string'),
    Feature('x', 'string', default='none'),
    Feature('x', 'string', vocabulary=('a', 'é', 'none', ' '), out_of_vocabulary='error', default='none'),
    Feature('x', 'string', vocabulary=('a', 'b')),
]
LABELS = [
    Feature('x', 'int64', is_label=True),
    Feature('x', 'float64', is_label=True),
    Feature('x', 'int32', num_buckets=3, is_label=True),
    Feature('x', 'int64', vocabulary=(2**40, 5), is_label=True),
    LABEL,
]
IDS = [f'{"label " * it.is_label}{it.dtype} {i}' for i, it in enumerate([*FEATURES, *LABELS])]
CELLS = [
    *('', ' ', 'a', 'é', 'b', 'none', 'cat', 'Cat', '0', '1', '-1', '+1', '01', '007', '1.5', '-.5', '5.', '.', '-', '+'),
    *('e5', '1e5', '1E-5', '1e', '1e+', '1e400', '1e-400', '3.4028235e38', '3.4028236e38', '-3.5e38', '1.7976931348623157e308'),
    *('1.8e308', '2147483647', '2147483648', '-2147483648', '-2147483649', str(2**63 - 1), str(2**63), str(-(2**63))),
    *(str(-(2**63) - 1), str(2**40), '1099511627776.0', 'inf', '-inf', 'Infinity', 'nan', 'NaN', 'nan(1)', '1_000', '1,5'),
    *('0x10', '-0X1f', '0b1', '1 2', '1f', '1.0.0', '--1', '\u0661', '½', '1\xa0', '\xa01', '1\u2028', '1\x1c', '1\0', '\0', 'true'),
    *('None', 'NULL', '0.1', '0.30000000000000004', '16777217', '1' * 31, '1' * 32, '0' * 31 + '5', ' ' * 20 + '5', '1e00005'),
]  # fmt: skip
# What TensorFlow, some version of it, takes although it is refused. See `csv_input_fn`.
STRICTER = re.compile(r'\s*[+-]?0[xX].*|\s+|\s*\+\d+\s*|.{32,}', re.DOTALL)


def cells(seed):
    """Returns the cells that are known to be of interest, and some more that are made of pieces of them."""
    draw = random.Random(seed)
    pieces = ['1', '0', '9', '.', 'e', '-', '+', ' ', '\t', 'x', '\x0b', '\x0c', 'E', '_', 'é', '12', '5']
    return [*CELLS, *(''.join(draw.choices(pieces, k=draw.randrange(1, 6))) for _ in range(100))]


def reader(form):
    """Returns a function of one record that gives what TensorFlow makes of it, or None where it refuses it."""
    parse = tf.function(form.parse, autograph=False, input_signature=[tf.TensorSpec([None], tf.string)])

    def read(record):
        try:
            found = parse(tf.constant([record]))
        except (tf.errors.OpError, UnicodeDecodeError):  # the latter for a message that is not UTF-8
            return None
        features, label = found if isinstance(found, tuple) else (found, None)
        values = {name: value.numpy().tolist() for name, value in features.items()}
        return values if label is None else {**values, 'label': label.numpy().tolist()}

    return read


def flat(values):
    return np.array(values, object).ravel().tolist()  # of another dtype it would lose NULs at the end


def accepted(form, record):
    return form.mistake(record) is None


def described(feature):
    if feature.is_label:
        return Description({'other': Feature('other', 'string', default='')}, label=feature)
    return Description({'x': feature})


def given(feature, value):
    """Returns a value as a model gets it."""
    if feature.is_label and feature.vocabulary is not None:
        return feature.vocabulary.index(value)
    if feature.dtype == 'string':
        return value.encode()
    return np.dtype(feature.given).type(value).item()


@pytest.mark.parametrize('feature', [*FEATURES, *LABELS], ids=IDS)
def test_csv_cells(feature):
    form = _Csv(['x', 'other'], True, described(feature), _Splitter(','), '')
    read = reader(form)
    good = 0
    for cell in cells(feature.dtype):
        quoted = f'"{cell}"' if ',' in cell else cell
        found = read(f'{quoted},'.encode())
        if accepted(form, f'{quoted},'.encode()):
            value = feature.from_text(cell) if cell else feature.default
            name = 'label' if feature.is_label else 'x'
            assert found is not None and found[name] == [given(feature, value)], repr(cell)
            good += 1
        else:
            assert found is None or STRICTER.fullmatch(cell), repr(cell)
    assert good > 1


def test_csv_fields():
    description = Description({name: Feature(name, 'string', default='') for name in 'abc'})
    form = _Csv(['a', 'b', 'c'], True, description, _Splitter(','), 'NA')
    read, draw = reader(form), random.Random(3)
    pieces = [
        b'"',
        b'"',
        b',',
        b',',
        b',',
        b'a',
        b'""',
        b' ',
        b'\0',
        b'\t',
        'é'.encode(),
        b'\xff',
        b'\xc3',
        b'NA',
        b'\xed\xa0\x80',
    ]
    good = 0
    for _ in range(1500):
        line = b''.join(draw.choices(pieces, k=draw.randrange(1, 9)))
        found = read(line)
        assert accepted(form, line) == (found is not None), line
        if found is not None:
            fields = _Splitter(',').fields(line.decode())
            assert [found[name] for name in 'abc'] == [[b'' if it == 'NA' else it.encode()] for it in fields], line
            good += 1
    assert good > 25


@pytest.mark.parametrize('header', [True, False])
def test_lines(tmp_path, header):
    class Plain(Lines):
        def parse(self, records):
            return {'line': self.filled(records)}

    form, draw, path = Plain(), random.Random(5), tmp_path / 'a.txt'
    form.header = header
    pieces = [b'\n', b'\n', b'\r\n', b'a', b'bc', b' ', b'\t', b'\x0b', b'\0', b'\xef\xbb\xbf', b'\xff', b'\x1c']
    for _ in range(80):
        path.write_bytes(b'first' + b''.join(draw.choices(pieces, k=draw.randrange(12))))
        if draw.random() < 0.3:
            path.write_bytes(path.read_bytes().removeprefix(b'first'))
        if draw.random() < 0.3:
            path.write_bytes(b'\xef\xbb\xbf' + path.read_bytes())
        lines = form.dataset(str(path), '')
        found = [line for batch in lines.batch(3).map(form.parse) for line in batch['line'].numpy().tolist()]
        assert [line for _, line in form.read(str(path))] == found, path.read_bytes()


@pytest.mark.parametrize('feature', [*FEATURES, *LABELS], ids=IDS)
def test_examples(feature):
    draw = random.Random(feature.dtype)
    shape = draw.choice([(), (), (2,), (2, 1)]) if not feature.is_label else ()
    feature = dataclasses.replace(feature, shape=shape) if shape else feature
    form = _TFRecord(described(feature))
    read = reader(form)
    held = {
        'float_list': [0.5, -1.0, 3.0, 1e38, float('inf'), float('nan')],
        'int64_list': [0, 1, -1, 3, 5, 2**31, 2**40, 2**63 - 1, -(2**63)],
        'bytes_list': [b'', b'a', 'é'.encode(), b'\xff', b'none', b' ', b'cat', b'dog'],
    }
    good = 0
    for _ in range(150):
        kind = draw.choice(list(held))
        if draw.random() < 0.6:
            kind = 'bytes_list' if feature.dtype == 'string' else 'int64_list' if feature.is_whole else 'float_list'
        count = draw.choice([feature.size] * 4 + [0, 1, 2, 3])
        stored = {'x': (kind, draw.choices(held[kind], k=count))} if draw.random() < 0.9 else {}
        record = example(**stored)
        found = read(record)
        assert accepted(form, record) == (found is not None), stored
        if found is not None:
            good += 1
            kind, values = stored.get('x', (kind, [feature.default] * feature.size))
            if stored and kind == 'float_list':
                values = np.float32(values).tolist()
            values = [it.decode(errors='surrogateescape') if isinstance(it, bytes) else it for it in values]
            assert flat(found['label' if feature.is_label else 'x']) == [given_bytes(feature, it) for it in values], (
                stored
            )
        cut = record[: draw.randrange(len(record))]
        # TensorFlow reads what is before the cut.
        assert not accepted(form, cut) or read(cut) is not None, cut
    assert good > 4


def given_bytes(feature, value):
    if feature.dtype == 'string' and not feature.is_label:
        return value.encode(errors='surrogateescape')
    return given(feature, value)


JSON_VALUES = [
    *('0', '1', '-1', '3', '5', '1.5', '3.0', '-0.0', '1e5', '1e38', '1e39', '1e400', '-1e400', '2147483648', str(2**40)),
    *(f'{2**40}.0', str(2**63 - 1), str(2**63), '9' * 400, 'true', 'false', 'null', 'NaN', '-Infinity', '"a"', '"é"', '""'),
    *('"none"', '"cat"', '"dog"', '"1"', r'"\ud800"', r'"\udc80"', r'"\u0061"', r'"\ud83d\ude00"', '[]', '[1]', '[1, 2]'),
    *('[[1]]', '{}', '{"a": 1}', '[null]', '"\x00"', r'"\u0000"', '1,', '01', '+1', '.5', '0x1', "'a'", '1_0', 'nan', '[1, "a"]'),
]  # fmt: skip


@pytest.mark.parametrize('feature', [*FEATURES, *LABELS], ids=IDS)
@pytest.mark.parametrize('shape', [(), (2,)])
def test_json(feature, shape):
    if shape and feature.is_label:
        pytest.skip('a label has no shape')
    feature = dataclasses.replace(feature, shape=shape)
    form = _JsonLines(described(feature))
    read = reader(form)
    texts = JSON_VALUES if not shape else [f'[{a}, {b}]' for a in JSON_VALUES for b in JSON_VALUES[::7]]
    good = 0
    for text in [*texts, None]:
        record = (f'{{"x": {text}}}' if text else '{}').encode()
        found = read(record)
        assert accepted(form, record) == (found is not None), text
        if found is not None:
            good += 1
            held = _object(record).get('x')
            held = held if held is not None else feature.default
            values = held if isinstance(held, list) else [held] * feature.size
            name = 'label' if feature.is_label else 'x'
            assert flat(found[name]) == [given(feature, it) for it in values], text
    assert good > 0


@pytest.mark.parametrize('label', [*LABELS, None], ids=str)
@pytest.mark.parametrize('predicts', [False, True])
def test_text(label, predicts):
    draw = random.Random(11)
    description = Description({'text': Feature('text', 'string')}, label=label)
    form = _Text(description, '\t', predicts)
    read = reader(form)
    pieces = [
        b'\t',
        b'a',
        b' ',
        'é'.encode(),
        b'\xff',
        b'\xc3',
        b'\0',
        b'"',
        b'\xef\xbb\xbf',
        b'\xc2\xa0',
        b'\x1c',
        b'\x0b',
    ]
    lines = [f'{cell}\t{text}'.encode() for cell in CELLS for text in ('so', ' ', '')]
    lines += [b''.join(draw.choices(pieces, k=draw.randrange(1, 7))) for _ in range(150)]
    lines += [b'dog\t' + line for line in lines[-100:]]
    good = 0
    for line in lines:
        if form.is_blank(line):
            continue
        found = read(line)
        if accepted(form, line):
            before, tab, after = line.decode().partition('\t')
            text = after if tab and label else line.decode()
            assert found is not None and found['text'] == [text.encode()], line
            if label and not predicts:
                assert found['label'] == [given(label, label.from_text(before))]
            good += 1
        else:
            assert found is None or STRICTER.fullmatch(line.decode().partition('\t')[0]), line
    assert good > 1


@pytest.mark.parametrize('feature', [*FEATURES, *LABELS], ids=IDS)
def test_arrays(feature):
    """What is looked at in arrays as a whole, and what value by value."""
    values = [0, 1, -1, 3, 5, 19, 20, 2**31, 2**40, 2**63 - 1, 0.5, 3.0, 1e38, 1e39, 2.0**63, 1e308, np.inf, -np.inf]
    arrays = [np.array([value]) for value in values]
    arrays += [np.array([2**63], np.uint64), np.array([3], np.int8), np.array([True]), np.array([0.5], np.float16)]
    arrays += [np.array(['a']), np.array([b'cat']), np.array(['é']), np.array([1j]), np.array([2**64], object)]
    good = 0
    for array in arrays:
        try:
            form = _Rows(described(feature), {'x': array, 'other': ['']})
        except ValueError:
            assert feature.problem(array[0]) is not None, array
            continue
        assert feature.problem(array[0]) is None, array
        parse = tf.function(form.parse, autograph=False)
        found = parse(tf.constant([0], tf.int64))
        value = found[1] if feature.is_label else found['x']
        held = array[0].decode() if isinstance(array[0], bytes) else array[0]
        held = held.item() if isinstance(held, np.generic) else held
        assert value.numpy().tolist() == [given(feature, held)], array
        good += 1
    assert good


def test_images(tmp_path):
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    whole = [png(pixels), jpeg(pixels), bmp(pixels), gif([pixels[..., 0] % 4]), png(pixels.astype(np.uint16))]
    draw = random.Random(7)
    contents = [*whole, b'', b'a', *(one[: draw.randrange(len(one))] for one in whole * 20)]
    contents += [bytes(draw.choices(range(256), k=40)) for _ in range(20)]
    for channels in (1, 3):
        paths = [tmp_path / f'{i}.png' for i in range(len(contents))]
        form = _Images(str(tmp_path), list(map(str, paths)), [], 4, 4, channels, [])
        parse = tf.function(form.parse, autograph=False, input_signature=[tf.TensorSpec([], tf.string)])
        good = 0
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
            try:
                parse(str(path))
                reads = True
            except tf.errors.OpError:
                reads = False
            assert accepted(form, str(path).encode()) == reads, content
            good += reads
        assert good >= 3
