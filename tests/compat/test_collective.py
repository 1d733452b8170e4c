"""Which gradients tasks that step together add up as dense ones. Clusters: tests/model_fns/test_clusters.py."""

import numpy as np
import pytest

from estimator_trainer.compat import collective, tf


def sparse(rows, dense_shape=(4, 2)):
    """A gradient of so many rows, None where the graph does not know their number; its place holders."""
    values = tf.compat.v1.placeholder(tf.float32, [rows, 2])
    indices = tf.compat.v1.placeholder(tf.int64, [rows])
    shape = None if dense_shape is None else tf.constant(dense_shape)
    return tf.IndexedSlices(values, indices, shape)


@pytest.mark.parametrize(
    ('rows', 'dense_shape', 'want_dense'), [(None, (4, 2), True), (3, (4, 2), False), (None, None, False)]
)
def test_sparse_gradients(rows, dense_shape, want_dense):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        gradient = sparse(rows, dense_shape)
        found = collective._dense(gradient)
        assert isinstance(found, tf.Tensor) == want_dense
        if not want_dense:
            assert found is gradient
            return
        fed = {gradient.values: [[1, 2], [3, 4], [5, 6]], gradient.indices: [1, 3, 1]}
        np.testing.assert_array_equal(session.run(found, fed), [[0, 0], [6, 8], [0, 0], [3, 4]])


def test_a_dense_gradient_stays_what_it_is():
    with tf.Graph().as_default():
        gradient = tf.compat.v1.placeholder(tf.float32, [None, 2])
        assert collective._dense(gradient) is gradient
