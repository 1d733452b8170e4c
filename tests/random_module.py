"""A model and an input that draw from every generator there is; copied into the directory of a test."""

import random

import gin
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


@gin.configurable
def random_model_fn(features, labels, mode):
    x = features['x']
    v1.get_variable('python', initializer=random.random(), trainable=False)
    v1.get_variable('numpy', initializer=np.random.rand(3).astype(np.float32), trainable=False)
    keras = v1.get_variable('keras', [2, 4], initializer=tf.keras.initializers.GlorotUniform())
    drawn = v1.get_variable('drawn', initializer=tf.zeros([4]), trainable=False)
    hidden = tf.nn.dropout(v1.layers.dense(x @ keras, 4, name='layers'), 0.5)
    logits = v1.layers.dense(hidden, 1, name='logits')[:, 0]
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={'logits': logits})
    loss = v1.losses.sigmoid_cross_entropy(labels, logits)
    step = v1.train.get_global_step()
    with tf.control_dependencies([drawn.assign_add(tf.random.normal([4])), drawn.assign_add(tf.random.uniform([4]))]):
        train_op = v1.train.AdamOptimizer(0.05).minimize(loss, step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@gin.configurable
def random_input_fn():
    """Draws its data while the graph is built, and an order while it is read."""
    x = np.random.uniform(-1, 1, [40, 2]).astype(np.float32) * random.uniform(0.5, 1.0)
    labels = (x.sum(axis=1) > 0).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices(({'x': x}, labels)).shuffle(40).repeat().batch(8)
