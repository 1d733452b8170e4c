"""conv_model_fn: what it takes, what only training does, and that it learns."""

import numpy as np
import pytest

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from model_fns.convolutional import conv_model_fn
from model_fns.images import shifted
from model_fns.residual import residual_model_fn
from tests.model_fns import harness

SMALL = {'n_classes': 2, 'filters': [4], 'hidden_units': [8], 'max_value': 1.0}


def bars(count=64, size=5):
    """Returns images [count, size, size, 1] of a bar across (label 0) or upright (label 1), and their labels."""
    random = np.random.default_rng(1)
    labels = np.arange(count) % 2
    images = random.uniform(0, 0.3, (count, size, size))
    for image, label, place in zip(images, labels, random.integers(0, size, count), strict=True):
        (image.T if label else image)[place] += 0.7
    return images[..., np.newaxis], labels


def columns(images):
    """Returns the images as a column for each pixel, from last to first: the names count, not the order."""
    flat = images.reshape(len(images), -1)
    return {f'pixel_{i}': flat[:, i] for i in reversed(range(flat.shape[1]))}


@pytest.mark.parametrize(('height', 'width', 'channels'), [(5, 5, 1), (3, 4, 2), (1, 1, 3)])
def test_columns_and_image_are_the_same(height, width, channels):
    images = np.random.default_rng(1).uniform(0, 1, (6, height, width, channels))
    shape = {'height': height, 'width': width, 'channels': channels}
    of_columns = harness.run(conv_model_fn, columns(images), **shape, **SMALL)
    of_images = harness.run(conv_model_fn, {'image': images}, **shape, **SMALL)
    assert of_columns['probabilities'].shape == (6, 2)
    np.testing.assert_array_equal(of_columns['probabilities'], of_images['probabilities'])


def test_pixels_are_divided_by_their_largest_value():
    images, _ = bars()
    want = harness.run(conv_model_fn, {'image': images}, height=5, width=5, **SMALL)
    got = harness.run(conv_model_fn, {'image': images * 16}, height=5, width=5, **{**SMALL, 'max_value': 16.0})
    np.testing.assert_allclose(got['probabilities'], want['probabilities'], rtol=1e-4)


@pytest.mark.parametrize(
    ('mode', 'arguments', 'want_same'),
    [
        ('train', {}, True),
        ('train', {'dropout': 0.5}, False),
        ('train', {'max_shift': 1}, False),
        ('eval', {'dropout': 0.5, 'max_shift': 1}, True),
    ],
)
def test_only_training_is_random(mode, arguments, want_same):
    images, labels = bars()
    shared = {'labels': labels, 'fetch': lambda spec: spec.loss, 'height': 5, 'width': 5, **SMALL}
    # Given, since the draws of training would change the initial ones of the layers after them.
    shapes = {'convolution_0': (3, 3, 1, 4), 'hidden_0': (3 * 3 * 4, 8), 'logits': (8, 2)}
    shared['values'] = {
        f'{name}/kernel': np.cos(np.arange(np.prod(shape))).reshape(shape) for name, shape in shapes.items()
    }
    plain = harness.run(conv_model_fn, {'image': images}, mode='eval', **shared)
    got = harness.run(conv_model_fn, {'image': images}, mode=mode, **shared, **arguments)
    assert np.isclose(got, plain, rtol=1e-5) == want_same


@pytest.mark.parametrize('mode', ['train', 'eval', 'infer'])
@pytest.mark.parametrize('model_fn', [conv_model_fn, residual_model_fn], ids=lambda it: it.__name__)
def test_a_batch_without_examples(model_fn, mode):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        image = tf.compat.v1.placeholder(tf.float32, [None, 5, 5, 1])
        labels = None if mode == 'infer' else tf.zeros(tf.shape(image)[:1], tf.int32)
        arguments = {'height': 5, 'width': 5, 'n_classes': 2, 'filters': [4, 8], 'max_shift': 1}
        spec = model_fn({'image': image}, labels, mode, **arguments)
        harness.initialise(session)
        found = session.run([spec.predictions or spec.loss, spec.train_op or ()], {image: np.zeros([0, 5, 5, 1])})[0]
    if mode == 'infer':
        assert (found['probabilities'].shape, found['class_ids'].shape) == ((0, 2), (0,))
    else:
        assert found == 0


def test_shift_moves_each_image_by_its_own_distance():
    images = np.zeros((500, 5, 7, 1), np.float32)
    images[:, 2, 3] = 1
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(1)
        moved = session.run(shifted(tf.constant(images), 1))
    assert moved.shape == images.shape
    places = np.argwhere(moved[..., 0])
    assert places[:, 0].tolist() == list(range(500))
    assert {(row, column) for _, row, column in places.tolist()} == {(r, c) for r in (1, 2, 3) for c in (2, 3, 4)}


def test_learns(tmp_path):
    images, labels = bars()
    estimator = harness.estimator(
        conv_model_fn, tmp_path, height=5, width=5, dropout=0.1, max_shift=1, learning_rate=0.01, **SMALL
    )
    estimator.train(harness.input_fn({'image': images}, labels, repeat=True), max_steps=150)
    assert estimator.evaluate(harness.input_fn(columns(images), labels))['accuracy'] > 0.95


def test_missing_pixel():
    images, _ = bars()
    features = columns(images)
    del features['pixel_24']
    with pytest.raises(UserError, match=r"^conv_model_fn\.height, width and channels: no feature 'pixel_24' among "):
        harness.run(conv_model_fn, features, height=5, width=5, **SMALL)
