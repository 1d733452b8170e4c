"""Model_fns, input_fns and hooks as users write them, well or badly; copied into the directory of a test."""

import os

import gin
import my_model
import tensorflow as tf

from estimator_trainer.errors import UserError


@gin.configurable
def finite_input_fn(examples):
    return my_model.my_input_fn(repeat=False).unbatch().take(examples).batch(8)


@gin.configurable
def broken_model_fn(features, labels, mode):
    raise KeyError('no such column')


@gin.configurable
def image_model_fn(features, labels, mode):
    spec = my_model.my_model_fn(features, labels, mode)
    image = tf.compat.v1.summary.image('image', tf.zeros([1, 4, 4, 1])), tf.no_op()
    vector = tf.compat.v1.metrics.mean_tensor(features['x'][0])
    return spec._replace(eval_metric_ops={**spec.eval_metric_ops, 'image': image, 'vector': vector})


@gin.configurable
def scalar_input_fn():
    return tf.data.Dataset.from_tensors(({'x': 1.0}, 2.0)).repeat(5)


@gin.configurable
def scalar_model_fn(features, labels, mode):
    w = tf.compat.v1.get_variable('w', [])
    step = tf.compat.v1.train.get_global_step()
    loss = tf.square(w * features['x'] - labels)
    train_op = tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@gin.configurable
def still_model_fn(features, labels, mode):
    spec = my_model.my_model_fn(features, labels, mode)
    return spec._replace(train_op=tf.no_op())


@gin.configurable
def exiting_model_fn(features, labels, mode):
    raise SystemExit(0)


_calls = []


@gin.configurable
def late_model_fn(features, labels, mode, raises, fails):
    """Raises in `mode` when its graph is built for the second time: the first time nothing has been written yet."""
    _calls.append(mode)
    if mode == fails and _calls.count(mode) > 1:
        raise raises
    return my_model.my_model_fn(features, labels, mode)


@gin.configurable
def mistake():
    return UserError('a mistake that shows late')


@gin.configurable
def failure():
    return KeyError('no such column')


@gin.configurable
def exit_0():
    return SystemExit(0)


@gin.configurable
def any_model_fn(features, **others):
    return my_model.my_model_fn(features, others['labels'], others['mode'])


@gin.configurable
def unknown_rank_input_fn():
    def batch():
        for _ in range(3):
            yield [0.0], [[1.0, 2.0]] * 4, [1.0] * 4

    def named(odd, x, labels):
        return {'a_scalar': odd[0], 'odd': odd, 'x': tf.ensure_shape(x, [None, 2])}, labels

    return tf.data.Dataset.from_generator(batch, (tf.float32, tf.float32, tf.float32)).map(named)


@gin.configurable
def stop_early(estimator):
    return tf.estimator.experimental.stop_if_lower_hook(estimator, 'loss', 1e9, run_every_secs=None, run_every_steps=1)


@gin.configurable
class StopAt(tf.compat.v1.train.SessionRunHook):
    def __init__(self, runs):
        self._left = runs

    def after_run(self, run_context, run_values):
        self._left -= 1
        if not self._left:
            run_context.request_stop()


@gin.configurable
def static_input_fn():
    return my_model.my_input_fn(repeat=False).unbatch().batch(7, drop_remainder=True)


@gin.configurable
def missing_file_input_fn(path):
    lines = tf.data.TextLineDataset(path)
    return lines.map(lambda line: ({'x': tf.zeros([2])}, tf.strings.to_number(line))).batch(8)


@gin.configurable
def moving_input_fn():
    os.makedirs('elsewhere', exist_ok=True)
    os.chdir('elsewhere')
    return my_model.my_input_fn()


@gin.configurable
def my_keras_model(units=8):
    x = tf.keras.Input([2], name='x')
    hidden = tf.keras.layers.Dense(units, activation='relu')(x)
    model = tf.keras.Model(x, tf.keras.layers.Dense(1, activation='sigmoid')(hidden))
    model.compile('adam', 'binary_crossentropy', metrics=['accuracy'])
    return model
