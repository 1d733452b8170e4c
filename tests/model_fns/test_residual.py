"""residual_model_fn: its shapes, its batch normalisation, what it takes, and that it learns."""

import numpy as np
import pytest

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from model_fns import layers
from model_fns.residual import residual_model_fn
from tests.model_fns import harness
from tests.model_fns.test_convolutional import bars, columns

v1 = tf.compat.v1
SMALL = {'n_classes': 2, 'filters': [4, 8], 'max_value': 1.0}


def test_layers_and_strides():
    with harness.bound(), tf.Graph().as_default():
        features = {'image': tf.zeros([2, 8, 6, 3])}
        residual_model_fn(features, tf.constant([0, 1]), 'eval', blocks=2, **SMALL)
        kernels = {one.op.name: one.shape.as_list() for one in v1.trainable_variables() if 'kernel' in one.op.name}
        last = v1.get_default_graph().get_tensor_by_name('residual/stage_1_block_1/Relu_1:0').shape.as_list()
    stage = 'residual/stage_{}_block_{}/{}/kernel'
    assert kernels == {
        'residual/first/kernel': [3, 3, 3, 4],
        **{stage.format(0, block, place): [3, 3, 4, 4] for block in (0, 1) for place in 'ab'},
        stage.format(1, 0, 'a'): [3, 3, 4, 8],
        stage.format(1, 0, 'shortcut'): [1, 1, 4, 8],
        **{stage.format(1, block, place): [3, 3, 8, 8] for block, place in ((0, 'b'), (1, 'a'), (1, 'b'))},
        'logits/kernel': [8, 2],
    }
    assert last == [2, 4, 3, 8]


def test_what_a_block_makes_is_added_to_what_it_is_given():
    images, _ = bars()
    shared = {'filters': [1], 'n_classes': 2, 'max_value': 1.0, 'blocks': 1}
    values = {'residual/first/kernel': np.zeros([3, 3, 1, 1]), 'logits/kernel': np.array([[0.0, 1.0]])}
    values['residual/first/kernel'][1, 1] = 1
    values |= {f'residual/stage_0_block_0/{place}/kernel': np.zeros([3, 3, 1, 1]) for place in 'ab'}
    with harness.bound():
        got = harness.run(residual_model_fn, {'image': images}, values=values, **shared)
    # The moving averages of a new model, 0 and 1, leave all as it is.
    want = images.mean(axis=(1, 2, 3)) / np.sqrt(1 + 1e-5)
    logits = np.log(got['probabilities'][:, 1] / got['probabilities'][:, 0])
    np.testing.assert_allclose(logits, want, rtol=1e-4)


def normalised(batches, training=True):
    """Returns what batch normalisation makes of the last batch, and its moving averages after all of them."""
    with tf.Graph().as_default(), v1.Session() as session:
        given = v1.placeholder(tf.float32, [None, 3])
        made = layers.batch_normalization(given, training, 'normalised')
        updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
        assert len(updates) == (2 if training else 0)
        assert len(v1.trainable_variables()) == 2
        session.run(v1.global_variables_initializer())
        for batch in batches:
            values, _ = session.run([made, updates], {given: batch})
        moving = {one.op.name.split('/')[-1]: session.run(one) for one in v1.global_variables()}
        return values, moving['moving_mean'], moving['moving_variance']


def test_batch_normalisation():
    # A mean far from 0, of whose square float32 holds no digit of the variance.
    batches = [np.random.default_rng(i).normal([5.0, -2.0, 1e4], [0.1, 3.0, 1.0], (50, 3)) for i in range(3)]
    values, mean, variance = normalised(batches)
    want_mean, want_variance = np.zeros(3), np.ones(3)
    for batch in batches:
        want_mean = 0.9 * want_mean + 0.1 * batch.mean(axis=0)
        want_variance = 0.9 * want_variance + 0.1 * batch.var(axis=0)
    np.testing.assert_allclose(values.mean(axis=0), [0, 0, 0], atol=2e-3)
    np.testing.assert_allclose(values.std(axis=0), [1, 1, 1], rtol=2e-3)
    np.testing.assert_allclose(mean, want_mean, rtol=1e-4)
    np.testing.assert_allclose(variance, want_variance, rtol=1e-3)
    values, mean, variance = normalised(batches, training=False)
    np.testing.assert_allclose(values, batches[-1], rtol=1e-4)
    assert (mean.tolist(), variance.tolist()) == ([0, 0, 0], [1, 1, 1])


def test_batch_normalisation_of_nothing():
    values, mean, _ = normalised([np.zeros([0, 3])])
    assert (values.shape, mean.tolist()) == ((0, 3), [0, 0, 0])


@pytest.mark.parametrize('dtype', [np.uint8, np.float32])
def test_columns_and_image_are_the_same(dtype):
    images = (np.random.default_rng(1).uniform(0, 255, (6, 3, 4, 2))).astype(dtype)
    arguments = SMALL | {'max_value': 255.0}
    with harness.bound():
        of_columns = harness.run(residual_model_fn, columns(images), height=3, width=4, channels=2, **arguments)
        of_images = harness.run(residual_model_fn, {'image': images}, **arguments)
    np.testing.assert_array_equal(of_columns['probabilities'], of_images['probabilities'])


def test_learns_and_evaluates_by_moving_averages(tmp_path):
    images, labels = bars()
    with harness.bound('optimization.learning_rate = 0.01'):
        estimator = harness.estimator(residual_model_fn, tmp_path, max_shift=1, height=5, width=5, **SMALL)
        estimator.train(harness.input_fn({'image': images}, labels, repeat=True), max_steps=100)
        assert estimator.evaluate(harness.input_fn(columns(images), labels))['accuracy'] > 0.95


def test_the_label_may_be_described():
    images, _ = bars()
    with harness.bound("feature_description.label = {'kind': {'vocabulary': ['across', 'upright']}}"):
        got = harness.run(residual_model_fn, {'image': images}, **SMALL | {'n_classes': None})
    assert set(got['classes']) <= {b'across', b'upright'}


@pytest.mark.parametrize(
    ('features', 'arguments', 'want_error'),
    [
        (
            {'pixel_0': [1.0]},
            {},
            'residual_model_fn.height, width and channels: height None, width None; expected both',
        ),
        (
            {'pixel_0': [1.0]},
            {'height': 1, 'width': 2},
            "residual_model_fn.height, width and channels: no feature 'pixel_1' among pixel_0",
        ),
        ({'image': np.zeros([2, 3, 3])}, {}, 'residual_model_fn: the feature image has the shape (2, 3, 3); expected'),
        (
            {'image': np.zeros([2, 3, 3, 1])},
            {'n_classes': None},
            'residual_model_fn: feature_description.label is not bound; expected e.g.',
        ),
    ],
)
def test_error(features, arguments, want_error):
    with harness.bound(), pytest.raises(UserError) as error:
        harness.run(residual_model_fn, features, **{**SMALL, **arguments})
    assert str(error.value).startswith(want_error)
