"""What every classifier here does with its logits: predict, measure, train."""

from collections.abc import Sequence
from typing import Any

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError, nearest


def classification_spec(
    logits: tf.Tensor,
    labels: tf.Tensor | None,
    mode: str,
    learning_rate: float,
    decay_steps: int | None = None,
    label_vocabulary: Sequence[str] | None = None,
    optimizer: Any = None,
) -> tf.estimator.EstimatorSpec:
    """Returns the EstimatorSpec of a classifier of exclusive classes.

    The loss is the mean cross-entropy over this replica's batch. Estimator divides it by the number of replicas (inside
    `minimize`) and sums the gradients, which makes a step that of the mean over the global batch.

    Args:
        logits: float32 [batch, classes].
        labels: Class numbers, int32 [batch]; None in PREDICT mode.
        mode: A `tf.estimator.ModeKeys`.
        learning_rate: Adam's step size.
        decay_steps: Step at which the learning rate, falling along a half cosine, reaches the 20th of `learning_rate`
            at which it then stays, so that training further still learns; None keeps it constant.
        label_vocabulary: The classes' names, in class order, to predict names as well as numbers.
        optimizer: An optimizer of `tf.compat.v1.train`, or a class or function that makes one, with a step size of its
            own; None takes Adam.

    Returns:
        The spec. Its predictions are `probabilities` float32 [batch, classes], `class_ids` int64 [batch], and with a
        vocabulary `classes`, text [batch]; its eval metric is `accuracy`.

    Raises:
        UserError: The vocabulary has not one name for each class.
    """
    n_classes = logits.shape[-1]
    if label_vocabulary is not None and len(label_vocabulary) != n_classes:
        found = f'{len(label_vocabulary)} names ({", ".join(label_vocabulary)})'
        raise UserError(f'label_vocabulary: {found}; expected as many as n_classes, {n_classes}')

    if mode == tf.estimator.ModeKeys.PREDICT:
        predictions = _predictions(logits, label_vocabulary)
        outputs = {'serving_default': tf.estimator.export.PredictOutput(predictions)}
        return tf.estimator.EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)

    loss = tf.compat.v1.losses.sparse_softmax_cross_entropy(labels, logits)
    if mode == tf.estimator.ModeKeys.EVAL:
        accuracy = tf.compat.v1.metrics.accuracy(labels, tf.argmax(logits, axis=1))
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={'accuracy': accuracy})

    step = tf.compat.v1.train.get_or_create_global_step()
    if optimizer is None:
        if decay_steps is not None:
            learning_rate = tf.compat.v1.train.cosine_decay(learning_rate, step, decay_steps, alpha=0.05)
        optimizer = tf.compat.v1.train.AdamOptimizer(learning_rate)
    elif callable(optimizer):
        optimizer = optimizer()
    train_op = optimizer.minimize(loss, step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _predictions(logits: tf.Tensor, label_vocabulary: Sequence[str] | None) -> dict[str, tf.Tensor]:
    class_ids = tf.argmax(logits, axis=1)
    predictions = {'probabilities': tf.nn.softmax(logits), 'class_ids': class_ids}
    if label_vocabulary is not None:
        predictions['classes'] = tf.gather(tf.constant(list(label_vocabulary)), class_ids)
    return predictions


def column(features: dict[str, tf.Tensor], name: str, binding: str) -> tf.Tensor:
    """Returns the feature `name`; one that the input_fn does not give is an error that names the Gin `binding`."""
    if name not in features:
        raise UserError(f'{binding}: no feature {name!r} among {", ".join(features)}{nearest(name, features)}')
    return features[name]
