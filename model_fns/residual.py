"""Classifiers of images: residual networks."""

from collections.abc import Sequence

import gin

from estimator_trainer.compat import tf
from model_fns import heads, images, inputs, training
from model_fns.layers import batch_normalization, convolution, dense

_v1 = tf.compat.v1


@gin.configurable
def residual_model_fn(
    features: dict[str, tf.Tensor],
    labels: tf.Tensor | None,
    mode: str,
    height: int | None = None,
    width: int | None = None,
    channels: int = 1,
    n_classes: int | None = None,
    max_value: float = 255.0,
    filters: Sequence[int] = (16, 32, 64),
    blocks: int = 1,
    max_shift: int = 0,
) -> tf.estimator.EstimatorSpec:
    """Predicts from images by the residual network of He et al., 2016, section 4.2, for small images.

    A 3x3 convolution, then stages of blocks of two, each followed by batch normalisation; the first block of each stage
    but the first halves height and width. What a block is given is added to what it makes, by way of a 1x1 convolution
    where the sizes differ (their option B). At last the mean over the image, and a linear layer.

    Args:
        features: `image`, [batch, height, width, channels], or one column a pixel, `pixel_0` ... [batch], row by row
            with the channels innermost.
        labels: Classes, int32 [batch], or numbers; None in PREDICT mode.
        mode: A `tf.estimator.ModeKeys`.
        height: Rows of an image, in pixels; None for those of `image`.
        width: Columns of an image, in pixels; None for those of `image`.
        channels: Values of one pixel, where height and width are given.
        n_classes: Number of classes; None for the label of `feature_description`.
        max_value: The largest value of a pixel, whose least is 0.
        filters: Width of each stage.
        blocks: Number of blocks of each stage: the network has 2 * stages * blocks + 2 layers.
        max_shift: Pixels by which training images are shifted at random, at most, along either axis.

    Returns:
        The spec of the head for the label, see `heads.head_of`.

    Raises:
        UserError: A pixel of the image is not among the features, or nothing is said of the label.
    """
    name = 'residual_model_fn'
    if n_classes is None:
        head = heads.head_of(inputs.description_for(name, features=False))
    else:
        head = heads.MultiClassHead(n_classes)
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    net, count = images.pixels(features, height, width, channels, name)
    net /= max_value
    if is_training and max_shift:
        net = images.shifted(net, max_shift)
    # He et al., 2015, equation 10: what rectified layers are given keeps its variance.
    initializer = _v1.variance_scaling_initializer(scale=2.0, distribution='untruncated_normal')
    with _v1.variable_scope('residual', initializer=initializer):
        net = tf.nn.relu(_normalised(net, filters[0], 3, 1, is_training, 'first'))
        for stage, depth in enumerate(filters):
            for block in range(blocks):
                stride = 2 if stage and not block else 1
                net = _block(net, depth, stride, is_training, f'stage_{stage}_block_{block}')
    logits = dense(tf.reduce_mean(net, axis=[1, 2]), head.size, 'logits')[:count]
    # Batch normalisation has put its updates into UPDATE_OPS, and `minimize` runs them.
    return head.spec(mode, logits, labels, training.minimize)


def _block(net: tf.Tensor, filters: int, stride: int, is_training: bool, name: str) -> tf.Tensor:
    with _v1.variable_scope(name):
        made = tf.nn.relu(_normalised(net, filters, 3, stride, is_training, 'a'))
        made = _normalised(made, filters, 3, 1, is_training, 'b')
        if stride > 1 or net.shape[-1] != filters:
            net = _normalised(net, filters, 1, stride, is_training, 'shortcut')
        return tf.nn.relu(net + made)


def _normalised(net: tf.Tensor, filters: int, size: int, stride: int, is_training: bool, name: str) -> tf.Tensor:
    # No bias: the normalisation would take it off, and has an offset of its own.
    net = convolution(net, filters, size, name, stride, bias=False)
    return batch_normalization(net, is_training, f'{name}_normalised')
