"""Keras draws its seeds on every Python, the same ones from the same seed."""

import random

import pytest

from estimator_trainer.compat import keras_seeds, tf
from tests.compat import fresh

pytestmark = pytest.mark.once('newest')


@pytest.mark.parametrize('seed', [1, 2])
def test_a_seeded_keras_initializer_gives_the_same_numbers(seed):
    values = []
    for _ in range(2):
        tf.keras.utils.set_random_seed(seed)
        values.append(tf.keras.initializers.GlorotUniform()([2, 2]).numpy().tolist())
    assert values[0] == values[1]


@pytest.mark.parametrize('statement', ['', 'tf.keras.utils.set_random_seed(1)'])
@pytest.mark.parametrize('first', ['', 'import tensorflow as tf; tf.keras.layers; '])
def test_layers_with_and_without_a_seed(first, statement):
    code = f"""
import os; os.environ['TF_USE_LEGACY_KERAS'] = '1'
{first}
from estimator_trainer.compat import tf
{statement}
with tf.Graph().as_default():
    print(tf.keras.layers.Dropout(0.5)(tf.keras.layers.Dense(2)(tf.zeros([1, 2])), training=True).shape)
"""
    assert fresh.last_line(fresh.start('-c', code)) == '(1, 2)'


def test_the_numbers_are_those_of_whole_numbers():
    assert keras_seeds._Random(3).randint(1, 1e9) == random.Random(3).randint(1, 10**9)
