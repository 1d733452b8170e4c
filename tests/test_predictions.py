"""Predictions as .jsonl, .csv and .tfrecord, read back; the file is there when it is complete, or not at all."""

import csv
import json
import os

import numpy as np
import pytest

from estimator_trainer.compat import tf
from estimator_trainer.errors import TrainerError, UserError
from estimator_trainer.predictions import check_output, write

BFLOAT16 = tf.bfloat16.as_numpy_dtype
# Cut to float32, to be compared with what reads .tfrecord back.
FLOATS = np.array([0.1, -3.0, 1e30], np.float32)


def read(path):
    if path.suffix == '.jsonl':
        return [json.loads(line) for line in path.read_text().splitlines()]
    if path.suffix == '.csv':
        return list(csv.DictReader(path.open(newline='')))
    records = []
    for record in tf.compat.v1.io.tf_record_iterator(str(path)):
        features = tf.train.Example.FromString(record).features.feature
        records.append({key: list(getattr(one, one.WhichOneof('kind')).value) for key, one in features.items()})
    return records


@pytest.mark.parametrize(
    ('value', 'want_jsonl', 'want_csv', 'want_tfrecord'),
    [
        (np.float32(0.1), 0.1, {'k': '0.1'}, [np.float32(0.1)]),
        (np.float16(0.1), 0.1, {'k': '0.1'}, [np.float16(0.1)]),
        (np.float64(0.1), 0.1, {'k': '0.1'}, [np.float32(0.1)]),
        (np.array(0.1, BFLOAT16), 0.100097656, {'k': '0.100097656'}, [np.float32(BFLOAT16(0.1))]),
        (np.float32(np.nan), None, {'k': 'nan'}, [np.nan]),
        (FLOATS, [0.1, -3.0, 1e30], {'k_0': '0.1', 'k_1': '-3.0', 'k_2': '1e+30'}, FLOATS),
        (np.array([1, -np.inf]), [1.0, None], {'k_0': '1.0', 'k_1': '-inf'}, [1, -np.inf]),
        (np.int64(-(2**62)), -(2**62), {'k': str(-(2**62))}, [-(2**62)]),
        (np.array([[1, 2], [3, 4]], np.uint8), [[1, 2], [3, 4]], None, [1, 2, 3, 4]),
        (np.ones([1, 1, 2]), [[[1.0, 1.0]]], {'k_0_0_0': '1.0', 'k_0_0_1': '1.0'}, [1, 1]),
        (np.array([True, False]), [True, False], {'k_0': 'True', 'k_1': 'False'}, [1, 0]),
        (np.True_, True, {'k': 'True'}, [1]),
        ('größe'.encode(), 'größe', {'k': 'größe'}, ['größe'.encode()]),
        (np.array([b'a,"\n', b''], object), ['a,"\n', ''], {'k_0': 'a,"\n', 'k_1': ''}, [b'a,"\n', b'']),
        (b'\xff\x00', {'b64': '/wA='}, {'k': '{"b64": "/wA="}'}, [b'\xff\x00']),
        (b'a\x00', 'a\x00', {'k': 'a\x00'}, [b'a\x00']),
        (np.zeros([0, 2]), [], {}, []),
    ],
)
def test_a_value_reads_back(tmp_path, value, want_jsonl, want_csv, want_tfrecord):
    examples = [{'n': np.int64(1), 'k': value}, {'n': np.int64(2), 'k': value}]
    for suffix in ('.jsonl', '.csv', '.tfrecord'):
        assert write(str(tmp_path / f'out{suffix}'), iter(examples)) == 2
    assert read(tmp_path / 'out.jsonl') == [{'n': 1, 'k': want_jsonl}, {'n': 2, 'k': want_jsonl}]
    for number, record in enumerate(read(tmp_path / 'out.tfrecord'), 1):
        assert record['n'] == [number]
        np.testing.assert_array_equal(record.get('k', []), want_tfrecord)
    if want_csv is not None:
        assert read(tmp_path / 'out.csv') == [{'n': '1', **want_csv}, {'n': '2', **want_csv}]
    assert sorted(os.listdir(tmp_path)) == ['out.csv', 'out.jsonl', 'out.tfrecord']


def test_float32_in_text_is_the_same_float32(tmp_path):
    values = np.random.RandomState(1).randn(1000).astype(np.float32)
    write(str(tmp_path / 'a.jsonl'), [{'k': values}])
    write(str(tmp_path / 'a.csv'), [{'k': values}])
    np.testing.assert_array_equal(np.float32(read(tmp_path / 'a.jsonl')[0]['k']), values)
    np.testing.assert_array_equal(np.float32(list(read(tmp_path / 'a.csv')[0].values())), values)


def test_an_array_alone_has_the_key_predictions(tmp_path):
    assert write(str(tmp_path / 'a.jsonl'), [np.array([1, 2]), np.array([3, 4])]) == 2
    assert read(tmp_path / 'a.jsonl') == [{'predictions': [1, 2]}, {'predictions': [3, 4]}]


def test_nothing_to_write_leaves_everything_as_it_was(tmp_path):
    assert write(str(tmp_path / 'new' / 'a.jsonl'), []) == 0
    assert os.listdir(tmp_path) == []


def test_a_new_folder_and_a_bare_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_output('b.csv')
    assert write('b.csv', [{'k': np.int64(1)}]) == 1
    assert write(str(tmp_path / 'new' / 'er' / 'a.csv'), [{'k': np.int64(1)}]) == 1
    assert (tmp_path / 'b.csv').read_text() == (tmp_path / 'new' / 'er' / 'a.csv').read_text() == 'k\n1\n'


@pytest.mark.parametrize('suffix', ['.jsonl', '.csv', '.tfrecord'])
@pytest.mark.parametrize('error', [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_output(tmp_path, suffix, error):
    path = tmp_path / f'out{suffix}'
    path.write_text('old')

    def examples():
        yield {'k': np.int64(1)}
        assert len(os.listdir(tmp_path)) == 2  # What is written so far is beside it.
        raise error

    with pytest.raises(error):
        write(str(path), examples())
    assert (os.listdir(tmp_path), path.read_text()) == ([path.name], 'old')
    assert write(str(path), [{'k': np.int64(1)}]) == 1
    assert path.read_bytes() != b'old'


@pytest.mark.parametrize(
    ('suffix', 'second', 'want'),
    [
        ('.csv', {'k': np.zeros(3), 'n': 1}, r"prediction 2, 'k': the shape is \(3,\), in the first it is \(2,\)"),
        ('.csv', {'k': np.zeros(2)}, r"prediction 2, 'n': the shape is none, in the first it is \(\)"),
        ('.csv', {'k': np.zeros(2), 'n': 1, 'm': 1}, r"prediction 2, 'm': the shape is \(\), in the first it is none"),
        ('.jsonl', {'k': np.zeros(2, np.complex64)}, "prediction 2, 'k': expected numbers or text, found complex64"),
        ('.tfrecord', {'k': np.uint64(2**63)}, f"prediction 2, 'k': tf.train.Example holds int64, found {2**63}"),
    ],
)
def test_what_a_format_cannot_hold(tmp_path, suffix, second, want):
    with pytest.raises(TrainerError, match=want):
        write(str(tmp_path / f'out{suffix}'), [{'k': np.zeros(2), 'n': 1}, second])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ('name', 'want'),
    [
        ('out.json', r"out.json': expected a name that ends in .jsonl, .csv, .tfrecord; did you mean '.jsonl'\?$"),
        ('out', "out': expected a name that ends in .jsonl, .csv, .tfrecord$"),
        ('folder.csv', 'folder.csv: expected a file, found a directory$'),
        ('file/out.csv', 'file: cannot write to .*/file: Not a directory$'),
        ('/proc/no/out.csv', '/proc/no: cannot write to /proc: '),
    ],
)
def test_a_path_that_cannot_be_written(tmp_path, name, want):
    (tmp_path / 'folder.csv').mkdir()
    (tmp_path / 'file').touch()
    with pytest.raises(UserError, match=want):
        check_output(str(tmp_path / name))


def test_a_path_that_can_be_written(tmp_path):
    (tmp_path / 'old.csv').touch()
    for name in ('old.csv', 'new.tfrecord', 'a/b/c.jsonl'):
        check_output(str(tmp_path / name))
    assert os.listdir(tmp_path) == ['old.csv']
