"""csv_input_fn: what it reads, how often, and what it refuses."""

import collections
import itertools

import gin
import numpy as np
import pytest

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from input_fns.csv import csv_input_fn

HEADER = 'kind,length,mass\n'
KINDS = ['cat', 'dog']

pytestmark = pytest.mark.usefixtures('clean_gin')


@pytest.fixture
def write(tmp_path):
    """Writes one file for each text, and returns their paths."""

    def write(*texts):
        paths = [tmp_path / f'{i}.csv' for i in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_bytes(text.encode())
        return [str(path) for path in paths]

    return write


def numbered(write, *counts):
    """Writes files of `counts` records; a record's mass is its number over all files."""
    number = itertools.count()
    return write(*(HEADER + ''.join(f'cat,0.5,{next(number)}\n' for _ in range(count)) for count in counts))


def read(graph_seed=None, batches=None, **arguments):
    """Returns csv_input_fn's batches, read in a graph as Estimator reads them."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(graph_seed)
        iterator = tf.compat.v1.data.make_initializable_iterator(csv_input_fn(**arguments))
        session.run(iterator.initializer)
        following, read = iterator.get_next(), []
        for _ in range(batches) if batches else itertools.count():
            try:
                read.append(session.run(following))
            except tf.errors.OutOfRangeError:
                break
        return read


def masses(batches):
    return [mass for features, _ in batches for mass in features['mass'].tolist()]


def numbers(write, *counts, batches=None, **arguments):
    """Returns the numbers of the records read from files of `counts` records."""
    arguments = {'label': 'kind', 'label_vocabulary': KINDS, **arguments}
    return masses(read(batches=batches, files=numbered(write, *counts), **arguments))


def test_features_and_labels(write):
    files = write(HEADER + 'dog,1.5,20\ncat,-2,3e1\n')
    ((features, labels),) = read(files=files, label='kind', label_vocabulary=KINDS, repeat=False, shuffle_buffer=0)
    assert {name: (values.dtype, values.tolist()) for name, values in features.items()} == {
        'length': (np.float32, [1.5, -2.0]),
        'mass': (np.float32, [20.0, 30.0]),
    }
    assert (labels.dtype, labels.tolist()) == (np.int32, [1, 0])


@pytest.mark.parametrize(
    ('arguments', 'want_names', 'want_labels'),
    [
        ({'label': 'kind', 'label_vocabulary': ['dog', 'cat']}, {'length', 'mass'}, [0]),
        ({'label': 'mass', 'features': ['length']}, {'length'}, [20]),
        ({'label': 'kind', 'label_vocabulary': KINDS, 'features': ['mass']}, {'mass'}, [1]),
        ({'features': ['mass', 'length']}, {'mass', 'length'}, None),
    ],
)
def test_columns(write, arguments, want_names, want_labels):
    (batch,) = read(files=write(HEADER + 'dog,1.5,20\n'), repeat=False, **arguments)
    features, labels = (batch, None) if want_labels is None else batch
    assert set(features) == want_names
    if want_labels is not None:
        assert labels.tolist() == want_labels


@pytest.mark.parametrize(
    'text',
    [
        '\ufeff' + HEADER + 'cat,0.5,7\n',
        'kind,length,mass\r\ncat,0.5,7\r\n',
        HEADER + 'cat,0.5,7',
        HEADER + '"cat","0.5",7',
    ],
    ids=['byte order mark', 'Windows line ends', 'no last line end', 'quotes'],
)
def test_other_ways_to_write_csv(write, text):
    assert masses(read(files=write(text), label='kind', label_vocabulary=KINDS, repeat=False)) == [7]


@pytest.mark.parametrize('counts', [(7,), (3, 4), (1, 0, 6)])
@pytest.mark.parametrize('pipelines', [1, 2, 3])
@pytest.mark.parametrize('shuffle_buffer', [0, 2, 100])
def test_input_pipelines_together_read_each_record_once(write, counts, pipelines, shuffle_buffer):
    shards = [
        numbers(
            write,
            *counts,
            repeat=False,
            batch_size=2,
            shuffle_buffer=shuffle_buffer,
            input_context=tf.distribute.InputContext(pipelines, index),
        )
        for index in range(pipelines)
    ]
    assert sorted(itertools.chain(*shards)) == list(range(7))
    files = sum(map(bool, counts))
    if files < pipelines:  # dealt out by record
        assert max(map(len, shards)) - min(map(len, shards)) <= 1
    elif counts == (3, 4) and pipelines == 2:  # a file for each
        assert [sorted(shard) for shard in shards] == [[0, 1, 2], [3, 4, 5, 6]]


def test_each_epoch_reads_each_record_once_in_another_order(write):
    read = numbers(write, 6, 6, batches=9, batch_size=4)
    epochs = [read[:12], read[12:24], read[24:]]
    for epoch in epochs:
        assert sorted(epoch) == list(range(12))
    assert len(set(map(tuple, epochs))) == 3


@pytest.mark.parametrize(
    ('first', 'second', 'want_same'),
    [
        ({'seed': 1}, {'seed': 1}, True),
        ({'seed': 1}, {'seed': 2}, False),
        ({'graph_seed': 1}, {'graph_seed': 1}, True),
        ({'graph_seed': 1}, {'graph_seed': 2}, False),
    ],
)
def test_seed_decides_the_order(write, first, second, want_same):
    def order(seed=None, graph_seed=None):
        files = numbered(write, 20)
        gin.bind_parameter('csv_input_fn.seed', seed)
        return masses(read(graph_seed, files=files, label='kind', label_vocabulary=KINDS, repeat=False))

    assert (order(**first) == order(**second)) is want_same


@pytest.mark.parametrize(
    ('batch_size', 'replicas', 'want_sizes'),
    [(4, None, [4, 4, 2]), (4, 1, [4, 4, 2]), (4, 2, [2] * 5), (8, 2, [4, 4, 2]), (3, 3, [1] * 10)],
)
def test_replicas_share_the_global_batch(write, batch_size, replicas, want_sizes):
    context = replicas and tf.distribute.InputContext(num_replicas_in_sync=replicas)
    batches = read(
        files=numbered(write, 10),
        label='kind',
        label_vocabulary=KINDS,
        batch_size=batch_size,
        repeat=False,
        input_context=context,
    )
    assert [len(labels) for _, labels in batches] == want_sizes


@pytest.mark.parametrize(
    ('texts', 'arguments', 'want_error'),
    [
        ([''], {}, '0.csv: the file is empty; expected a row of column names'),
        ([HEADER, ''], {}, '1.csv:1: no header; expected a row of column names'),
        ([HEADER], {}, '0.csv: no record after the header'),
        ([HEADER, HEADER], {}, '0.csv: no record after the header, nor in 1 more'),
        (['kind,mass,mass\n'], {}, "0.csv:1: column 'mass' occurs twice in the header"),
        ([HEADER, 'kind,mass\ncat,1\n'], {}, '1.csv:1: columns kind,mass; expected kind,length,mass as in '),
        (None, {'label': 'knid'}, "csv_input_fn.label: no column 'knid' among kind, length, mass; did you mean "),
        (None, {'features': ['mas']}, "csv_input_fn.features: no column 'mas' among kind, length, mass; did you mean "),
        (None, {'features': ['kind']}, "csv_input_fn.features: holds the label 'kind'; expected other columns"),
        (None, {'batch_size': 0}, 'csv_input_fn.batch_size: 0; expected at least 1'),
        (None, {'batch_size': 9}, 'csv_input_fn.batch_size: 9; expected a multiple of the 2 replicas'),
        (None, {'files': 'none.csv'}, "csv_input_fn.files: no file 'none.csv' or "),
    ],
)
def test_error_before_anything_is_read(write, texts, arguments, want_error):
    files = write(*([HEADER + 'cat,1,2\n'] if texts is None else texts))
    context = tf.distribute.InputContext(num_replicas_in_sync=2)
    arguments = {'files': files, 'label': 'kind', 'label_vocabulary': KINDS, 'input_context': context, **arguments}
    with pytest.raises(UserError) as error:
        csv_input_fn(**arguments)
    # One line; Gin adds in another what it was calling.
    assert want_error in str(error.value).splitlines()[0]


@pytest.mark.parametrize(
    ('record', 'arguments', 'want_error'),
    [
        ('cow,1,2', {}, 'a bad value'),
        (',1,2', {}, 'Field 0 is required but missing'),
        ('cat,long,2', {}, 'Field 1 in record 1 is not a valid float: long'),
        ('cat,1,', {}, 'Field 2 is required but missing'),
        ('cat,1,2,3', {}, 'Expect 3 fields but have 4'),
        ('cat,1,2,3', {'features': ['length']}, 'Expect 3 fields but have 4'),
        ('cat,1', {}, 'Expect 3 fields but have 2'),
        ('cat,1,2.5', {'label': 'mass', 'label_vocabulary': None, 'features': ['length']}, 'not a valid int32: 2.5'),
    ],
)
def test_error_on_a_bad_record(write, record, arguments, want_error):
    files = write(HEADER + f'dog,1,2\n{record}\n')
    arguments = {'label': 'kind', 'label_vocabulary': KINDS, **arguments}
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        read(files=files, repeat=False, shuffle_buffer=0, **arguments)
    assert want_error in str(error.value)


def test_a_column_that_nobody_asked_for_may_hold_anything(write):
    files = write(HEADER + 'dog,long,2\ndog,,3\n')
    batches = read(files=files, label='kind', label_vocabulary=KINDS, features=['mass'], repeat=False, shuffle_buffer=0)
    assert masses(batches) == [2, 3]


def test_scoped_bindings(write):
    gin.parse_config(f"""
        csv_input_fn.label = 'kind'
        csv_input_fn.label_vocabulary = {KINDS}
        csv_input_fn.files = {numbered(write, 5)}
        train/csv_input_fn.batch_size = 4
        eval/csv_input_fn.repeat = False
        eval/csv_input_fn.shuffle_buffer = 0
    """)
    with gin.config_scope('train'):
        assert [len(labels) for _, labels in read(batches=3)] == [4, 4, 4]
        with pytest.raises(UserError, match=r'^train/csv_input_fn\.batch_size: 4; expected a multiple'):
            csv_input_fn(input_context=tf.distribute.InputContext(num_replicas_in_sync=3))
    with gin.config_scope('eval'):
        assert masses(read()) == [0, 1, 2, 3, 4]


SPECIES = ['Adelie', 'Chinstrap', 'Gentoo']


@pytest.mark.parametrize(
    ('name', 'label', 'label_vocabulary', 'want_counts'),
    [
        ('penguins/train', 'species', SPECIES, [121, 54, 98]),
        ('penguins/eval', 'species', SPECIES, [30, 14, 25]),
        ('digits/train', 'digit', None, [142, 146, 142, 146, 145, 145, 145, 143, 139, 144]),
        ('digits/eval', 'digit', None, [36, 36, 35, 37, 36, 37, 36, 36, 35, 36]),
    ],
)
def test_data_that_ships(tmp_path, monkeypatch, name, label, label_vocabulary, want_counts):
    monkeypatch.chdir(tmp_path)
    batches = read(files=f'input_fns/data/{name}.csv', label=label, label_vocabulary=label_vocabulary, repeat=False)
    counts = collections.Counter(label for _, labels in batches for label in labels.tolist())
    assert [counts[i] for i in range(len(want_counts))] == want_counts
    assert counts.total() == sum(want_counts)
