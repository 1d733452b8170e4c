"""What the input_fns of all formats have in common: each record once, in batches, shuffled, sharded, cached."""

import functools
import gzip
import itertools
import json
import pathlib
import subprocess
import sys

import gin
import numpy as np
import pytest

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from input_fns.csv import csv_input_fn
from input_fns.image_folder import image_folder_input_fn
from input_fns.json_lines import json_lines_input_fn
from input_fns.memory import memory_input_fn
from input_fns.text import text_input_fn
from input_fns.tfrecord import tfrecord_input_fn
from tests.input_fns.example_images import png
from tests.input_fns.example_records import file_of, of_values
from tests.input_fns.reader import read

pytestmark = pytest.mark.usefixtures('clean_gin')

INPUT_FNS = {
    'csv': csv_input_fn,
    'tfrecord': tfrecord_input_fn,
    'json_lines': json_lines_input_fn,
    'text': text_input_fn,
    'memory': memory_input_fn,
    'image_folder': image_folder_input_fn,
}
OF_FILES = ['csv', 'tfrecord', 'json_lines', 'text']
CONTENTS = {
    'csv': lambda numbers: ('n,y\n' + ''.join(f'{n},{n % 2}\n' for n in numbers)).encode(),
    'tfrecord': lambda numbers: file_of([of_values({'n': float(n), 'y': n % 2}) for n in numbers]),
    'json_lines': lambda numbers: ''.join(json.dumps({'n': n, 'y': n % 2}) + '\n' for n in numbers).encode(),
    'text': lambda numbers: ''.join(f'{n % 2}\t{n}\n' for n in numbers).encode(),
}


def make(folder, name, *counts, compress=lambda content: content):
    """Makes an input of a format that holds the numbers from 0, `counts` in each file; returns its arguments."""
    images = name == 'image_folder'
    feature = {'n': {'dtype': 'string'} if name == 'text' else {}}
    gin.bind_parameter('feature_description.features', None if images else feature)
    classes = {'vocabulary': ['0', '1']} if images else {'num_buckets': 2}
    gin.bind_parameter('feature_description.label', {'y': classes})
    number = itertools.count()
    files = [[next(number) for _ in range(count)] for count in counts]
    if name == 'memory':
        numbers = list(itertools.chain(*files))
        return {'data': {'n': np.array(numbers), 'y': np.array(numbers) % 2}}
    if images:
        for n in itertools.chain(*files):
            path = folder / str(n % 2) / f'{n:03}.png'
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(png(np.full([2, 3, 1], n, np.uint8)))
        return {'directory': str(folder), 'height': 2, 'width': 3, 'channels': 1}
    paths = [folder / f'{i}.{name}' for i in range(len(files))]
    for path, numbers in zip(paths, files, strict=True):
        path.write_bytes(compress(CONTENTS[name](numbers)))
    return {'files': [str(path) for path in paths]}


@pytest.fixture
def numbered(tmp_path):
    return functools.partial(make, tmp_path)


def numbers_of(features):
    """Returns the numbers of a batch."""
    (values,) = features.values()
    return [int(value) for value in values.reshape(len(values), -1)[:, 0]]


def numbers(name, given, batches=None, graph_seed=None, **arguments):
    """Returns the numbers of all batches, whose labels must be theirs."""
    found = []
    for features, labels in read(INPUT_FNS[name], graph_seed, batches, **given, **arguments):
        assert labels.dtype == np.int32
        assert labels.tolist() == [n % 2 for n in numbers_of(features)]
        found += numbers_of(features)
    return found


@pytest.mark.parametrize('name', INPUT_FNS)
def test_each_record_once(numbered, name):
    given = numbered(name, 5, 4)
    assert sorted(numbers(name, given, repeat=False)) == list(range(9))
    in_order = numbers(name, given, repeat=False, shuffle_buffer=0, batch_size=2)
    # Images are sorted by their paths, and so by their classes.
    assert in_order == (list(range(9)) if name != 'image_folder' else [*range(0, 9, 2), *range(1, 9, 2)])


@pytest.mark.parametrize('name', INPUT_FNS)
@pytest.mark.parametrize(('counts', 'pipelines'), [((9,), 2), ((5, 4), 2), ((3, 3, 3), 2), ((2,), 3)])
@pytest.mark.parametrize('shuffle_buffer', [0, 100])
def test_input_pipelines_together_read_each_record_once(numbered, name, counts, pipelines, shuffle_buffer):
    given = numbered(name, *counts)
    contexts = [tf.distribute.InputContext(pipelines, index) for index in range(pipelines)]
    shards = [
        numbers(name, given, repeat=False, shuffle_buffer=shuffle_buffer, batch_size=2, input_context=context)
        for context in contexts
    ]
    assert sorted(itertools.chain(*shards)) == list(range(sum(counts)))


@pytest.mark.parametrize('name', [*OF_FILES, 'image_folder'])
def test_input_pipelines_that_leave_out_bad_records(numbered, name):
    given = numbered(name, 4, 4, 4)
    contexts = [tf.distribute.InputContext(2, index) for index in range(2)]
    shards = [
        numbers(name, given, repeat=False, max_bad_records=1, batch_size=2, input_context=context)
        for context in contexts
    ]
    assert sorted(itertools.chain(*shards)) == list(range(12))


@pytest.mark.parametrize('name', INPUT_FNS)
def test_a_pipeline_without_a_record_ends(numbered, name):
    given = numbered(name, 2)
    context = tf.distribute.InputContext(3, 2)
    assert numbers(name, given, repeat=True, input_context=context) == []


@pytest.mark.parametrize('name', ['csv', 'json_lines', 'text'])
def test_a_pipeline_with_blank_lines_alone_ends(numbered, name):
    given = numbered(name, 1, compress=lambda content: content + b'\n' * 9)
    for index, want in ((0, [0]), (1, [])):
        context = tf.distribute.InputContext(2, index)
        batches = None if index else 3
        assert numbers(name, given, batches, repeat=True, batch_size=1, input_context=context)[:1] == want


@pytest.mark.parametrize('name', INPUT_FNS)
def test_each_epoch_has_another_order(numbered, name):
    given = numbered(name, 12)
    found = numbers(name, given, batches=9, batch_size=4)
    epochs = [found[i : i + 12] for i in (0, 12, 24)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(12))
    assert len(set(map(tuple, epochs))) == 3


@pytest.mark.parametrize('name', INPUT_FNS)
def test_seed(numbered, name):
    given = numbered(name, 20)

    def order(**seeds):
        return numbers(name, given, repeat=False, **seeds)

    assert order(seed=1) == order(seed=1) != order(seed=2)
    assert order(graph_seed=1) == order(graph_seed=1) != order(graph_seed=2)


@pytest.mark.parametrize('name', INPUT_FNS)
@pytest.mark.parametrize(('replicas', 'want_sizes'), [(1, [4, 4, 2]), (2, [2] * 5), (4, [1] * 10)])
def test_replicas_share_the_batch(numbered, name, replicas, want_sizes):
    given = numbered(name, 10)
    context = tf.distribute.InputContext(num_replicas_in_sync=replicas)
    batches = read(INPUT_FNS[name], **given, batch_size=4, repeat=False, input_context=context)
    assert [len(labels) for _, labels in batches] == want_sizes


@pytest.mark.parametrize('name', OF_FILES)
@pytest.mark.parametrize('max_bad_records', [0, 1])
def test_cached_records_are_not_read_again(numbered, name, max_bad_records):
    given = numbered(name, 6)

    def remove_after_the_first_epoch(**arguments):
        dataset = INPUT_FNS[name](**arguments)
        counted = dataset.enumerate()

        def look(number):
            if number == 2:
                for path in given['files']:
                    pathlib.Path(path).unlink(missing_ok=True)
            return number

        return counted.map(lambda number, batch: (tf.numpy_function(look, [number], tf.int64), batch))

    arguments = {**given, 'batch_size': 3, 'max_bad_records': max_bad_records, 'cache': True}
    batches = read(remove_after_the_first_epoch, batches=8, **arguments)
    found = [n for _, (features, _) in batches for n in numbers_of(features)]
    assert sorted(found) == sorted([*range(6)] * 4)


@pytest.mark.parametrize('name', OF_FILES)
@pytest.mark.parametrize('parts', [1, 3])
def test_gzip(numbered, name, parts):
    def compress(content):
        size = len(content) // parts + 1
        return b''.join(gzip.compress(content[i : i + size]) for i in range(0, len(content), size))

    given = numbered(name, 500, 300, compress=compress)
    assert numbers(name, given, repeat=False, shuffle_buffer=0) == list(range(800))


@pytest.mark.parametrize('name', ['csv', 'json_lines', 'text'])
@pytest.mark.parametrize('batch_size', [1, 2, 4])
def test_no_batch_is_empty(numbered, name, batch_size):
    given = numbered(name, 4, compress=lambda content: content.replace(b'\n', b'\n\n\n') + b'\n\n')
    batches = read(INPUT_FNS[name], **given, batch_size=batch_size, repeat=False, shuffle_buffer=0)
    assert sum(len(labels) for _, labels in batches) == 4
    assert all(len(labels) for _, labels in batches)


@pytest.mark.parametrize('name', INPUT_FNS)
@pytest.mark.parametrize('mode', [tf.estimator.ModeKeys.PREDICT, tf.estimator.ModeKeys.EVAL])
def test_no_labels_in_predictions(numbered, name, mode):
    (batch,) = read(INPUT_FNS[name], **numbered(name, 3), repeat=False, mode=mode)
    features, labels = (batch, None) if mode == tf.estimator.ModeKeys.PREDICT else batch
    assert sorted(numbers_of(features)) == [0, 1, 2]
    assert (labels is None) == (mode == tf.estimator.ModeKeys.PREDICT)


@pytest.mark.parametrize('name', INPUT_FNS)
@pytest.mark.parametrize('repeat', [True, False])
def test_an_input_that_repeats_is_known_to_do_so(numbered, name, repeat):
    given = numbered(name, 3)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        cardinality = session.run(tf.data.experimental.cardinality(INPUT_FNS[name](**given, repeat=repeat)))
    assert (cardinality == tf.data.INFINITE_CARDINALITY) == repeat


@pytest.mark.parametrize('name', INPUT_FNS)
@pytest.mark.parametrize(
    ('arguments', 'want_error'),
    [
        ({'batch_size': 0}, 'batch_size: 0; expected at least 1'),
        ({'batch_size': 3}, 'batch_size: 3; expected a multiple of the 2 replicas'),
        ({'shuffle_buffer': -1}, 'shuffle_buffer: -1; expected at least 0'),
    ],
)
def test_numbers_that_cannot_be(numbered, name, arguments, want_error):
    context = tf.distribute.InputContext(num_replicas_in_sync=2)
    with tf.Graph().as_default(), pytest.raises(UserError) as error:
        INPUT_FNS[name](**{**numbered(name, 3), 'batch_size': 2, 'input_context': context, **arguments})
    assert str(error.value).splitlines()[0] == f'{name}_input_fn.{want_error}'


@pytest.mark.parametrize('name', ['tfrecord', 'json_lines', 'text', 'memory'])
def test_no_description(numbered, name):
    given = numbered(name, 3)
    gin.clear_config()
    with tf.Graph().as_default(), pytest.raises(UserError, match=r'feature_description\.features is not bound'):
        INPUT_FNS[name](**given)


OLD_BEHAVIOUR = """
import pathlib, sys
from estimator_trainer.compat import tf
tf.compat.v1.disable_v2_behavior()
from tests.input_fns import test_formats
for name in test_formats.INPUT_FNS:
    folder = pathlib.Path(sys.argv[1], name)
    folder.mkdir()
    given = test_formats.make(folder, name, 5)
    for more in [{}] if name == 'memory' else [{}, {'max_bad_records': 1}]:
        print(name, *sorted(test_formats.numbers(name, given, repeat=False, **more)))
"""


def test_without_v2_behaviour(tmp_path):
    result = subprocess.run(
        [sys.executable, '-c', OLD_BEHAVIOUR, str(tmp_path)], capture_output=True, text=True, check=False
    )
    want = [f'{name} 0 1 2 3 4' for name in INPUT_FNS for _ in range(1 + (name != 'memory'))]
    assert result.stdout.splitlines() == want, result.stderr[-3000:]
