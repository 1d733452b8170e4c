"""A model whose predictions can be worked out by hand, and its input; copied into the directory of a test."""

import os
import signal
import time

import gin
import tensorflow as tf

v1 = tf.compat.v1


@gin.configurable
def line_model_fn(features, labels, mode, learning_rate=0.1):
    w = v1.get_variable('w', [2])
    b = v1.get_variable('b', initializer=0.5)
    y = tf.linalg.matvec(features['x'], w) + b
    if mode == tf.estimator.ModeKeys.PREDICT:
        parity = tf.gather(tf.constant(['even', 'odd']), features['number'] % 2)
        predictions = {'number': features['number'], 'y': y, 'twice': tf.stack([y, 2 * y], 1), 'parity': parity}
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)
    loss = v1.losses.mean_squared_error(labels, y)
    train_op = v1.train.GradientDescentOptimizer(learning_rate).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@gin.configurable
def numbers_input_fn(examples=21, batch_size=8, repeat=False, at=None, then=None):
    """Counts, and calls `then` when the example number `at` is read."""

    def look(number):
        if number == at:
            then()
        return number

    def example(number):
        share = tf.cast(number, tf.float32) / 20.0
        x = tf.stack([share, 1.0 - share])
        return {'number': number, 'x': x}, 3.0 * share

    numbers = tf.data.Dataset.range(examples)
    if then is not None:
        numbers = numbers.map(lambda number: tf.ensure_shape(tf.numpy_function(look, [number], tf.int64), []))
    numbers = numbers.map(example)
    return (numbers.repeat() if repeat else numbers).batch(batch_size)


@gin.configurable
def fail():
    raise ValueError('no such row')


@gin.configurable
def terminate():
    os.kill(os.getpid(), signal.SIGTERM)


@gin.configurable
def terminate_and_hang():
    terminate()
    time.sleep(1000)


@gin.configurable
class FailAtOnce(v1.train.SessionRunHook):
    """Fails when the session is there, before the first step."""

    def before_run(self, run_context):
        fail()


@gin.configurable
def line_receiver_fn():
    """Takes `shares` alone, as text."""
    shares = v1.placeholder(tf.string, [None])
    share = tf.strings.to_number(shares)
    features = {'number': tf.zeros_like(share, tf.int64), 'x': tf.stack([share, 1.0 - share], 1)}
    return tf.estimator.export.ServingInputReceiver(features, {'shares': shares})


LINE_GIN = """\
import line_module
experiment.model_fn = @line_model_fn
experiment.train_input_fn = @train/numbers_input_fn
experiment.eval_input_fn = @eval/numbers_input_fn
experiment.predict_input_fn = @predict/numbers_input_fn
train/numbers_input_fn.repeat = True
eval/numbers_input_fn.examples = 12
experiment.max_steps = 30
RunConfig.save_checkpoints_steps = 10
"""
