"""What all models of images do with their input."""

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from model_fns.inputs import column


def pixels(
    features: dict[str, tf.Tensor], height: int | None, width: int | None, channels: int, model: str
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the images, float32 [batch, height, width, channels], and int32 [], how many of them there are.

    For a batch without examples it is a black image, of which the model is to leave out what it makes: oneDNN's
    convolutions (TensorFlow 2.15 to 2.21) fail for none. Evaluations on several replicas have such batches.

    Args:
        features: `image`, [batch, height, width, channels], or one column a pixel, `pixel_0` ... [batch], row by row
            with the channels innermost.
        height, width: rows and columns of an image; None for those of `image`.
        channels: values of one pixel.
        model: whose bindings an error names.

    Raises:
        UserError: a pixel is not among the features, or the size of an image is not known.
    """
    net = _given(features, height, width, channels, model)
    count = tf.shape(net)[0]
    return tf.pad(net, [[0, tf.cast(tf.equal(count, 0), tf.int32)], [0, 0], [0, 0], [0, 0]]), count


def _given(
    features: dict[str, tf.Tensor], height: int | None, width: int | None, channels: int, model: str
) -> tf.Tensor:
    if 'image' in features and height is None and width is None:
        image = features['image']
        if image.shape.rank != 4 or not image.shape[1:].is_fully_defined():
            raise UserError(
                f'{model}: the feature image has the shape {image.shape}; expected [batch, height, width, channels] '
                f'of a known size, or {model}.height and width'
            )
        return tf.cast(image, tf.float32)
    binding = f'{model}.height, width and channels'
    if height is None or width is None:
        raise UserError(f'{binding}: height {height}, width {width}; expected both, or a feature image')
    if 'image' in features:
        net = features['image']
    else:
        names = [f'pixel_{i}' for i in range(height * width * channels)]
        net = tf.stack([column(features, name, binding) for name in names], axis=1)
    return tf.reshape(tf.cast(net, tf.float32), [-1, height, width, channels])


def shifted(images: tf.Tensor, max_shift: int) -> tf.Tensor:
    """Returns each image moved by its own random number of pixels, up to `max_shift`, along either axis."""
    moved = tf.pad(images, [[0, 0], [max_shift, max_shift], [max_shift, max_shift], [0, 0]])
    for axis, size in ((1, images.shape[1]), (2, images.shape[2])):
        first = tf.random.uniform([tf.shape(images)[0], 1], maxval=2 * max_shift + 1, dtype=tf.int32)
        moved = tf.gather(moved, first + tf.range(size), axis=axis, batch_dims=1)
    return moved
