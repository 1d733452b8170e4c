"""The layers of the models here, on `tf.compat.v1.get_variable`.

Not `tf.compat.v1.layers`: those warn of their end at each call, and draw initial values from Keras's generator, which
`RunConfig.tf_random_seed` alone does not seed.
"""

from collections.abc import Sequence

from estimator_trainer.compat import tf
from model_fns import replicas

_v1 = tf.compat.v1


def dense(inputs: tf.Tensor, units: int, name: str, bias: bool = True) -> tf.Tensor:
    """Returns a linear map of [..., columns] inputs, [..., units]; weights start Glorot-uniform, biases at 0."""
    with _v1.variable_scope(name):
        kernel = _v1.get_variable('kernel', [inputs.shape[-1], units])
        # tf.matmul would map the rows of more than two dimensions example by example.
        net = tf.matmul(inputs, kernel) if inputs.shape.rank == 2 else tf.tensordot(inputs, kernel, 1)
        return net + _v1.get_variable('bias', [units], initializer=_v1.zeros_initializer()) if bias else net


def hidden(inputs: tf.Tensor, units: Sequence[int], dropout: float = 0.0, training: bool = False) -> tf.Tensor:
    """Returns what rectified linear layers of so many units make of [batch, columns] inputs.

    Args:
        inputs: float32 [batch, columns].
        units: width of each layer, `hidden_0` and so on.
        dropout: share of the outputs of each layer set to 0 in training (Srivastava et al., 2014).
        training: whether it is.
    """
    for i, width in enumerate(units):
        inputs = drop(tf.nn.relu(dense(inputs, width, f'hidden_{i}')), dropout, training)
    return inputs


def drop(net: tf.Tensor, rate: float, training: bool) -> tf.Tensor:
    """Returns `net`, with a share of its values set to 0, and the others scaled up for them, in training."""
    return tf.nn.dropout(net, rate) if training and rate else net


def convolution(images: tf.Tensor, filters: int, size: int, name: str, stride: int = 1, bias: bool = True) -> tf.Tensor:
    """Returns a size x size convolution of [batch, height, width, channels] images, [batch, height, width, filters]."""
    with _v1.variable_scope(name):
        kernel = _v1.get_variable('kernel', [size, size, images.shape[-1], filters])
        net = tf.nn.conv2d(images, kernel, strides=stride, padding='SAME')
        return net + _v1.get_variable('bias', [filters], initializer=_v1.zeros_initializer()) if bias else net


def batch_normalization(
    net: tf.Tensor, training: bool, name: str, momentum: float = 0.9, epsilon: float = 1e-5, scale_from: float = 1.0
) -> tf.Tensor:
    """Returns [..., channels] values normalised over all but their channels (Ioffe & Szegedy, 2015, algorithm 1).

    In training mean and variance are those of the batches of all replicas, so two replicas train as one device does.
    Their moving averages, which stand for them else, are moved by ops in the UPDATE_OPS collection: `training.minimize`
    runs those.

    Args:
        net: float32 [..., channels].
        training: whether it is.
        name: of the scope of its variables.
        momentum: share of a moving average that a step leaves as it is.
        epsilon: added to the variance.
        scale_from: the value at which the scale starts.
    """
    channels = [net.shape[-1]]
    with _v1.variable_scope(name):
        scale = _v1.get_variable('scale', channels, initializer=_v1.constant_initializer(scale_from))
        offset = _v1.get_variable('offset', channels, initializer=_v1.zeros_initializer())
        # Each replica would move its own: they move by the same, and a checkpoint has the mean.
        own = {
            'trainable': False,
            'synchronization': tf.VariableSynchronization.ON_READ,
            'aggregation': tf.VariableAggregation.MEAN,
        }
        moving_mean = _v1.get_variable('moving_mean', channels, initializer=_v1.zeros_initializer(), **own)
        moving_variance = _v1.get_variable('moving_variance', channels, initializer=_v1.ones_initializer(), **own)
        if training:
            mean, variance = _moments(net)
            for moving, value in ((moving_mean, mean), (moving_variance, variance)):
                update = moving.assign_sub((1 - momentum) * (moving - value))
                _v1.add_to_collection(_v1.GraphKeys.UPDATE_OPS, update)
        else:
            mean, variance = tf.convert_to_tensor(moving_mean), tf.convert_to_tensor(moving_variance)
        return tf.nn.batch_normalization(net, mean, variance, offset, scale, epsilon)


def _moments(net: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the mean and variance of each channel over the batches of all replicas, 0 without examples."""
    mean = _mean_of_replicas(net)
    # Two rounds: the mean of squares less the square of the mean loses the digits of a small variance.
    return mean, _mean_of_replicas(tf.math.squared_difference(net, mean))


def _mean_of_replicas(net: tf.Tensor) -> tf.Tensor:
    total = tf.reduce_sum(net, list(range(net.shape.rank - 1)))
    count = tf.cast(tf.size(net) // net.shape[-1], tf.float32)
    (count,) = replicas.summed([count])
    return replicas.differentiable_sum(total) / tf.maximum(count, 1.0)


def layer_normalization(net: tf.Tensor, name: str, epsilon: float = 1e-6) -> tf.Tensor:
    """Returns [..., columns] values normalised over their columns (Ba et al., 2016, equation 4)."""
    with _v1.variable_scope(name):
        scale = _v1.get_variable('scale', [net.shape[-1]], initializer=_v1.ones_initializer())
        offset = _v1.get_variable('offset', [net.shape[-1]], initializer=_v1.zeros_initializer())
    mean, variance = tf.nn.moments(net, [-1], keepdims=True)
    return tf.nn.batch_normalization(net, mean, variance, offset, scale, epsilon)
