"""Models of tabular and click data that multiply features with each other: DeepFM, and Deep & Cross."""

from collections.abc import Sequence
from typing import Literal

import gin

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from estimator_trainer.features import Description
from model_fns import inputs, layers, training
from model_fns.heads import head_of

_v1 = tf.compat.v1


@gin.configurable
def deepfm_model_fn(
    features: dict[str, tf.Tensor],
    labels: tf.Tensor | None,
    mode: str,
    embedding_size: int = 8,
    hidden_units: Sequence[int] = (64, 32),
    dropout: float = 0.0,
) -> tf.estimator.EstimatorSpec:
    """Predicts by a factorization machine and rectified linear layers on the same embeddings (Guo et al., 2017).

    Each category, each number and each cross that has an embedding_size is a field, with an embedding; a number's is
    multiplied by it. The logit is a linear function of the features, plus the products of all pairs of embeddings
    (Rendle, 2010), plus what the layers make of all embeddings side by side. For several classes, of which the paper
    does not speak, each weights the columns of the products by itself.

    Args:
        features: Name to [batch, *shape], as `feature_description` says.
        labels: Classes, int32 [batch], or numbers; None in PREDICT mode.
        mode: A `tf.estimator.ModeKeys`.
        embedding_size: Columns of each embedding; the description may say the same, but not another number.
        hidden_units: Width of each hidden layer.
        dropout: Share of the outputs of each hidden layer set to 0 in training.

    Returns:
        The spec of the head for the label, see `heads.head_of`.

    Raises:
        UserError: The features are not as described, or nothing is.
    """
    description = inputs.description_for('deepfm_model_fn')
    head = head_of(description)
    fields = _fields(features, description, embedding_size)
    logits = inputs.linear(features, description, head.size)
    # Rendle's equation for all pairs at once: half of the square of the sum, less the sum of the squares.
    pairs = (tf.square(tf.reduce_sum(fields, axis=1)) - tf.reduce_sum(tf.square(fields), axis=1)) / 2
    if head.size == 1:
        logits += tf.reduce_sum(pairs, axis=1, keepdims=True)
    else:
        logits += layers.dense(pairs, head.size, 'pairs')
    net = tf.reshape(fields, [-1, fields.shape[1] * embedding_size])
    net = layers.hidden(net, hidden_units, dropout, mode == tf.estimator.ModeKeys.TRAIN)
    return head.spec(mode, logits + layers.dense(net, head.size, 'logits'), labels, training.minimize)


def _fields(features: dict[str, tf.Tensor], description: Description, size: int) -> tf.Tensor:
    """Returns the embeddings, float32 [batch, fields, size]."""
    fields = []
    for category in inputs.categories(features, description):
        if category.embedding_size not in (None, size):
            raise UserError(
                f'deepfm_model_fn.embedding_size: {size}; expected that of {category.name!r} in feature_description, '
                f'{category.embedding_size}, and the same for all: embeddings are multiplied with each other'
            )
        fields.append(inputs.embedding(category, size)[:, tf.newaxis, :])
    numbers = inputs.numbers(features, description)
    if numbers is not None:
        initializer = _v1.truncated_normal_initializer(stddev=size**-0.5)
        table = _v1.get_variable('embeddings_of_numbers', [numbers.shape[1], size], initializer=initializer)
        fields.append(numbers[:, :, tf.newaxis] * table)
    return tf.concat(fields, axis=1)


@gin.configurable
def dcn_model_fn(
    features: dict[str, tf.Tensor],
    labels: tf.Tensor | None,
    mode: str,
    cross_layers: int = 2,
    rank: int | None = None,
    structure: Literal['parallel', 'stacked'] = 'parallel',
    hidden_units: Sequence[int] = (64, 32),
    dropout: float = 0.0,
) -> tf.estimator.EstimatorSpec:
    """Predicts by layers that multiply the features with each other and by rectified linear ones (DCN-V2).

    Wang et al., 2021, equation 1: a cross layer is x0 * (W x + b) + x, where x0 are the features as `inputs.matrix` has
    them and x is what comes of the layer before.

    Args:
        features: Name to [batch, *shape], as `feature_description` says.
        labels: Classes, int32 [batch], or numbers; None in PREDICT mode.
        mode: A `tf.estimator.ModeKeys`.
        cross_layers: Number of cross layers.
        rank: Of W, as the product of two narrow matrices (equation 2); None for any.
        structure: Whether the rectified linear layers are beside the cross layers, or on top of them (section 3.3).
        hidden_units: Width of each hidden layer.
        dropout: Share of the outputs of each hidden layer set to 0 in training.

    Returns:
        The spec of the head for the label, see `heads.head_of`.

    Raises:
        UserError: The features are not as described, or nothing is.
    """
    if structure not in ('parallel', 'stacked'):
        raise UserError(f'dcn_model_fn.structure: {structure!r}; expected parallel or stacked')
    description = inputs.description_for('dcn_model_fn')
    head = head_of(description)
    first = crossed = inputs.matrix(features, description)
    for i in range(cross_layers):
        crossed = first * _full_or_low_rank(crossed, rank, f'cross_{i}') + crossed
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    net = layers.hidden(crossed if structure == 'stacked' else first, hidden_units, dropout, is_training)
    net = net if structure == 'stacked' else tf.concat([crossed, net], axis=1)
    return head.spec(mode, layers.dense(net, head.size, 'logits'), labels, training.minimize)


def _full_or_low_rank(net: tf.Tensor, rank: int | None, name: str) -> tf.Tensor:
    width = net.shape[1]
    if rank is None:
        return layers.dense(net, width, name)
    with _v1.variable_scope(name):
        narrow = _v1.get_variable('narrow', [width, rank])
    return layers.dense(tf.matmul(net, narrow), width, name)
