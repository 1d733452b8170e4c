"""Classifiers of number columns: fully connected layers. The short example of how to write a model_fn."""

from collections.abc import Sequence
from typing import Any

import gin

from estimator_trainer.compat import tf
from model_fns import inputs as given
from model_fns import layers, training
from model_fns.heads import MultiClassHead


@gin.configurable
def dense_model_fn(
    features: dict[str, tf.Tensor],
    labels: tf.Tensor | None,
    mode: str,
    params: dict | None = None,
    inputs: dict[str, tuple[float, float]] = gin.REQUIRED,
    n_classes: int = gin.REQUIRED,
    hidden_units: Sequence[int] = (16,),
    learning_rate: float = 0.001,
    decay_steps: int | None = None,
    label_vocabulary: Sequence[str] | None = None,
    optimizer: Any = None,
) -> tf.estimator.EstimatorSpec:
    """Classifies by rectified linear layers over standardised columns.

    Args:
        features: Column name to float32 [batch].
        labels: Class numbers, int32 [batch]; None in PREDICT mode.
        mode: A `tf.estimator.ModeKeys`.
        params: Part of Estimator's signature; not used, since Gin configures this model.
        inputs: The columns to use, each with the (mean, standard deviation) to standardise it by, in its own unit.
        n_classes: Number of classes.
        hidden_units: Width of each hidden layer; empty for logistic regression.
        learning_rate: Adam's step size (default: that of Kingma & Ba, 2015, section 2).
        decay_steps: Step at which the learning rate, falling along a half cosine, reaches the 20th of `learning_rate`
            at which it then stays, so that training further still learns; None keeps it constant.
        label_vocabulary: The classes' names, in class order, to predict names as well as numbers.
        optimizer: What trains instead of Adam, as in `training.of_parameters`, e.g. `@sync_replicas()`.

    Returns:
        The spec of a `heads.MultiClassHead`.

    Raises:
        UserError: A column of `inputs` is not among the features.
    """
    columns = [
        (given.column(features, name, 'dense_model_fn.inputs') - mean) / deviation
        for name, (mean, deviation) in inputs.items()
    ]
    net = layers.hidden(tf.stack(columns, axis=1), hidden_units)
    logits = layers.dense(net, n_classes, 'logits')
    train = training.of_parameters(learning_rate, decay_steps, optimizer)
    return MultiClassHead(n_classes, label_vocabulary).spec(mode, logits, labels, train)
