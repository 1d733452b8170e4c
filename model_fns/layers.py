"""The two layers of the models here, on `tf.compat.v1.get_variable`.

Not `tf.compat.v1.layers`: those warn of their end at each call, and draw initial values from Keras's generator, which
`RunConfig.tf_random_seed` alone does not seed.
"""

from estimator_trainer.compat import tf


def dense(inputs: tf.Tensor, units: int, name: str) -> tf.Tensor:
    """Returns a linear map of [batch, columns] inputs, [batch, units]; weights start Glorot-uniform, biases at 0."""
    with tf.compat.v1.variable_scope(name):
        kernel = tf.compat.v1.get_variable('kernel', [inputs.shape[-1], units])
        bias = tf.compat.v1.get_variable('bias', [units], initializer=tf.compat.v1.zeros_initializer())
    return tf.matmul(inputs, kernel) + bias


def convolution(images: tf.Tensor, filters: int, size: int, name: str) -> tf.Tensor:
    """Returns a size x size convolution of [batch, height, width, channels] images, [batch, height, width, filters]."""
    with tf.compat.v1.variable_scope(name):
        kernel = tf.compat.v1.get_variable('kernel', [size, size, images.shape[-1], filters])
        bias = tf.compat.v1.get_variable('bias', [filters], initializer=tf.compat.v1.zeros_initializer())
    return tf.nn.conv2d(images, kernel, strides=1, padding='SAME') + bias
