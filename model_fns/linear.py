"""Linear and logistic regression on tabular and click data."""

import gin

from estimator_trainer.compat import tf
from model_fns import inputs, training
from model_fns.heads import head_of


@gin.configurable
def linear_model_fn(features: dict[str, tf.Tensor], labels: tf.Tensor | None, mode: str) -> tf.estimator.EstimatorSpec:
    """Predicts by a weight for each number, each id of a category and each cross of `feature_description`.

    All weights start at 0. With `optimization.l2` it is ridge or regularised logistic regression.

    Args:
        features: Name to [batch, *shape], as `feature_description` says.
        labels: Classes, int32 [batch], or numbers; None in PREDICT mode.
        mode: A `tf.estimator.ModeKeys`.

    Returns:
        The spec of the head for the label, see `heads.head_of`.

    Raises:
        UserError: The features are not as described, or nothing is.
    """
    description = inputs.description_for('linear_model_fn')
    head = head_of(description)
    logits = inputs.linear(features, description, head.size)
    return head.spec(mode, logits, labels, training.minimize)
