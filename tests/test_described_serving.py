"""Exports of described features: what a serialized tf.Example may leave out."""

import gin
import numpy as np
import pytest

from estimator_trainer import serving
from estimator_trainer.compat import tf

SPECS = {
    'number': tf.TensorSpec([None], tf.float32),
    'pair': tf.TensorSpec([None, 2], tf.int32),
    'word': tf.TensorSpec([None], tf.string),
    'needed': tf.TensorSpec([None], tf.float32),
}
DESCRIBED = {
    'number': {'default': -1.5},
    'pair': {'dtype': 'int32', 'shape': [2], 'default': 7},
    'word': {'dtype': 'string', 'default': 'none'},
    'needed': {},
}


def parsed(example):
    """Returns what the features are of one serialized example."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        receiver = serving.receiver_fn(None, SPECS)()
        fed = {receiver.receiver_tensors['examples']: [example.SerializeToString()]}
        return session.run(receiver.features, fed)


def needed():
    example = tf.train.Example()
    example.features.feature['needed'].float_list.value.append(1.0)
    return example


@pytest.mark.usefixtures('clean_gin')
def test_described_features_take_their_defaults():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r'number|pair|word'):
        parsed(needed())
    gin.bind_parameter('feature_description.features', DESCRIBED)
    features = parsed(needed())
    assert features['number'].tolist() == [-1.5]
    assert (features['pair'].tolist(), features['pair'].dtype) == ([[7, 7]], np.int32)
    assert features['word'].tolist() == [b'none']
    with pytest.raises(tf.errors.InvalidArgumentError, match='needed'):
        parsed(tf.train.Example())


@pytest.mark.usefixtures('clean_gin')
def test_a_feature_that_is_not_as_described_is_taken_as_it_is():
    gin.bind_parameter('feature_description.features', {**DESCRIBED, 'word': {'dtype': 'int64', 'default': 1}})
    example = needed()
    with pytest.raises(tf.errors.InvalidArgumentError, match='word'):
        parsed(example)
    example.features.feature['word'].bytes_list.value.append(b'here')
    assert parsed(example)['word'].tolist() == [b'here']
