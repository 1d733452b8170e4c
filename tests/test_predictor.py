"""Calls of a loaded SavedModel: which export and signature is taken, what is converted, what is refused."""

import json

import numpy as np
import pytest

from estimator_trainer import serving
from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from estimator_trainer.predictor import Predictor
from tests.compat import fresh

v1 = tf.compat.v1
SPECS = {
    'number': tf.TensorSpec([None], tf.float32),
    'vector': tf.TensorSpec([None, 2], tf.float32),
    'whole': tf.TensorSpec([None], tf.int32),
    'flag': tf.TensorSpec([None], tf.bool),
    'word': tf.TensorSpec([None], tf.string),
    'sparse': tf.SparseTensorSpec([None, None], tf.string),
    'ragged': tf.RaggedTensorSpec([None, None], tf.int64),
}
ROWS = {
    'number': [0.5, 2.0],
    'vector': [[1.0, 2.0], [3.0, 4.0]],
    'whole': [1, -2],
    'flag': [True, False],
    'word': ['größe', 'a\0'],
    'sparse': [['a', 'b'], []],
    'ragged': [[1], [2, 3]],
}
WANT = {
    'number': [0.5, 2.0],
    'vector': [3.0, 7.0],
    'whole': [1, -2],
    'flag': [True, False],
    'word': ['größe'.encode(), b'a\0'],
    'sparse': [2, 0],
    'ragged': [1, 5],
}


def model_fn(features, labels, mode):
    predictions = {name: tf.identity(features[name]) for name in ('number', 'whole', 'flag', 'word')}
    predictions['vector'] = tf.reduce_sum(features['vector'], 1)
    predictions['ragged'] = tf.reduce_sum(features['ragged'], 1)
    sparse = features['sparse']
    ones = tf.ones_like(sparse.indices[:, 0])
    predictions['sparse'] = tf.math.unsorted_segment_sum(ones, sparse.indices[:, 0], sparse.dense_shape[0])
    return tf.estimator.EstimatorSpec(mode, predictions=predictions)


def save(base, model_fn, specs):
    """Exports a model that needs no training."""
    with tf.Graph().as_default(), v1.Session() as session:
        v1.train.create_global_step()
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(base / 'ckpt'), write_meta_graph=False)
    estimator = tf.estimator.Estimator(model_fn, str(base / 'model'))
    receiver_fn = serving.receiver_fn(None, specs)
    return estimator.export_saved_model(str(base / 'export'), receiver_fn, checkpoint_path=str(base / 'ckpt')).decode()


@pytest.fixture(scope='module')
def export_dir(tmp_path_factory):
    return save(tmp_path_factory.mktemp('predictor'), model_fn, SPECS)


@pytest.fixture(scope='module')
def predictor(export_dir):
    with Predictor(export_dir) as predictor:
        yield predictor


def sparse(rows):
    return tf.ragged.constant(rows, dtype=tf.string, ragged_rank=1).to_sparse()


@pytest.mark.parametrize(
    'given',
    [
        {},
        {'number': np.array([0.5, 2.0], np.float64), 'whole': np.array([1, -2], np.int64), 'vector': [[1, 2], [3, 4]]},
        {'whole': [1.0, -2.0], 'flag': [1, 0], 'word': ['größe'.encode(), b'a\0']},
        {'word': np.array(['größe'.encode(), b'a\0'], object), 'ragged': [np.array([1], np.int32), [2.0, 3.0]]},
        {'sparse': v1.SparseTensorValue([[0, 0], [0, 5]], [b'a', b'b'], [2, 6])},
        {'sparse': sparse([['a', 'b'], []])},
    ],
)
def test_a_call(predictor, given):
    answer = predictor({**ROWS, **given})
    assert {name: list(values) for name, values in answer.items()} == WANT
    assert {name: values.dtype.name for name, values in answer.items() if name in ('number', 'whole', 'flag')} == {
        'number': 'float32',
        'whole': 'int32',
        'flag': 'bool',
    }


def test_calls_of_other_batch_sizes(predictor):
    for size in (0, 1, 7):
        rows = {name: (values * 4)[:size] for name, values in ROWS.items()}
        rows['vector'] = np.reshape(rows['vector'], (size, 2))
        assert list(predictor(rows)['ragged']) == (WANT['ragged'] * 4)[:size]


@pytest.mark.parametrize(
    ('given', 'want'),
    [
        ({'nunber': [1.0]}, " has no feature 'nunber'; did you mean 'number'\\?"),
        ({'number': None}, ": missing 'number'; found .*'vector'"),
        ({'vector': [[1.0], [2.0]]}, r", feature 'vector': expected shape \[None, 2\], found \[2, 1\]"),
        ({'number': 1.0}, r", feature 'number': expected shape \[None\], found \[\]"),
        ({'whole': [1.5, 2.0]}, ", feature 'whole': expected int32, found float64 values that it cannot hold"),
        ({'whole': [2**40, 2]}, ", feature 'whole': expected int32, found int64 values that it cannot hold"),
        ({'flag': [2, 0]}, ", feature 'flag': expected bool, found int64 values that it cannot hold"),
        ({'number': ['1', '2']}, ", feature 'number': expected float32, found str"),
        ({'word': [1, 2]}, ", feature 'word': expected text, found int64"),
        ({'vector': [[1.0, 2.0], [3.0]]}, ", feature 'vector': .*inhomogeneous"),
        ({'ragged': 3}, ", feature 'ragged': .*not iterable"),
    ],
)
def test_features_that_do_not_fit(predictor, given, want):
    rows = {name: value for name, value in {**ROWS, **given}.items() if value is not None}
    with pytest.raises(UserError, match=f"^signature 'raw:serving_default' of .*/export/[0-9]+{want}"):
        predictor(rows)


def test_serialized_examples(export_dir):
    def feature(**kind):
        return tf.train.Feature(**{f'{name}_list': values for name, values in kind.items()})

    features = {
        'number': feature(float=tf.train.FloatList(value=[0.5])),
        'vector': feature(float=tf.train.FloatList(value=[1, 2])),
        'whole': feature(int64=tf.train.Int64List(value=[1])),
        'flag': feature(int64=tf.train.Int64List(value=[1])),
        'word': feature(bytes=tf.train.BytesList(value=[b'a\0'])),
    }
    example = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
    with Predictor(export_dir, 'serving_default') as predictor:
        answer = predictor({'examples': [example, example]})
    assert (list(answer['vector']), list(answer['word'])) == ([3.0, 3.0], [b'a\0', b'a\0'])
    assert list(answer['sparse']) == list(answer['ragged']) == [0, 0]


@pytest.mark.parametrize(
    ('signatures', 'want'),
    [
        (['serving_default', 'predict', 'raw:predict', 'raw:serving_default'], 'raw:serving_default'),
        (['serving_default', 'predict', 'raw:predict'], 'raw:predict'),
        (['serving_default', 'predict'], 'serving_default'),
    ],
)
def test_the_signature_and_the_newest_complete_export(tmp_path, signatures, want):
    for factor, name in ((1.0, '9'), (2.0, '10'), (3.0, 'temp-11')):
        with tf.Graph().as_default(), v1.Session() as session:
            x = v1.placeholder(tf.float32, [None], 'x')
            definition = v1.saved_model.predict_signature_def({'x': x}, {'y': factor * x})
            builder = v1.saved_model.Builder(str(tmp_path / name))
            builder.add_meta_graph_and_variables(session, ['serve'], dict.fromkeys(signatures, definition))
            builder.save(as_text=factor == 2.0)
    (tmp_path / '11').mkdir()
    with Predictor(str(tmp_path)) as predictor:
        assert (predictor.export_dir, predictor.signature) == (str(tmp_path / '10'), want)
        assert list(predictor({'x': [1, 2]})['y']) == [2.0, 4.0]
    with pytest.raises(UserError, match=r"has no signature 'predct'; there are 'predict', .*; did you mean 'predict'"):
        Predictor(str(tmp_path / '9'), 'predct')


def test_no_export(tmp_path):
    (tmp_path / '12').mkdir()
    for path in (tmp_path, tmp_path / '12', tmp_path / 'none'):
        with pytest.raises(UserError, match=f'^{path}: no SavedModel; expected saved_model.pb or'):
            Predictor(str(path))


WITHOUT_EAGER = """
import json, sys
from estimator_trainer.predictor import Predictor
assert 'tensorflow' not in sys.modules
import tensorflow as tf
tf.compat.v1.disable_v2_behavior()
print(json.dumps(Predictor(sys.argv[1])(json.loads(sys.argv[2]))['ragged'].tolist()))
"""


def test_a_program_without_eager_execution(export_dir):
    process = fresh.start('-c', WITHOUT_EAGER, export_dir, json.dumps(ROWS), CUDA_VISIBLE_DEVICES='')
    assert json.loads(fresh.last_line(process)) == WANT['ragged']
