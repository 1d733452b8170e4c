"""Classifiers of small images: convolutions, one pooling, fully connected layers."""

from collections.abc import Sequence
from typing import Any

import gin

from estimator_trainer.compat import tf
from model_fns import images, training
from model_fns.heads import MultiClassHead
from model_fns.layers import convolution, dense, drop


@gin.configurable
def conv_model_fn(
    features: dict[str, tf.Tensor],
    labels: tf.Tensor | None,
    mode: str,
    params: dict | None = None,
    height: int = gin.REQUIRED,
    width: int = gin.REQUIRED,
    channels: int = 1,
    n_classes: int = gin.REQUIRED,
    max_value: float = 255.0,
    filters: Sequence[int] = (32, 64),
    hidden_units: Sequence[int] = (128,),
    dropout: float = 0.0,
    max_shift: int = 0,
    learning_rate: float = 0.001,
    decay_steps: int | None = None,
    label_vocabulary: Sequence[str] | None = None,
    optimizer: Any = None,
) -> tf.estimator.EstimatorSpec:
    """Classifies images by rectified 3x3 convolutions, 2x2 max pooling and rectified linear layers.

    Args:
        features: `image`, [batch, height, width, channels], or one column a pixel, `pixel_0` ... [batch], row by row
            with the channels innermost.
        labels: Class numbers, int32 [batch]; None in PREDICT mode.
        mode: A `tf.estimator.ModeKeys`.
        params: Part of Estimator's signature; not used, since Gin configures this model.
        height: Rows of an image, in pixels.
        width: Columns of an image, in pixels.
        channels: Values of one pixel.
        n_classes: Number of classes.
        max_value: The largest value of a pixel, whose least is 0.
        filters: Width of each convolution.
        hidden_units: Width of each fully connected layer.
        dropout: Share of the inputs of each fully connected layer, the last included, set to 0 in training.
        max_shift: Pixels by which training images are shifted at random, at most, along either axis.
        learning_rate: Adam's step size (default: that of Kingma & Ba, 2015, section 2).
        decay_steps: Step at which the learning rate, falling along a half cosine, reaches the 20th of `learning_rate`
            at which it then stays, so that training further still learns; None keeps it constant.
        label_vocabulary: The classes' names, in class order, to predict names as well as numbers.
        optimizer: What trains instead of Adam, as in `training.of_parameters`, e.g. `@sync_replicas()`.

    Returns:
        The spec of a `heads.MultiClassHead`.

    Raises:
        UserError: A pixel of the image is not among the features.
    """
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    net, count = images.pixels(features, height, width, channels, 'conv_model_fn')
    net /= max_value
    if is_training and max_shift:
        net = images.shifted(net, max_shift)
    for i, depth in enumerate(filters):
        net = tf.nn.relu(convolution(net, depth, 3, f'convolution_{i}'))
    net = tf.nn.max_pool2d(net, ksize=2, strides=2, padding='SAME')
    net = tf.reshape(net, [-1, net.shape[1] * net.shape[2] * net.shape[3]])
    for i, units in enumerate(hidden_units):
        net = drop(net, dropout, is_training)
        net = tf.nn.relu(dense(net, units, f'hidden_{i}'))
    logits = dense(drop(net, dropout, is_training), n_classes, 'logits')[:count]
    train = training.of_parameters(learning_rate, decay_steps, optimizer)
    return MultiClassHead(n_classes, label_vocabulary).spec(mode, logits, labels, train)
