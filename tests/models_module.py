"""Models as users hand them over, well or badly; copied into the directory of a test."""

import gin
import my_model
import numpy as np
import tensorflow as tf


def columns():
    return [tf.feature_column.numeric_column('x', [2])]


@gin.configurable
def linear(config, warm_start_from=None):
    return tf.estimator.LinearClassifier(columns(), config=config, warm_start_from=warm_start_from)


@gin.configurable
def own_estimator(config, params=None):
    def model_fn(features, labels, mode):  # Estimator does not see what a configurable takes.
        return my_model.my_model_fn(features, labels, mode)

    return tf.estimator.Estimator(model_fn, config=config)


@gin.configurable
def without_config():
    return tf.estimator.LinearClassifier(columns())


@gin.configurable
def no_estimator(config):
    return 'an estimator'


@gin.configurable
class NoEstimator:
    def __init__(self, config):
        pass


@gin.configurable
def weighted_keras_model():
    """A model whose first weights are not what its initialisers would draw."""
    x = tf.keras.Input([2], name='x')
    model = tf.keras.Model(x, tf.keras.layers.Dense(1, activation='sigmoid')(x))
    model.set_weights([np.array([[0.25], [-4.0]], np.float32), np.array([8.0], np.float32)])
    model.compile('sgd', 'binary_crossentropy')
    return model


@gin.configurable
def uncompiled_keras_model():
    x = tf.keras.Input([2], name='x')
    return tf.keras.Model(x, tf.keras.layers.Dense(1)(x))


@gin.configurable
def keras_3_model():
    import keras

    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
    model.compile('sgd', 'mse')
    return model


@gin.configurable
def no_keras_model():
    return None


@gin.configurable
class KerasModel(tf.keras.Model):
    pass
