"""Trains on one device, then from the same checkpoint on one and on two; prints how far the variables part.

A program of its own, for TensorFlow takes its number of logical devices before it does anything else. Usage:

    python -m tests.model_fns.mirrored {dense,conv} DIRECTORY
"""

import shutil
import sys

import numpy as np

from estimator_trainer.compat import tf
from model_fns.convolutional import conv_model_fn
from model_fns.dense import dense_model_fn

GLOBAL_BATCH = 8


def model_fn(features, labels, mode):
    if sys.argv[1] == 'dense':
        return dense_model_fn(features, labels, mode, inputs={'x': (0.5, 2.0), 'y': (0.0, 1.0)}, n_classes=3)
    # Without shifts and dropout, which no two graphs draw alike.
    return conv_model_fn(features, labels, mode, height=4, width=4, n_classes=3, max_value=1.0, filters=[4])


def input_fn(input_context=None):
    replicas = input_context.num_replicas_in_sync if input_context else 1
    random = np.random.default_rng(1)
    values = random.normal(size=(64, 18)).astype(np.float32)
    features = {'x': values[:, 0], 'y': values[:, 1], 'image': values[:, 2:].reshape(64, 4, 4, 1)}
    data = tf.data.Dataset.from_tensor_slices((features, random.integers(0, 3, 64).astype(np.int32)))
    return data.repeat().batch(GLOBAL_BATCH // replicas)


def train(model_dir, max_steps, strategy=None):
    # Without two CPU devices of the session too, the second replica waits for ever.
    devices = tf.compat.v1.ConfigProto(device_count={'CPU': 2}, allow_soft_placement=True)
    config = tf.estimator.RunConfig(tf_random_seed=1, train_distribute=strategy, session_config=devices)
    estimator = tf.estimator.Estimator(model_fn, model_dir, config)
    estimator.train(input_fn, max_steps=max_steps)
    return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}


def main():
    (cpu,) = tf.config.list_physical_devices('CPU')
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    one, two = f'{sys.argv[2]}/one', f'{sys.argv[2]}/two'
    train(one, 1)
    shutil.copytree(one, two)
    strategy = tf.distribute.MirroredStrategy(
        ['/cpu:0', '/cpu:1'], cross_device_ops=tf.distribute.ReductionToOneDevice()
    )
    want, got = train(one, 6), train(two, 6, strategy)
    assert set(want) == set(got), (want.keys(), got.keys())
    for name in want:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-4, atol=1e-5, err_msg=name)
    print('equal')


if __name__ == '__main__':
    main()
