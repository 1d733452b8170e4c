"""A model that goes wrong at a step that is known beforehand, and hooks that do; copied into the directory of a test.

The batch of step n holds the number n, or several of one step where there are several replicas.
"""

import os

import gin
import tensorflow as tf

v1 = tf.compat.v1


@gin.configurable
def going_input_fn(fails_at=None, num_input_pipelines=1, input_pipeline_id=0):
    """Counts from 1, each task its share; fails instead of the number `fails_at` unless there is a file `mended`."""

    def look(number):
        if number == fails_at and not os.path.exists('mended'):
            raise ValueError('no such record')
        return number

    numbers = tf.data.Dataset.range(1, 1001).shard(num_input_pipelines, input_pipeline_id)
    if fails_at is not None:
        numbers = numbers.map(lambda number: tf.ensure_shape(tf.numpy_function(look, [number], tf.int64), []))
    return numbers.map(lambda number: ({'number': number}, tf.cast(number % 5, tf.float32))).batch(1)


@gin.configurable
def infinite():
    return float('inf')


@gin.configurable
def going_model_fn(
    features,
    labels,
    mode,
    loss_at=(),
    loss=float('nan'),
    learns=True,
    weights_at=(),
    check_at=(),
    assert_at=(),
    eval_loss=1.0,
    optimizer=None,
):
    """Fails at numbers of the input.

    Args:
        features, labels, mode: as ever.
        loss_at: where the loss is not finite.
        loss: what it is multiplied with there.
        learns: whether a step changes the weights.
        weights_at: where a weight becomes infinite.
        check_at: where an op fails that what changes the weights needs.
        assert_at: where an op fails that a step needs besides what changes the weights.
        eval_loss: what the loss of an evaluation is multiplied with.
        optimizer: other than the one with momentum.
    """
    number = features['number']
    with tf.control_dependencies([tf.debugging.Assert(~_among(number, check_at), ['a number to check'])]):
        x = tf.cast(number, tf.float32)[:, None] / 10
    outputs = v1.layers.dense(v1.layers.dense(x, 3, name='first'), 1, name='second')[:, 0]
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=outputs)
    total = tf.identity(v1.losses.mean_squared_error(labels, outputs), 'my_loss')
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=total * eval_loss)
    total *= tf.where(_among(number, loss_at), loss, 1.0)
    steep = tf.where(_among(number, weights_at), float('inf'), 0.0)
    total = tf.add(total, _flat(v1.trainable_variables()[-1], steep), 'my_total')
    optimizer = optimizer or v1.train.MomentumOptimizer(0.01, 0.5)
    train_op = optimizer.minimize(total, v1.train.get_global_step())
    if not learns:
        train_op = v1.assign_add(v1.train.get_global_step(), 1)
    if assert_at:
        # Not needed by what changes the variables, so they may be changed when it fails.
        with tf.control_dependencies([train_op]):
            train_op = tf.group(tf.debugging.Assert(~_among(number, assert_at), ['a wrong number']))
    return tf.estimator.EstimatorSpec(mode, loss=total, train_op=train_op)


@tf.custom_gradient
def _flat(variable, slope):
    """Returns 0, whose gradient with respect to the variable is said to be `slope`."""
    return tf.zeros([]), lambda _: (tf.fill(variable.shape, slope), None)


def _among(number, numbers):
    return tf.reduce_any(tf.equal(number, tf.constant(list(numbers), tf.int64)))


@gin.configurable
class FailingHook(v1.train.SessionRunHook):
    """Raises an error in the step `at`, before or after it is made; makes a directory in the place of a file first."""

    def __init__(self, at, before=False, directory=None, error=None):
        self._left, self._before, self._directory = at, before, directory
        self._error = error or KeyError('no such hook')

    def before_run(self, run_context):
        self._left -= 1
        if self._before:
            self._fail()

    def after_run(self, run_context, run_values):
        self._fail()

    def _fail(self):
        if not self._left:
            if self._directory:
                os.makedirs(os.path.join(self._directory, 'within'))
            raise self._error


@gin.configurable
def unavailable():
    return tf.errors.UnavailableError(None, None, 'no such peer')


@gin.configurable
def nan_hook(estimator):
    """The hook that users take: it looks at a tensor by name."""
    return v1.train.NanTensorHook('my_total:0')


GOING_GIN = """\
import finite_module
experiment.model_fn = @going_model_fn
experiment.train_input_fn = @going_input_fn
experiment.eval_input_fn = @eval/going_input_fn
experiment.eval_steps = 2
experiment.max_steps = 12
RunConfig.tf_random_seed = 3
RunConfig.keep_checkpoint_max = 20
"""
