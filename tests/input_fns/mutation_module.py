"""A small model of any features that `feature_description` can describe, and images; copied beside test files."""

import os

import gin
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


@gin.configurable
def mutation_model_fn(features, labels, mode):
    parts = []
    for value in features.values():
        number = tf.strings.length(value) if value.dtype == tf.string else value
        number = tf.reshape(tf.cast(number, tf.float32), [tf.shape(number)[0], -1])
        parts.append(tf.tanh(tf.reduce_mean(number, axis=1)))
    weight = v1.get_variable('weight', [], initializer=v1.zeros_initializer())
    y = weight * tf.add_n(parts)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={'y': y})
    loss = tf.reduce_mean(tf.square(y - tf.tanh(tf.cast(labels, tf.float32))))
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@gin.configurable
class Once(v1.train.SessionRunHook):
    """Before the training session is made, removes a file, or puts another one in its place."""

    def __init__(self, path, by=None):
        self._path, self._by = path, by

    def begin(self):
        if self._by is None:
            os.remove(self._path)
        else:
            os.rename(self._by, self._path)


class Frame:
    """As little of a pandas.DataFrame as is asked for."""

    def __init__(self, columns):
        self._columns = columns

    def keys(self):
        return list(self._columns)

    def __getitem__(self, name):
        return self._columns[name]


class NAType:
    """pandas.NA, which is neither like nor unlike anything."""

    def __eq__(self, other):
        return self

    __ne__ = __eq__

    def __bool__(self):
        raise TypeError('boolean value of NA is ambiguous')

    __hash__ = object.__hash__


@gin.configurable
def odd_columns(column=None, value=None, frame=False):
    """Seven rows, of which a column is other than that of the good file."""
    columns = {
        'price': np.arange(7.0),
        'mass': np.arange(7) + 0.5,
        'size': np.ones([7, 2], np.float32),
        'age': np.arange(7, dtype=np.int16),
        'kind': ['wild', 'tame', 'wild', 'tame', 'wild', 'tame', b'tame'],
    }
    if column is not None:
        columns[column] = eval(value, {'np': np, 'NA': NAType(), 'good': columns[column]})
    return Frame(columns) if frame else columns
