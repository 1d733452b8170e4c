"""Receivers for serving, derived, from a table and of the user's own; their exports answer in plain TensorFlow."""

import functools
import json

import gin
import numpy as np
import pytest

from estimator_trainer import serving
from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from tests.compat import fresh

v1 = tf.compat.v1
Receiver = tf.estimator.export.ServingInputReceiver
PREDICT = tf.estimator.ModeKeys.PREDICT
# Feature -> rows. What is in a row decides the list of the tf.Example; the receiver decides the dtype.
ROWS = {
    'float32': [0.5, -1.0, 2.0, 3.25, 0.0],
    'float64': [0.25, 1.0, -2.0, 4.0, 8.0],
    'int32': [1, -2, 3, 4, 5],
    'int64': [2**40, 2, 3, 4, 5],
    'uint8': [0, 255, 1, 2, 3],
    'bool': [1, 0, 1, 1, 0],
    'string': ['a', '', 'größe', 'ab', 'abc'],
    'vector': [[1.0, 2.0, 3.0], [0.5, 0.5, 0.5], [0.0, 0.0, 1.0], [-1.0, 1.0, 0.0], [2.0, 2.0, 2.0]],
    'column': [[1], [2], [3], [4], [5]],
    'padded': [[1.0, 2.0], [], [3.0], [1.0, 1.0, 1.0], [4.0]],
    'sparse': [['a', 'bb'], [], ['ccc'], ['d'], ['ee', 'f', 'g']],
    'sparse_int32': [[1, 2], [], [3], [4], [5, 6, 7]],
    'ragged': [[1, 2], [], [3], [4], [5, 6, 7]],
    'unused': [1.0, 2.0, 3.0, 4.0, 5.0],
}
SPECS = {
    **{name: tf.TensorSpec([5], name) for name in ('float32', 'float64', 'int32', 'int64', 'uint8', 'bool', 'string')},
    'vector': tf.TensorSpec([None, 3], tf.float32),
    'column': tf.TensorSpec([5, 1], tf.int32),
    'padded': tf.TensorSpec([None, None], tf.float32),
    'sparse': tf.SparseTensorSpec([None, None], tf.string),
    'sparse_int32': tf.SparseTensorSpec([5, None], tf.int32),
    'ragged': tf.RaggedTensorSpec([None, None], tf.int32),
    'unused': tf.TensorSpec([None], tf.float32),
}
TABLE = {'float32': 'float32', 'int64': tf.int64, 'bool': ('bool', ()), 'vector': ('float32', [3])}
TABLE['column'] = ['int32', [1]]


def weigh(rows):
    """Returns for each row what `weighing_model_fn` predicts of it."""
    lists = [row if isinstance(row, list) else [row] for row in rows]
    return [sum(2.0 * (len(value.encode()) if isinstance(value, str) else value) for value in one) for one in lists]


def weighing_model_fn(features, labels, mode):
    weight = v1.get_variable('weight', initializer=2.0)

    def total(feature):
        values = feature.values if isinstance(feature, tf.SparseTensor) else feature
        if values.dtype == tf.string:
            values = tf.strings.length(values)
        values = weight * tf.cast(values, tf.float32)
        if isinstance(feature, tf.SparseTensor):
            return tf.math.unsorted_segment_sum(values, feature.indices[:, 0], feature.dense_shape[0])
        return tf.reduce_sum(values, axis=list(range(1, values.shape.rank)))

    if mode == PREDICT:
        features = dict(features) if isinstance(features, dict) else {'feature': features}
        predictions = {name: total(feature) for name, feature in features.items() if name != 'unused'}
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)
    train_op = v1.assign_add(v1.train.get_global_step(), 1)
    return tf.estimator.EstimatorSpec(mode, loss=tf.square(weight), train_op=train_op)


def taking_model_fn(features, labels, mode):
    """Takes its features out of the dict, which must not take them out of the raw signature."""
    if mode == PREDICT:
        features = {name: features.pop(name) for name in list(features)}
    return weighing_model_fn(features, labels, mode)


def any_input_fn():
    return tf.data.Dataset.from_tensors(
        ({'vector': tf.ones([2, 3]), 'word': tf.constant(['a', 'b'])}, tf.ones([2], tf.int32))
    )


def classifier(model_dir):
    columns = [
        tf.feature_column.numeric_column('vector', [3]),
        tf.feature_column.categorical_column_with_hash_bucket('word', 5),
    ]
    return tf.estimator.LinearClassifier(columns, model_dir)


TENSOR = tf.TensorSpec([4, 3], tf.float32)
CLASSIFIED = {'vector': TENSOR, 'word': tf.TensorSpec([None], tf.string)}
# Case -> model_fn, what is bound, features of the input_fn, rows to be fed.
EXPORTS = {
    'derived': (weighing_model_fn, None, SPECS, ROWS),
    'table': (taking_model_fn, TABLE, None, {name: ROWS[name] for name in TABLE}),
    'tensor': (weighing_model_fn, None, TENSOR, {'feature': ROWS['vector']}),
    'tensor_table': (weighing_model_fn, {'vector': ('float32', [3])}, TENSOR, {'vector': ROWS['vector']}),
    'classifier': (None, None, CLASSIFIED, {'vector': ROWS['vector'], 'word': ROWS['string']}),
}

# Plain TensorFlow: answers both kinds of signatures, through both loaders, for one row and for all.
PLAIN = """
import json, sys
import numpy as np
import tensorflow as tf
v1 = tf.compat.v1

def listed(value):
    kind = type((value if isinstance(value, list) else [value])[0]) if value != [] else None
    values = value if isinstance(value, list) else [value]
    if kind is str:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode() for text in values]))
    if kind is int:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Feature(float_list=tf.train.FloatList(value=values)) if kind else tf.train.Feature()

def serialized(rows, size):
    features = [{name: listed(values[i]) for name, values in rows.items()} for i in range(size)]
    return [tf.train.Example(features=tf.train.Features(feature=one)).SerializeToString() for one in features]

def fed(name, rows, info):
    # The arrays of a feature, by what TensorFlow adds to its name.
    dtype = tf.as_dtype(info.dtype or info.composite_tensor.components[0].dtype).as_numpy_dtype
    if not (info.HasField('coo_sparse') or info.HasField('composite_tensor')):
        width = max(map(len, rows)) if name == 'padded' else 0
        rows = [row + [0.0] * (width - len(row)) for row in rows] if name == 'padded' else rows
        return {'': np.array(rows).astype(dtype)}
    values = np.array([value for row in rows for value in row]).astype(dtype)
    if info.HasField('coo_sparse'):
        indices = [[i, j] for i, row in enumerate(rows) for j in range(len(row))]
        shape = [len(rows), max(map(len, rows))]
        return {'_indices': np.array(indices, np.int64), '_values': values, '_dense_shape': np.array(shape, np.int64)}
    splits = np.cumsum([0] + [len(row) for row in rows])
    return {'_component_0': values, '_component_1': splits.astype(np.int64)}

def names(info):
    if info.HasField('coo_sparse'):
        coo = info.coo_sparse
        return [coo.indices_tensor_name, coo.values_tensor_name, coo.dense_shape_tensor_name]
    return [one.name for one in info.composite_tensor.components] or [info.name]

def plain(value):
    return value.astype(str).tolist() if value.dtype == object else value.tolist()

answers = {}
for case, (path, rows) in json.load(open(sys.argv[1])).items():
    loaded = tf.saved_model.load(path).signatures
    session = v1.Session(graph=tf.Graph())
    with session.graph.as_default():
        signatures = v1.saved_model.load(session, ['serve'], path).signature_def
    answers[case] = {key: {} for key in sorted(signatures)}
    for key, signature in signatures.items():
        for size in (1, 5):
            if key.startswith('raw:'):
                feeds = {name: fed(name, rows[name][:size], info) for name, info in signature.inputs.items()}
            else:
                feeds = {name: {'': serialized(rows, size)} for name in signature.inputs}
            arguments = {name + more: tf.constant(array) for name in feeds for more, array in feeds[name].items()}
            one = {name: plain(value.numpy()) for name, value in loaded[key](**arguments).items()}
            feed_dict = {tensor: array for name, info in signature.inputs.items()
                         for tensor, array in zip(names(info), feeds[name].values())}
            fetches = {name: info.name for name, info in signature.outputs.items()}
            two = {name: plain(value) for name, value in session.run(fetches, feed_dict).items()}
            assert one == two, (case, key, size, one, two)
            answers[case][key][size] = one
assert not [name for name in sys.modules if name.startswith(('estimator_trainer', 'tensorflow_estimator'))]
print(json.dumps(answers))
"""


@pytest.fixture(scope='module')
def answers(tmp_path_factory):
    """Case -> signature -> batch size -> output -> values, as a fresh process with plain TensorFlow gives them."""
    tmp_path = tmp_path_factory.mktemp('serving')
    exports = {}
    for case, (model_fn, bound, features, rows) in EXPORTS.items():
        model_dir = str(tmp_path / case)
        estimator = tf.estimator.Estimator(model_fn, model_dir) if model_fn else classifier(model_dir)
        estimator.train(any_input_fn, steps=1)
        path = estimator.export_saved_model(str(tmp_path / f'{case}_export'), serving.receiver_fn(bound, features))
        exports[case] = (path.decode(), rows)
    (tmp_path / 'exports.json').write_text(json.dumps(exports))
    return json.loads(
        fresh.last_line(fresh.start('-c', PLAIN, str(tmp_path / 'exports.json'), CUDA_VISIBLE_DEVICES=''))
    )


@pytest.mark.parametrize('case', ['derived', 'table', 'tensor', 'tensor_table'])
def test_both_signatures_answer_in_plain_tensorflow(answers, case):
    assert sorted(answers[case]) == ['raw:serving_default', 'serving_default']
    rows = {name: values for name, values in EXPORTS[case][3].items() if name != 'unused'}
    output = {'tensor_table': {'vector': 'feature'}}.get(case, {})
    for size in (1, 5):
        want = {output.get(name, name): weigh(values[:size]) for name, values in rows.items()}
        for signature in answers[case]:
            assert answers[case][signature][str(size)] == want, (signature, size)


def test_a_canned_classifier_classifies_examples_and_predicts_from_raw_features(answers):
    answers = answers['classifier']
    assert {'classification', 'predict', 'raw:predict', 'serving_default'} <= set(answers)
    for size in ('1', '5'):
        np.testing.assert_array_equal(
            answers['raw:predict'][size]['probabilities'], answers['predict'][size]['probabilities']
        )
        scores, want = answers['serving_default'][size]['scores'], answers['raw:predict'][size]['probabilities']
        np.testing.assert_allclose(scores, want, rtol=1e-6)
        assert np.shape(scores) == (int(size), 2)


@pytest.mark.parametrize(
    ('bound', 'features', 'want'),
    [
        (5, None, r"expected a function or a table such as \{'x': \('float32', \[3\]\)\}, found 5"),
        ({'x': ('flota32', [2])}, None, r"feature 'x': no dtype 'flota32'; did you mean 'float32'\?"),
        ({'x': 3}, None, r"feature 'x': expected \(dtype, shape\), e.g. \('float32', \[3\]\), found 3"),
        ({'x': ('float32', 'a')}, None, "feature 'x': expected a shape without batch dimension, e.g. .*, found 'a'"),
        ({'x': ('complex64', [2])}, None, "feature 'x' cannot be read from tf.Example: .*complex64"),
        ({'x': ('float32', None)}, None, "feature 'x' cannot be read from tf.Example: .*unknown"),
        ({3: 'float32'}, None, 'feature 3 cannot be read from tf.Example'),
        ({}, None, 'features that are a dict cannot be read'),
        (None, None, 'features that are None cannot be read'),
        (None, (tf.TensorSpec([None]),), 'features that are a 1-tuple cannot be read'),
        (None, {'x': {'y': tf.TensorSpec([])}}, "feature 'x' cannot be read .*; bind a function .*, or a table"),
        (None, {'x': tf.TensorSpec([])}, "feature 'x' cannot be read"),
        (None, {'x': tf.TensorSpec([None, None, None, 3])}, "feature 'x' cannot be read"),
        (None, {'x': tf.SparseTensorSpec([None, 10], tf.int64)}, "feature 'x' cannot be read"),
        (None, {'x': tf.RaggedTensorSpec([None, None, None], tf.int64)}, "feature 'x' cannot be read"),
    ],
)
def test_features_that_cannot_be_served(bound, features, want):
    with pytest.raises(UserError, match=f'^experiment.serving_input_receiver_fn: .*{want}'):
        serving.receiver_fn(bound, features)


def tensor():
    return v1.placeholder(tf.float32, [None], 'x')


def placeholder_in_a_parsing_spec():
    return tf.estimator.export.build_parsing_serving_input_receiver_fn({'x': tensor()})()


class CallableObject:
    def __call__(self):
        return {'x': tensor()}


@gin.configurable(module='serving_test')
def configured(kind=dict):
    return kind()


@pytest.mark.parametrize(
    ('function', 'want'),
    [
        (
            lambda: {'x': tensor()},
            r'<lambda> \(test_serving.py:\d+\) returned a dict; expected tf.estimator.*receiver_t',
        ),
        (lambda: None, r'<lambda> \(test_serving.py:\d+\) returned None; expected tf.estimator'),
        (lambda: (1, 2, 3), r'<lambda> \(test_serving.py:\d+\) returned a 3-tuple; expected'),
        (lambda: tf.TensorSpec([None]), r'<lambda> \(test_serving.py:\d+\) returned a TensorSpec; expected'),
        (lambda: tensor(), r'<lambda> \(test_serving.py:\d+\) returned a tensor; expected'),
        (lambda x: x, r'<lambda> \(test_serving.py:\d+\) failed: .*missing 1 required .*; it takes no arguments'),
        (
            lambda: Receiver(tf.TensorSpec([1]), tensor()),
            r'<lambda> \(test_serving.py:\d+\) failed: feature .* must be',
        ),
        (placeholder_in_a_parsing_spec, r"placeholder_in_.* \(test_serving.py:\d+\) failed: Unsupported .* key 'x'"),
        (functools.partial(configured, kind=list), r'configured \(test_serving.py:\d+\) returned a list'),
        (configured, r'configured \(test_serving.py:\d+\) returned a dict'),
        (CallableObject(), r'CallableObject \(test_serving.py:\d+\) returned a dict'),
        (dict, 'dict returned a dict'),
    ],
)
def test_a_function_that_makes_no_receiver(function, want):
    receiver_fn = serving.receiver_fn(function, None)
    with tf.Graph().as_default(), pytest.raises(UserError, match=f'^serving_input_receiver_fn {want}'):
        receiver_fn()


@pytest.mark.parametrize('kind', [Receiver, tf.estimator.export.TensorServingInputReceiver])
def test_a_receiver_of_the_users_own_is_passed_on(kind):
    with tf.Graph().as_default():
        receiver = kind(tensor(), tensor())
        assert serving.receiver_fn(lambda: receiver, None)() is receiver
        with pytest.raises(UserError, match='the function has been called; expected @my_function instead of @my_funct'):
            serving.receiver_fn(receiver, None)


def output():
    return tf.estimator.export.PredictOutput({'y': tf.zeros([1])})


@gin.configurable(module='serving_test')
def predicting_model_fn(make):
    return tf.estimator.EstimatorSpec(PREDICT, predictions={'y': tf.zeros([1])}, export_outputs=make())


@pytest.mark.parametrize(
    ('make', 'default', 'want_keys', 'want_error'),
    [
        (lambda: None, None, {'serving_default'}, None),
        (lambda: {'a': output()}, None, {'a', 'serving_default'}, None),
        (lambda: {'a': output(), 'b': output()}, 'b', {'a', 'b', 'serving_default'}, None),
        (lambda: {'a': output(), 'serving_default': output()}, 'a', {'a', 'serving_default'}, None),
        (lambda: {'a': output(), 'serving_default': output()}, 'serving_default', {'a', 'serving_default'}, None),
        (lambda: {'a': output(), 'b': output()}, None, None, "has 'a', 'b'; expected one of them under .*'serving_def"),
        (lambda: {'head': output(), 'b': output()}, 'haed', None, "has no 'haed', only 'head', 'b'; .* 'head'"),
        (lambda: None, 'head', None, "has no 'head', only 'serving_default'$"),
        (lambda: {'a': output(), 'b': tf.zeros([1])}, None, None, r"\['b'\] is a tensor; expected .*PredictOutput"),
        (lambda: [output()], None, None, 'is a list; expected a dict of tf.estimator.export.PredictOutput'),
    ],
)
def test_export_outputs(make, default, want_keys, want_error):
    with tf.Graph().as_default():
        try:
            spec, told = predicting_model_fn(make), None
        except (TypeError, ValueError) as error:
            spec, told = serving.refused_spec(error), serving.explain(error)
        if want_error is None:
            checked = serving.check_export_outputs(spec, default)
            assert set(checked.export_outputs) == want_keys
            if default:
                assert checked.export_outputs['serving_default'] is checked.export_outputs[default]
            return
        with pytest.raises(UserError, match=rf"^mode 'infer' \(PREDICT\) of model_fn: export_outputs ?{want_error}"):
            serving.check_export_outputs(spec, default)
        if default is None:  # The constructor refused it, and does not say what this says.
            with pytest.raises(UserError) as raised:
                serving.check_export_outputs(spec)
            assert told == str(raised.value)


def test_other_errors_are_not_explained():
    with tf.Graph().as_default():
        for make in (lambda: tf.estimator.EstimatorSpec(PREDICT, predictions=3), lambda: int('a')):
            with pytest.raises((TypeError, ValueError)) as raised:
                make()
            assert serving.explain(raised.value) is None
