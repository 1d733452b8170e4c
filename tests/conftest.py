"""Fixtures for all tests."""

import os

import gin
import pytest

# Files that take two minutes: begun last, they would leave one core idle.
_LONG = ('test_training.py', 'test_readme.py', 'test_configs.py', 'test_reproduction.py')


def pytest_collection_modifyitems(items):
    """Puts the longest files first, and skips the tests of the other TensorFlow where ESTIMATOR_TRAINER_ONCE names one.

    It is 'oldest' or 'newest', as the marker `once` says.
    """
    items.sort(key=lambda item: item.path.name not in _LONG)
    name = os.environ.get('ESTIMATOR_TRAINER_ONCE')
    for item in items:
        marker = item.get_closest_marker('once')
        if name and marker and marker.args[0] != name:
            item.add_marker(pytest.mark.skip(reason=f'runs with the {marker.args[0]} TensorFlow'))


@pytest.fixture
def clean_gin():
    """Leaves gin's configuration, which is global, empty for the next test."""
    gin.clear_config()
    yield
    gin.clear_config()  # also unlocks it: else a test that follows could not import a module with configurables


@pytest.fixture
def job(monkeypatch):
    """A `lifecycle_job.Job` in which all waits are short."""
    from estimator_trainer import lifecycle
    from tests.lifecycle_job import Job

    monkeypatch.setattr(lifecycle, '_POLL_SECONDS', 0.01)
    monkeypatch.setattr(lifecycle, '_HEARTBEAT_SECONDS', 0.02)
    monkeypatch.setattr(lifecycle, '_SAME_SIGNAL_SECONDS', 0.0)
    made = Job(monkeypatch)
    yield made
    made.lifecycle.close()


@pytest.fixture
def user_project(tmp_path):
    """A directory with what a user writes: my_model.py and the six-line my.gin of README."""
    (tmp_path / 'my_model.py').write_text(MY_MODEL)
    (tmp_path / 'my.gin').write_text(MY_GIN)
    return tmp_path


MY_MODEL = """
import gin
import tensorflow as tf


@gin.configurable
def my_model_fn(features, labels, mode, optimizer=None):
    hidden = tf.compat.v1.layers.dense(features['x'], 8, activation=tf.nn.relu)
    logits = tf.compat.v1.layers.dense(hidden, 1)[:, 0]
    loss = tf.compat.v1.losses.sigmoid_cross_entropy(labels, logits)
    step = tf.compat.v1.train.get_global_step()
    train_op = (optimizer or tf.compat.v1.train.AdamOptimizer(0.05)).minimize(loss, step)
    metrics = {'accuracy': tf.compat.v1.metrics.accuracy(labels, tf.cast(logits > 0, tf.float32))}
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


@gin.configurable
def my_input_fn(repeat=True, batch_size=8):
    x = tf.random.stateless_uniform([60, 2], [1, 2], -1.0, 1.0)
    labels = tf.cast(x[:, 0] + x[:, 1] > 0, tf.float32)
    dataset = tf.data.Dataset.from_tensor_slices(({'x': x}, labels))
    return (dataset.shuffle(60).repeat() if repeat else dataset).batch(batch_size)
"""

MY_GIN = """\
import my_model
experiment.model_fn = @my_model_fn
experiment.train_input_fn = @my_input_fn
experiment.eval_input_fn = @eval/my_input_fn
eval/my_input_fn.repeat = False
experiment.max_steps = 200
"""
