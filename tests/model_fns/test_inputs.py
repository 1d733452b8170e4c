"""From features to numbers, ids, one-hot and embeddings: in the graph, on parameter servers, in an export."""

import json

import numpy as np
import pytest

from estimator_trainer import partitioning
from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from estimator_trainer.feature_description import feature_description
from estimator_trainer.features import Feature
from model_fns import inputs
from tests.model_fns import harness

v1 = tf.compat.v1


def described(features, crosses=None):
    return feature_description(features, crosses, {'label': {}})


def evaluated(function, features, values=None):
    """Returns what a function of features gives in a graph of its own."""
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(1)
        made = function(harness.tensors(features))
        harness.initialise(session, values)
        return session.run(made)


@pytest.mark.parametrize(
    ('entries', 'values', 'want'),
    [
        ({'vocabulary': ['a', 'b']}, ['b', 'a', 'c', ''], [1, 0, 2, 2]),
        ({'vocabulary': ['a', 'b'], 'out_of_vocabulary': 'ignore'}, ['b', 'c'], [1, -1]),
        ({'vocabulary': ['a', 'b'], 'out_of_vocabulary': 'error'}, ['b', 'c'], [1, -1]),
        ({'vocabulary': ['é', '漢字']}, ['漢字', 'é', 'e'], [1, 0, 2]),
        ({'vocabulary': [5, -7]}, np.array([-7, 5, 0]), [1, 0, 2]),
        ({'dtype': 'int32', 'vocabulary': [5, -7]}, np.array([-7, 5, 0], np.int32), [1, 0, 2]),
        ({'num_buckets': 3}, np.array([0, 2, 3, -1, 2**40]), [0, 2, -1, -1, -1]),
        ({'dtype': 'int32', 'num_buckets': 3}, np.array([2, 3], np.int32), [2, -1]),
        ({'boundaries': [0.1, 2.0]}, np.array([-1.0, 0.1, 1.9, 2.0, np.nan], np.float32), [0, 1, 1, 2, 0]),
        ({'dtype': 'float64', 'boundaries': [0.1]}, np.array([0.1, 0.1 - 1e-12]), [1, 0]),
        ({'dtype': 'int64', 'boundaries': [-1.5, 2.5, 4]}, np.array([-2, -1, 2, 3, 4, 2**60]), [0, 1, 1, 2, 3, 3]),
    ],
)
def test_ids(entries, values, want):
    (feature,) = described({'x': entries}).features.values()
    found = evaluated(lambda features: inputs.ids_of(feature, features['x']), {'x': values})
    assert (found.tolist(), found.dtype) == (want, np.int64)
    assert found.max() < feature.ids


def test_hashed_ids_are_those_of_the_text():
    text, number = Feature('text', 'string', hash_buckets=1000), Feature('number', 'int64', hash_buckets=1000)
    values = {'text': ['17', '-3', '17'], 'number': np.array([17, -3, 17])}
    by_text, by_number = evaluated(
        lambda it: [inputs.ids_of(text, it['text']), inputs.ids_of(number, it['number'])], values
    )
    assert by_text.tolist() == by_number.tolist()
    assert by_text[0] == by_text[2] != by_text[1]
    assert 0 <= by_text.min() <= by_text.max() < 1000


@pytest.mark.parametrize(
    ('entries', 'values', 'want'),
    [
        ({'normalize': (10.0, 2.0)}, np.array([8.0, 14.0], np.float32), [[-1.0], [2.0]]),
        ({}, np.array([8.0, 14.0], np.float32), [[8.0], [14.0]]),
        ({'dtype': 'int32', 'normalize': (10.0, 4.0)}, np.array([8, 14], np.int32), [[-0.5], [1.0]]),
        # float32 knows only each 128th of these.
        ({'dtype': 'int64', 'normalize': (1.6e9, 10.0)}, np.array([1600000010, 1599999995]), [[1.0], [-0.5]]),
        ({'dtype': 'float64', 'normalize': (1.6e9, 1.0)}, np.array([1.6e9 + 0.25, 1.6e9]), [[0.25], [0.0]]),
        ({'shape': [2, 1], 'normalize': (1.0, 2.0)}, np.array([[[1], [3]], [[5], [1]]], np.float32), [[0, 1], [2, 0]]),
    ],
)
def test_numbers(entries, values, want):
    found = evaluated(lambda features: inputs.numbers(features, described({'x': entries})), {'x': values})
    assert (found.tolist(), found.dtype) == (want, np.float32)


def test_there_may_be_no_numbers():
    assert inputs.numbers({}, described({'x': {'num_buckets': 3}})) is None


def test_one_hot_counts_values():
    category = lambda features: inputs.Category('x', features['x'], 4)  # noqa: E731
    found = evaluated(lambda it: inputs.one_hot(category(it)), {'x': np.array([[3, 3], [-1, 0], [-1, -1]])})
    assert found.tolist() == [[0, 0, 0, 2], [1, 0, 0, 0], [0, 0, 0, 0]]


def test_embedding_is_the_mean_of_known_values():
    table = np.arange(8.0).reshape(4, 2)
    found = evaluated(
        lambda it: inputs.embedding(inputs.Category('x', it['x'], 4), 2),
        {'x': np.array([[3, 1], [-1, 2], [-1, -1]])},
        {'embeddings/x': table},
    )
    assert found.tolist() == [[4.0, 5.0], [4.0, 5.0], [0.0, 0.0]]


def test_embeddings_start_small():
    table = evaluated(
        lambda it: inputs.embedding(inputs.Category('x', it['x'], 1000), 25), {'x': np.arange(1000)[:, None]}
    )
    # A normal distribution cut off at two deviations has 0.88 of its deviation.
    assert table.std() == pytest.approx(0.88 / 5, rel=0.02)


@pytest.mark.parametrize(
    ('features', 'values', 'want_known'),
    [
        ({'a': {'dtype': 'string'}, 'b': {'num_buckets': 9}}, {'a': ['x', 'x', 'y', 'x'], 'b': [1, 2, 1, 9]}, 3),
        ({'a': {'vocabulary': ['x']}, 'b': {'boundaries': [0.0]}}, {'a': ['x', 'y', 'z', 'x'], 'b': [-1.0] * 4}, 4),
    ],
)
def test_crosses(features, values, want_known):
    description = described(features, {'a_b': {'of': ['a', 'b'], 'hash_buckets': 10**9}})
    *_, cross = evaluated(
        lambda it: [category.ids for category in inputs.categories(it, description, all_crosses=True)], values
    )
    ids = cross[:, 0]
    assert cross.shape == (4, 1)
    assert (ids >= 0).sum() == want_known
    # One id for each combination: of the second table's rows the last is as the first, and two are unknown words.
    assert len(set(ids.tolist())) == (4 if want_known == 3 else 2)


def test_crosses_keep_values_apart():
    description = described(
        {'a': {'dtype': 'string'}, 'b': {'dtype': 'string'}}, {'c': {'of': ['a', 'b'], 'hash_buckets': 10**9}}
    )
    (cross,) = evaluated(
        lambda it: [category.ids for category in inputs.categories(it, description, all_crosses=True)],
        {'a': ['a', 'ab'], 'b': ['bc', 'c']},
    )
    assert cross[0] != cross[1]


def test_matrix_and_linear():
    description = described(
        {
            'word': {'vocabulary': ['a', 'b'], 'out_of_vocabulary': 'ignore'},
            'number': {'normalize': (1.0, 2.0)},
            'id': {'num_buckets': 3, 'embedding_size': 2},
        },
        {'both': {'of': ['word', 'id'], 'hash_buckets': 5}},
    )
    features = {'word': ['b', 'c'], 'number': [3.0, 1.0], 'id': [2, 7]}
    table = np.arange(6.0).reshape(3, 2)
    found = evaluated(lambda it: inputs.matrix(it, description), features, {'embeddings/id': table})
    assert found.tolist() == [[1.0, 0.0, 1.0, 4.0, 5.0], [0.0, 0.0, 0.0, 0.0, 0.0]]
    weights = {
        'linear/bias': [0.5],
        'linear/numbers': [[10.0]],
        'linear/ids/word': [[1.0], [2.0]],
        'linear/ids/id': [[0.0], [0.0], [100.0]],
        'linear/ids/both': [[1000.0]] * 5,
    }
    found = evaluated(lambda it: inputs.linear(it, description, 1), features, weights)
    # A value without an id has no weight, nor has a cross of it.
    assert found.tolist() == [[1112.5], [0.5]]


@pytest.mark.parametrize('name', ['hours per week', 'größe', '-x', '_', 'a/b', 'a:b', 'plain'])
def test_any_name_makes_a_variable(name):
    description = described({name: {'num_buckets': 2}, f'{name} ': {'num_buckets': 2}})
    features = {name: [0], f'{name} ': [1]}
    assert evaluated(lambda it: inputs.linear(it, description, 1), features).tolist() == [[0.0]]
    assert inputs.scope_of('plain') == 'plain'
    assert inputs.scope_of('a b') != inputs.scope_of('a_b')


@pytest.mark.parametrize(
    ('features', 'given', 'want_error'),
    [
        (
            {'length': {}},
            {'lenght': [1.0]},
            "feature_description.features: no feature 'length' among lenght; did you mean 'lenght'?",
        ),
        (
            {'name': {'dtype': 'string'}},
            {'name': ['a']},
            "feature_description.features['name']: text that has no id; expected a vocabulary, hash_buckets, or a "
            'cross of it',
        ),
        (
            {'id': {'num_buckets': 10_001}},
            {'id': [1]},
            "feature_description: 'id' has 10,001 ids, and no embedding_size; expected one for more than 10,000 ids",
        ),
    ],
)
def test_error(features, given, want_error):
    with pytest.raises(UserError) as error:
        evaluated(lambda it: inputs.matrix(it, described(features)), given)
    assert str(error.value) == want_error


@pytest.mark.usefixtures('clean_gin')
def test_nothing_described():
    with pytest.raises(UserError, match=r'^some_model_fn: feature_description\.features is not bound; expected'):
        inputs.description_for('some_model_fn')


def ids_with_gradient(features):
    embedded = inputs.embedding(inputs.Category('x', features['x'], 8), 2)
    weighed = inputs.lookup(inputs.Category('x', features['x'], 8), 1, 'linear/ids', v1.zeros_initializer())[0]
    return embedded, tf.gradients(embedded, v1.trainable_variables('embeddings')), weighed


@pytest.mark.parametrize(('min_slice_size', 'want_parts'), [(None, 1), (32, 2), (1000, 1)])
def test_tables_are_divided_over_parameter_servers(monkeypatch, min_slice_size, want_parts):
    cluster = {'chief': ['localhost:1'], 'ps': ['localhost:2', 'localhost:3']}
    monkeypatch.setenv('TF_CONFIG', json.dumps({'cluster': cluster, 'task': {'type': 'chief', 'index': 0}}))
    config = tf.estimator.RunConfig()
    ids = {'x': np.array([[0], [5], [-1], [7]])}
    table = np.arange(16.0).reshape(8, 2)
    with harness.bound(f'parameter_server.min_slice_size = {min_slice_size}'), tf.Graph().as_default():
        with partitioning.divided_variables(config):
            embedded, gradients, _ = ids_with_gradient(harness.tensors(ids))
        parts = v1.trainable_variables('embeddings')
        assert len(parts) == want_parts
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for part, values in zip(parts, np.split(table, want_parts), strict=True):
                part.load(values, session)
            found, gradients = session.run([embedded, [tf.convert_to_tensor(gradient) for gradient in gradients]])
    # The parts hold the rows in their order, and the missing value moves none.
    assert found.tolist() == [[0.0, 1.0], [10.0, 11.0], [0.0, 0.0], [14.0, 15.0]]
    assert np.concatenate(gradients)[:, 0].tolist() == [1, 0, 0, 0, 0, 1, 0, 1]
