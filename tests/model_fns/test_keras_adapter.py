"""keras_model_fn: models and layers of every kind; their losses, updates and dropout; what is no network."""

import gin
import numpy as np
import pytest

from estimator_trainer import specs
from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from model_fns.keras_adapter import dense_network, keras_model_fn
from tests.model_fns import harness

v1 = tf.compat.v1
NUMBERS = "feature_description.features = {'x': {}, 'y': {}}"
LABEL = "feature_description.label = {'label': {'num_buckets': 2}}"
SGD = """
    optimization.optimizer = @GradientDescentOptimizerOfAKerasTest
    optimization.learning_rate = 0.5
"""
gin.external_configurable(v1.train.GradientDescentOptimizer, 'GradientDescentOptimizerOfAKerasTest')
X = np.random.default_rng(1).normal(3.0, 2.0, (40, 2)).astype(np.float32)
FEATURES = {'x': X[:, 0], 'y': X[:, 1]}
LABELS = (X[:, 0] > X[:, 1]).astype(np.int32)


def parts():
    """Returns layers with a penalty of 0.1 for each squared weight, a moving average, dropout and logits."""
    layers, penalty = tf.keras.layers, tf.keras.regularizers.L2(0.1)
    dense = layers.Dense(2, kernel_initializer='ones', kernel_regularizer=penalty, activity_regularizer=penalty)
    return [layers.BatchNormalization(momentum=0.5), dense, layers.Dropout(0.5), layers.Dense(1)]


def sequential():
    return tf.keras.Sequential(parts())


def functional():
    net = given = tf.keras.Input([2])
    for layer in parts():
        net = layer(net)
    return tf.keras.Model(given, net)


class Subclass(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.parts = parts()

    def call(self, inputs, training=None):
        for layer in self.parts:
            inputs = layer(inputs)
        return inputs


class Layer(tf.keras.layers.Layer):
    """Does not take `training`."""

    def __init__(self):
        super().__init__()
        self.parts = parts()

    def call(self, inputs):
        for layer in self.parts:
            inputs = layer(inputs)
        return inputs


NETWORKS = [sequential, functional, Subclass, Layer]


@pytest.mark.parametrize('network', NETWORKS, ids=lambda it: it.__name__)
def test_losses_updates_and_dropout_of_every_kind(network):
    with harness.bound(NUMBERS, LABEL, SGD), tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(1)
        spec = keras_model_fn(harness.tensors(FEATURES), tf.constant(LABELS), 'train', network=network)
        assert specs.warnings(spec, v1.get_default_graph()) == []
        harness.initialise(session)
        first, second = session.run(spec.loss), session.run(spec.loss)
        assert first != second  # by dropout
        session.run(spec.train_op)
        variables = {one.op.name.split('/')[-1]: session.run(one) for one in v1.global_variables()}
    np.testing.assert_allclose(variables['moving_mean'], X.mean(axis=0) / 2, rtol=1e-3)
    with harness.bound(NUMBERS, LABEL, SGD), tf.Graph().as_default(), v1.Session() as session:
        spec = keras_model_fn(harness.tensors(FEATURES), tf.constant(LABELS), 'eval', network=network)
        harness.initialise(session)
        assert session.run(spec.loss) == session.run(spec.loss)


def constant(size):
    """Returns a network of constant logits, 0, with a penalty of 0.1 * (2 * 3 ** 2) for its weights."""
    three, penalty = tf.keras.initializers.Constant(3.0), tf.keras.regularizers.L2(0.1)
    dense = tf.keras.layers.Dense(size, kernel_initializer=three, kernel_regularizer=penalty)
    return tf.keras.Sequential([dense, tf.keras.layers.Rescaling(0.0)])


def test_penalties_are_part_of_the_training_loss_alone():
    with harness.bound(NUMBERS, LABEL, SGD):
        losses = [
            harness.run(keras_model_fn, FEATURES, LABELS, mode, fetch=lambda spec: spec.loss, network=constant)
            for mode in ('train', 'eval')
        ]
        before, after = harness.trained(keras_model_fn, FEATURES, LABELS, network=constant)
    np.testing.assert_allclose(losses, [np.log(2) + 1.8, np.log(2)], rtol=1e-5)
    (kernel,) = [name for name in after if name.endswith('kernel')]
    np.testing.assert_allclose(before[kernel], 3.0)
    np.testing.assert_allclose(after[kernel], 3.0 - 0.5 * 0.2 * 3.0, rtol=1e-5)


def by_name():
    given = {'x': tf.keras.Input([1], name='x'), 'word': tf.keras.Input([2], name='word')}
    return tf.keras.Model(given, tf.keras.layers.Dense(1)(tf.keras.layers.Concatenate()(list(given.values()))))


def test_a_network_may_take_the_features_by_name():
    features = {'x': X[:, 0], 'word': X}
    described = "feature_description.features = {'x': {}, 'word': {'shape': [2]}}"
    with harness.bound(described, LABEL):
        got = harness.run(keras_model_fn, features, network=by_name, as_matrix=False)
    assert got['probabilities'].shape == (40, 2)


@pytest.mark.parametrize(
    ('label', 'want_size'), [({'num_buckets': 2}, 1), ({'num_buckets': 5}, 5), ({}, 1), ({'vocabulary': ['a', 'b']}, 1)]
)
def test_a_network_is_told_its_number_of_logits(label, want_size):
    sizes = []

    def network(size):
        sizes.append(size)
        return tf.keras.layers.Dense(size)

    with harness.bound(NUMBERS, f"feature_description.label = {{'label': {label}}}"):
        harness.run(keras_model_fn, FEATURES, network=network)
    assert sizes == [want_size]


def test_learns_and_goes_on_from_its_checkpoint(tmp_path):
    with harness.bound(NUMBERS, LABEL, 'optimization.learning_rate = 0.05', 'dense_network.batch_normalization = True'):
        accuracies = []
        for max_steps in (1, 150):
            tf.keras.utils.set_random_seed(3)  # its initializers do not go by the seed of the graph
            estimator = harness.estimator(keras_model_fn, tmp_path, network=dense_network)
            estimator.train(harness.input_fn(FEATURES, LABELS, repeat=True), max_steps=max_steps)
            accuracies.append(estimator.evaluate(harness.input_fn(FEATURES, LABELS))['accuracy'])
        assert len(list(estimator.predict(harness.input_fn(FEATURES)))) == 40
    assert accuracies[0] < 0.9 < accuracies[1], accuracies


@pytest.mark.parametrize(
    ('network', 'want_error'),
    [
        (lambda: 3, 'keras_model_fn.network: returned 3; expected a tf.keras model or layer'),
        (
            lambda: tf.keras.layers.Dense(3),
            r'keras_model_fn.network: returned logits of shape \(40, 3\); expected \[batch, 1\]',
        ),
    ],
)
def test_error(network, want_error):
    with harness.bound(NUMBERS, LABEL), pytest.raises(UserError, match=f'^{want_error}'):
        harness.run(keras_model_fn, FEATURES, network=network)
