"""Fully connected layers on tabular and click data, alone or beside a linear model."""

from collections.abc import Sequence
from typing import Any

import gin

from estimator_trainer.compat import tf
from model_fns import inputs, layers, training
from model_fns.heads import head_of

_v1 = tf.compat.v1


@gin.configurable
def dnn_model_fn(
    features: dict[str, tf.Tensor],
    labels: tf.Tensor | None,
    mode: str,
    hidden_units: Sequence[int] = (64, 32),
    dropout: float = 0.0,
) -> tf.estimator.EstimatorSpec:
    """Predicts by rectified linear layers over the features of `feature_description`, as `inputs.matrix` has them.

    Args:
        features: Name to [batch, *shape], as `feature_description` says.
        labels: Classes, int32 [batch], or numbers; None in PREDICT mode.
        mode: A `tf.estimator.ModeKeys`.
        hidden_units: Width of each hidden layer.
        dropout: Share of the outputs of each hidden layer set to 0 in training.

    Returns:
        The spec of the head for the label, see `heads.head_of`.

    Raises:
        UserError: The features are not as described, or nothing is.
    """
    description = inputs.description_for('dnn_model_fn')
    head = head_of(description)
    net = inputs.matrix(features, description)
    net = layers.hidden(net, hidden_units, dropout, mode == tf.estimator.ModeKeys.TRAIN)
    return head.spec(mode, layers.dense(net, head.size, 'logits'), labels, training.minimize)


@gin.configurable
def wide_deep_model_fn(
    features: dict[str, tf.Tensor],
    labels: tf.Tensor | None,
    mode: str,
    hidden_units: Sequence[int] = (64, 32),
    dropout: float = 0.0,
    wide_optimizer: Any = None,
) -> tf.estimator.EstimatorSpec:
    """Predicts by the sum of a linear model and of rectified linear layers, trained together (Cheng et al., 2016).

    The linear, wide part has a weight for each number, id and cross; the deep part is that of `dnn_model_fn`.

    Args:
        features: Name to [batch, *shape], as `feature_description` says.
        labels: Classes, int32 [batch], or numbers; None in PREDICT mode.
        mode: A `tf.estimator.ModeKeys`.
        hidden_units: Width of each hidden layer.
        dropout: Share of the outputs of each hidden layer set to 0 in training.
        wide_optimizer: What trains the wide part, with a learning rate of its own: an optimizer of tf.compat.v1.train,
            or a class or function that makes one. None takes FTRL (McMahan et al., 2013, as in the paper) with a
            learning rate of 0.05. `optimization` trains the deep part alone.

    Returns:
        The spec of the head for the label, see `heads.head_of`.

    Raises:
        UserError: The features are not as described, or nothing is.
    """
    description = inputs.description_for('wide_deep_model_fn')
    head = head_of(description)
    with _v1.variable_scope('wide'):
        wide = inputs.linear(features, description, head.size)
    with _v1.variable_scope('deep'):
        net = inputs.matrix(features, description)
        net = layers.hidden(net, hidden_units, dropout, mode == tf.estimator.ModeKeys.TRAIN)
        deep = layers.dense(net, head.size, 'logits')

    def train(loss):
        ftrl = wide_optimizer or _v1.train.FtrlOptimizer(0.05)
        of_wide = training.Optimization(optimizer=ftrl() if callable(ftrl) else ftrl)
        return training.minimize(
            loss,
            (of_wide, _v1.trainable_variables('wide/')),
            (training.optimization(), _v1.trainable_variables('deep/')),
        )

    return head.spec(mode, wide + deep, labels, train)
