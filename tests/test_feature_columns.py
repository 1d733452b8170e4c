"""wide_columns and deep_columns: what canned Estimators make of a description, and that it is what our models make."""

import gin
import numpy as np
import pytest

from estimator_trainer import feature_columns
from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from estimator_trainer.feature_description import feature_description
from model_fns import inputs
from tests import program

v1 = tf.compat.v1
FEATURES = """{
    'number': {'normalize': (1.0, 2.0)},
    'large': {'dtype': 'int64', 'normalize': (1.6e9, 10.0)},
    'pair': {'shape': [2]},
    'range': {'dtype': 'int64', 'boundaries': [0, 10]},
    'word': {'vocabulary': ['a', 'b']},
    'known': {'vocabulary': [5, 7], 'out_of_vocabulary': 'ignore', 'embedding_size': 3},
    'hashed': {'hash_buckets': 50, 'embedding_size': 4},
    'id': {'num_buckets': 3},
}"""
CROSSES = """{
    'wide': {'of': ['range', 'word'], 'hash_buckets': 20},
    'both': {'of': ['hashed', 'id'], 'hash_buckets': 20, 'embedding_size': 2},
}"""
BATCH = {
    'number': np.array([3.0, 1.0, -1.0, 0.0], np.float32),
    'large': np.array([1600000010, 1599999995, 1600000000, 1600000001]),
    'pair': np.array([[1, 2], [3, 4], [5, 6], [7, 8]], np.float32),
    'range': np.array([-5, 0, 10, 11]),
    'word': np.array(['a', 'b', 'c', 'a']),
    'known': np.array([5, 7, 9, 5]),
    'hashed': np.array(['x', 'y', 'z', 'x']),
    # The last two are no ids.
    'id': np.array([0, 2, 3, -1]),
}
LABELS = np.array([0, 1, 1, 0], np.int32)


@pytest.fixture
def described(clean_gin):
    gin.parse_config(f'feature_description.features = {FEATURES}\nfeature_description.crosses = {CROSSES}')


def layer(columns):
    """Returns the names of what a layer of the columns makes of BATCH, side by side, and its values."""
    with tf.Graph().as_default(), v1.Session() as session:
        features = {name: tf.constant(values) for name, values in BATCH.items()}
        made = {column.name: v1.feature_column.input_layer(features, [column]) for column in columns}
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        return session.run(made)


@pytest.mark.usefixtures('described')
def test_deep_columns():
    made = layer(feature_columns.deep_columns())
    shapes = {name: value.shape[1] for name, value in made.items()}
    assert shapes == {
        'number': 1,
        'large': 1,
        'pair': 2,
        'range_bucketized': 3,
        'word_indicator': 3,
        'known_embedding': 3,
        'hashed_embedding': 4,
        'id_indicator': 3,
        'hashed_X_id_embedding': 2,
    }
    assert made['number'].ravel().tolist() == [1, 0, -1, -0.5]
    np.testing.assert_allclose(made['large'].ravel(), [1, -0.5, 0, 0.1], rtol=1e-6)
    assert made['range_bucketized'].argmax(axis=1).tolist() == [0, 1, 2, 2]
    assert made['word_indicator'].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert made['id_indicator'].tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]]
    # What is ignored has no embedding.
    assert np.any(made['known_embedding'], axis=1).tolist() == [True, True, False, True]
    assert np.any(made['hashed_X_id_embedding'], axis=1).tolist()[:2] == [True, True]


@pytest.mark.usefixtures('described')
def test_numbers_and_one_hot_are_those_of_our_models():
    made = layer(feature_columns.deep_columns())
    with tf.Graph().as_default(), v1.Session() as session:
        features = {name: tf.constant(values) for name, values in BATCH.items()}
        description = feature_description()
        numbers = inputs.numbers(features, description)
        one_hot = {
            category.name: inputs.one_hot(category)
            for category in inputs.categories(features, description)
            if category.embedding_size is None
        }
        session.run(v1.tables_initializer())
        numbers, one_hot = session.run([numbers, one_hot])
    np.testing.assert_allclose(numbers, np.concatenate([made[name] for name in ('number', 'large', 'pair')], axis=1))
    assert set(one_hot) == {'range', 'word', 'id'}
    for name, values in one_hot.items():
        suffix = 'bucketized' if name == 'range' else 'indicator'
        np.testing.assert_array_equal(values, made[f'{name}_{suffix}'])


@pytest.mark.usefixtures('described')
def test_wide_columns():
    names = [column.name for column in feature_columns.wide_columns()]
    assert names == [
        *('number', 'large', 'pair', 'range_bucketized', 'word', 'known', 'hashed', 'id'),
        *('range_bucketized_X_word', 'hashed_X_id'),
    ]


def input_fn():
    return tf.data.Dataset.from_tensors((BATCH, LABELS)).repeat()


@pytest.mark.usefixtures('described')
@pytest.mark.parametrize(
    ('kind', 'arguments'),
    [
        ('LinearClassifier', {'feature_columns': 'wide'}),
        ('DNNClassifier', {'feature_columns': 'deep', 'hidden_units': [8]}),
        (
            'DNNLinearCombinedClassifier',
            {'linear_feature_columns': 'wide', 'dnn_feature_columns': 'deep', 'dnn_hidden_units': [8]},
        ),
        ('DNNRegressor', {'feature_columns': 'deep', 'hidden_units': [8]}),
    ],
)
def test_canned_estimators_train_and_export(kind, arguments, tmp_path):
    columns = {'wide': feature_columns.wide_columns(), 'deep': feature_columns.deep_columns()}
    arguments = {
        name: columns.get(value, value) if isinstance(value, str) else value for name, value in arguments.items()
    }
    estimator = getattr(tf.estimator, kind)(model_dir=str(tmp_path / 'model'), **arguments)
    losses = []
    for max_steps in (1, 50):
        estimator.train(input_fn, max_steps=max_steps)
        losses.append(estimator.evaluate(input_fn, steps=1)['average_loss'])
    assert losses[1] < losses[0]

    def receiver_fn():
        fed = {
            name: v1.placeholder(values.dtype if values.dtype.kind != 'U' else tf.string, [None, *values.shape[1:]])
            for name, values in BATCH.items()
        }
        return tf.estimator.export.ServingInputReceiver(fed, fed)

    path = estimator.export_saved_model(str(tmp_path / 'export'), receiver_fn, experimental_mode='infer').decode()
    with tf.Graph().as_default(), v1.Session() as session:
        signatures = v1.saved_model.load(session, ['serve'], path).signature_def
        signature = signatures['predict']
        output = next(iter(signature.outputs.values())).name
        feed = {signature.inputs[name].name: values for name, values in BATCH.items()}
        assert len(session.run(output, feed)) == 4


@pytest.mark.usefixtures('clean_gin')
@pytest.mark.parametrize('columns', [feature_columns.wide_columns, feature_columns.deep_columns])
def test_error(columns):
    with pytest.raises(UserError, match=f'^{columns.__name__}: feature_description.features is not bound; expected'):
        columns()
    gin.bind_parameter('feature_description.features', {'name': {'dtype': 'string'}})
    with pytest.raises(
        UserError, match=r"^feature_description.features\['name'\]: text that has no id; expected a voc"
    ):
        columns()


GIN = f"""
import input_fns.memory
import columns_module
experiment.estimator = @DNNLinearCombinedClassifier
DNNLinearCombinedClassifier.linear_feature_columns = @wide_columns()
DNNLinearCombinedClassifier.dnn_feature_columns = @deep_columns()
DNNLinearCombinedClassifier.dnn_hidden_units = [4]
experiment.train_input_fn = @memory_input_fn
experiment.eval_input_fn = @eval/memory_input_fn
eval/memory_input_fn.repeat = False
memory_input_fn.data = @columns_of_a_test
memory_input_fn.batch_size = 4
experiment.exporters = [@FinalExporter()]
experiment.max_steps = 5
feature_description.features = {FEATURES}
feature_description.crosses = {CROSSES}
feature_description.label = {{'label': {{'num_buckets': 2}}}}
"""
MODULE = """
import gin
import numpy as np
from numpy import array, float32


@gin.configurable
def columns_of_a_test():
    return {'label': np.array([0, 1, 1, 0]), **BATCH}


"""


def test_a_program_names_them(tmp_path):
    (tmp_path / 'my.gin').write_text(GIN)
    # The ids are all in range: input_fns take others for bad records.
    batch = BATCH | {'id': np.array([0, 2, 1, 1])}
    (tmp_path / 'columns_module.py').write_text(f'{MODULE}BATCH = {batch}\n')
    program.run('--gin_file=my.gin', '--model_dir=M', '--strict_unused', cwd=tmp_path).check()
    summary = program.summary(tmp_path / 'M')
    assert (summary['final_step'], summary['warnings'], len(summary['exports'])) == (5, [], 1)
