"""Layers of `tf.contrib.layers`: its variables, for checkpoints, and its defaults and collections, for programs."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.training import moving_averages

from estimator_trainer.compat.contrib.initializers import xavier_initializer
from estimator_trainer.errors import UserError

_v1 = tf.compat.v1
_UPDATES = _v1.GraphKeys.UPDATE_OPS
_XAVIER, _ZEROS, _ONES = xavier_initializer(), tf.zeros_initializer(), tf.ones_initializer()


def layer_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    activation_fn: Callable | None = None,
    reuse: bool | None = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    begin_norm_axis: int = 1,
    begin_params_axis: int = -1,
    scope: Any = None,
) -> tf.Tensor:
    """Normalises over the axes from `begin_norm_axis` on; `beta` and `gamma` have the axes from `begin_params_axis` on.

    Raises:
        ValueError: The rank of `inputs`, or their shape from `begin_params_axis` on, is not known, or an axis is not
            one of theirs.
    """
    with _v1.variable_scope(scope, 'LayerNorm', [inputs], reuse=reuse) as made:
        inputs = tf.convert_to_tensor(inputs)
        shape, rank = inputs.shape, inputs.shape.rank
        if rank is None:
            raise ValueError(f'Inputs {inputs.name} has undefined rank.')
        if begin_norm_axis >= rank or begin_params_axis >= rank:
            raise ValueError(
                f'begin_norm_axis {begin_norm_axis}, begin_params_axis {begin_params_axis}: rank is {rank}'
            )
        params = shape[begin_params_axis:]
        if not params.is_fully_defined():
            raise ValueError(f'Inputs {inputs.name}: shape from axis {begin_params_axis} on is not known: {shape}')
        new = _variables(params, inputs.dtype, variables_collections, trainable)
        beta = new('beta', _ZEROS) if center else None
        gamma = new('gamma', _ONES) if scale else None
        axes = list(range(begin_norm_axis % rank, rank))
        mean, variance = _v1.nn.moments(inputs, axes, keep_dims=True)
        # float16 has no 1e-12.
        epsilon = 1e-3 if inputs.dtype.base_dtype == tf.float16 else 1e-12
        outputs = tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon)
        outputs.set_shape(shape)
        return _finish(outputs, activation_fn, outputs_collections, made.name)


def fully_connected(
    inputs: Any,
    num_outputs: int,
    activation_fn: Callable | None = tf.nn.relu,
    normalizer_fn: Callable | None = None,
    normalizer_params: dict | None = None,
    weights_initializer: Any = _XAVIER,
    weights_regularizer: Callable | None = None,
    biases_initializer: Any = _ZEROS,
    biases_regularizer: Callable | None = None,
    reuse: bool | None = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> tf.Tensor:
    """Multiplies the last axis of `inputs` with `weights`, adds `biases` or normalises, and activates."""
    with _v1.variable_scope(scope, 'fully_connected', [inputs], reuse=reuse) as made:
        inputs = tf.convert_to_tensor(inputs)
        depth = _known(inputs, -1)
        new = _variables([depth, num_outputs], inputs.dtype, variables_collections, trainable)
        weights = new('weights', weights_initializer, regularizer=weights_regularizer)
        if inputs.shape.rank == 2:
            outputs = tf.matmul(inputs, weights)
        else:
            outputs = tf.tensordot(inputs, weights, [[inputs.shape.rank - 1], [0]])
        if normalizer_fn is not None:
            outputs = normalizer_fn(outputs, **(normalizer_params or {}))
        elif biases_initializer is not None:
            biases = new('biases', biases_initializer, regularizer=biases_regularizer, shape=[num_outputs])
            outputs = tf.nn.bias_add(outputs, biases)
        return _finish(outputs, activation_fn, outputs_collections, made.name)


def batch_norm(
    inputs: Any,
    decay: float = 0.999,
    center: bool = True,
    scale: bool = False,
    epsilon: float = 0.001,
    activation_fn: Callable | None = None,
    param_initializers: dict | None = None,
    param_regularizers: dict | None = None,
    updates_collections: Any = _UPDATES,
    is_training: Any = True,
    reuse: bool | None = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    batch_weights: Any = None,
    fused: bool | None = None,
    data_format: str = 'NHWC',
    zero_debias_moving_mean: bool = False,
    scope: Any = None,
    renorm: bool = False,
    renorm_clipping: dict | None = None,
    renorm_decay: float = 0.99,
    adjustment: Callable | None = None,
) -> tf.Tensor:
    """Normalises over all axes but the last; in training the moving averages are updated by ops in a collection.

    Raises:
        UserError: One of the arguments that are not supported is used.
    """
    if batch_weights is not None or data_format != 'NHWC' or zero_debias_moving_mean or renorm or adjustment:
        raise UserError(
            'tf.contrib.layers.batch_norm: batch_weights, data_format, zero_debias_moving_mean, renorm and adjustment '
            'found, none of which is supported: tf.layers.batch_normalization has the last two and axis=1'
        )
    initializers, regularizers = param_initializers or {}, param_regularizers or {}
    with _v1.variable_scope(scope, 'BatchNorm', [inputs], reuse=reuse) as made:
        inputs = tf.convert_to_tensor(inputs)
        channels = [_known(inputs, -1)]
        new = _variables(channels, _at_least_float32(inputs.dtype), variables_collections, trainable)
        parameters = {
            name: new(name, initializers.get(name, start), regularizer=regularizers.get(name))
            for name, start, wanted in (('beta', _ZEROS, center), ('gamma', _ONES, scale))
            if wanted
        }
        moving = [
            new(name, initializers.get(name, start), **_AVERAGED)
            for name, start in (('moving_mean', _ZEROS), ('moving_variance', _ONES))
        ]
        beta = parameters.get('beta', tf.zeros(channels, moving[0].dtype.base_dtype))
        gamma = parameters.get('gamma', tf.ones(channels, moving[0].dtype.base_dtype))
        is_fused = fused is not False and inputs.shape.rank in (2, 4)
        normalize = _fused if is_fused else _plain

        def train():
            outputs, mean, variance = normalize(inputs, gamma, beta, epsilon)
            updates = [
                tf.identity(moving_averages.assign_moving_average(average, value, decay, zero_debias=False))
                for average, value in zip(moving, (mean, variance), strict=True)
            ]
            if updates_collections is not None:
                return [outputs, *updates]
            with tf.control_dependencies(updates):
                return [tf.identity(outputs), *updates]

        def infer():
            return [normalize(inputs, gamma, beta, epsilon, *moving)[0], *map(tf.identity, moving)]

        outputs, *updates = _choose(is_training, train, infer)
        if updates_collections is not None and _constant(is_training) is not False:
            for update in updates:
                _v1.add_to_collections(updates_collections, update)
        outputs.set_shape(inputs.shape)
        return _finish(outputs, activation_fn, outputs_collections, made.name)


# Each replica updates its own, and what is read is the mean.
_AVERAGED = {
    'trainable': False,
    'synchronization': tf.VariableSynchronization.ON_READ,
    'aggregation': tf.VariableAggregation.MEAN,
}


def _fused(inputs, gamma, beta, epsilon, mean=None, variance=None):
    images = inputs if inputs.shape.rank == 4 else inputs[:, None, None, :]
    outputs, mean, variance = _v1.nn.fused_batch_norm(
        images, gamma, beta, mean, variance, epsilon, is_training=mean is None
    )
    return (outputs if inputs.shape.rank == 4 else outputs[:, 0, 0, :]), mean, variance


def _plain(inputs, gamma, beta, epsilon, mean=None, variance=None):
    if mean is None:
        mean, variance = tf.nn.moments(tf.cast(inputs, gamma.dtype), list(range(inputs.shape.rank - 1)))
    values = [tf.cast(value, inputs.dtype) for value in (mean, variance, beta, gamma)]
    return tf.nn.batch_normalization(inputs, *values, epsilon), mean, variance


def dropout(
    inputs: Any,
    keep_prob: Any = 0.5,
    noise_shape: Any = None,
    is_training: Any = True,
    outputs_collections: Any = None,
    scope: Any = None,
    seed: int | None = None,
) -> tf.Tensor:
    """Keeps each element with probability `keep_prob` and scales it by its inverse; in training only."""
    with _v1.variable_scope(scope, 'Dropout', [inputs]) as made:
        inputs = tf.convert_to_tensor(inputs)
        outputs = _choose(
            is_training,
            lambda: _v1.nn.dropout(inputs, rate=1 - keep_prob, noise_shape=noise_shape, seed=seed),
            lambda: tf.identity(inputs),
        )
        return _finish(outputs, None, outputs_collections, made.name)


def embed_sequence(
    ids: Any,
    vocab_size: int | None = None,
    embed_dim: int | None = None,
    unique: bool = False,
    initializer: Any = None,
    regularizer: Callable | None = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: bool | None = None,
) -> tf.Tensor:
    """Looks up a row of `embeddings` for each id.

    Raises:
        ValueError: A size is missing and the variable is not reused.
    """
    if not reuse and not (vocab_size and embed_dim):
        raise ValueError(f'Must specify vocab size and embedding dimension: {vocab_size}, {embed_dim}')
    with _v1.variable_scope(scope, 'EmbedSequence', [ids], reuse=reuse):
        shape = [vocab_size, embed_dim] if vocab_size and embed_dim else None
        embeddings = _variables(shape, None, None, trainable)('embeddings', initializer, regularizer=regularizer)
        if not unique:
            return _v1.nn.embedding_lookup(embeddings, ids)
        values, positions = tf.unique(tf.reshape(ids, [-1]))
        rows = tf.gather(_v1.nn.embedding_lookup(embeddings, values), positions)
        return tf.reshape(rows, tf.concat([tf.shape(ids), tf.shape(rows)[1:]], 0))


def flatten(inputs: Any, outputs_collections: Any = None, scope: Any = None) -> tf.Tensor:
    """Returns `inputs` with all axes but the first in one."""
    with _v1.name_scope(scope, 'Flatten', [inputs]) as made:
        inputs = tf.convert_to_tensor(inputs)
        sizes = inputs.shape[1:]
        outputs = tf.reshape(inputs, [tf.shape(inputs)[0], sizes.num_elements() or -1])
        outputs.set_shape([inputs.shape[0], sizes.num_elements()])
        return _finish(outputs, None, outputs_collections, made)


def one_hot_encoding(
    labels: Any,
    num_classes: int,
    on_value: float = 1.0,
    off_value: float = 0.0,
    outputs_collections: Any = None,
    scope: Any = None,
) -> tf.Tensor:
    """Returns a row of `num_classes` numbers for each label."""
    with _v1.name_scope(scope, 'OneHotEncoding', [labels, num_classes]) as made:
        labels = tf.convert_to_tensor(labels)
        labels = tf.cast(labels, tf.int64) if labels.dtype == tf.int32 else labels
        outputs = tf.one_hot(labels, num_classes, on_value=on_value, off_value=off_value)
        return _finish(outputs, None, outputs_collections, made)


def _variables(shape: Any, dtype: Any, collections: Any, trainable: bool) -> Callable:
    """Returns a function that gets or creates a model variable in the current scope."""

    def new(name, initializer, **options):
        more = collections.get(name) if isinstance(collections, dict) else collections
        arguments = {'shape': shape, 'dtype': dtype and dtype.base_dtype, 'trainable': trainable, **options}
        return _v1.get_variable(
            name,
            initializer=initializer,
            collections=[*(more or []), _v1.GraphKeys.GLOBAL_VARIABLES, _v1.GraphKeys.MODEL_VARIABLES],
            **arguments,
        )

    return new


def _finish(outputs: tf.Tensor, activation_fn: Callable | None, collections: Any, name: str) -> tf.Tensor:
    outputs = activation_fn(outputs) if activation_fn is not None else outputs
    if collections:
        _v1.add_to_collections(collections, outputs)
    return outputs


def _known(inputs: tf.Tensor, axis: int) -> int:
    size = inputs.shape[axis] if inputs.shape.rank else None
    size = getattr(size, 'value', size)  # a Dimension, where v2 behaviour is off
    if inputs.shape.rank is None or inputs.shape.rank < 2 or size is None:
        raise ValueError(f'Inputs {inputs.name}: rank 2 or more and a known last axis expected: {inputs.shape}')
    return size


def _at_least_float32(dtype: tf.DType) -> tf.DType:
    return tf.float32 if dtype.base_dtype in (tf.float16, tf.bfloat16) else dtype


def _constant(is_training: Any) -> bool | None:
    value = is_training if isinstance(is_training, (bool, int)) else tf.get_static_value(is_training)
    return None if value is None else bool(value)


def _choose(is_training: Any, train: Callable, infer: Callable) -> Any:
    value = _constant(is_training)
    if value is None:
        return _v1.cond(is_training, train, infer)
    return train() if value else infer()
