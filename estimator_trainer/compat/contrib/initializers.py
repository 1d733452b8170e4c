"""Initializers and regularizers of `tf.contrib.layers`, with its defaults."""

import math
import numbers
from collections.abc import Callable
from typing import Any

import tensorflow as tf


def xavier_initializer(uniform: bool = True, seed: int | None = None, dtype: tf.DType = tf.float32) -> Callable:
    """Returns an initializer after Glorot and Bengio (2010)."""
    return variance_scaling_initializer(1.0, 'FAN_AVG', uniform, seed, dtype)


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = 'FAN_IN',
    uniform: bool = False,
    seed: int | None = None,
    dtype: tf.DType = tf.float32,
) -> Callable:
    """Returns an initializer whose variance is `factor` divided by the number of connections.

    tf.variance_scaling_initializer has another standard deviation for the truncated normal distribution.

    Raises:
        TypeError: `dtype` is no floating point type, or `mode` is none of FAN_IN, FAN_OUT and FAN_AVG.
    """
    if not dtype.is_floating or mode not in ('FAN_IN', 'FAN_OUT', 'FAN_AVG'):
        raise TypeError(f'a floating dtype and a mode of FAN_IN, FAN_OUT, FAN_AVG expected: {dtype}, {mode}')

    def initialize(shape, dtype=dtype, partition_info=None):
        shape = [int(size) for size in shape]
        receptive_field = math.prod(shape[:-2])
        fan_in = receptive_field * (shape[-2] if len(shape) > 1 else shape[-1]) if shape else 1
        fan_out = receptive_field * shape[-1] if shape else 1
        fan = {'FAN_IN': fan_in, 'FAN_OUT': fan_out, 'FAN_AVG': (fan_in + fan_out) / 2}[mode]
        if uniform:
            limit = math.sqrt(3 * factor / fan)
            return tf.compat.v1.random_uniform(shape, -limit, limit, dtype, seed=seed)
        # 1.3: what the truncation takes from the variance.
        return tf.compat.v1.truncated_normal(shape, 0.0, math.sqrt(1.3 * factor / fan), dtype, seed=seed)

    return initialize


def l1_regularizer(scale: float, scope: str | None = None) -> Callable:
    """Returns a function that gives `scale` times the sum of the weights' sizes."""
    return _regularizer(scale, scope, 'l1_regularizer', lambda weights: tf.reduce_sum(tf.abs(weights)))


def l2_regularizer(scale: float, scope: str | None = None) -> Callable:
    """Returns a function that gives `scale` times half the sum of the weights' squares."""
    return _regularizer(scale, scope, 'l2_regularizer', tf.nn.l2_loss)


def l1_l2_regularizer(scale_l1: float = 1.0, scale_l2: float = 1.0, scope: str | None = None) -> Callable:
    """Returns a function that gives the sum of both."""
    parts = [l1_regularizer(scale_l1), l2_regularizer(scale_l2)]

    def regularize(weights):
        with tf.compat.v1.name_scope(scope, 'l1_l2_regularizer', [weights]):
            terms = [term for term in (part(weights) for part in parts) if term is not None]
            return tf.add_n(terms) if terms else None

    return regularize


def _regularizer(scale: Any, scope: str | None, name: str, penalty: Callable) -> Callable:
    if isinstance(scale, numbers.Integral):
        raise ValueError(f'scale cannot be an integer: {scale}')
    if isinstance(scale, numbers.Real) and scale < 0:
        raise ValueError(f'scale cannot be negative: {scale}')
    if isinstance(scale, numbers.Real) and scale == 0:
        return lambda _: None

    def regularize(weights, name=name):
        with tf.compat.v1.name_scope(scope, name, [weights]) as made:
            return tf.multiply(tf.cast(scale, weights.dtype.base_dtype), penalty(weights), name=made)

    return regularize
