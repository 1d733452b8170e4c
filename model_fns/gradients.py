"""What is done with gradients, and beside them, before an optimizer applies them; on replicas as on one device."""

from collections.abc import Sequence

from estimator_trainer.compat import tf
from model_fns import replicas

Gradients = list[tuple[tf.Tensor | tf.IndexedSlices, tf.Variable]]


def weights(variables: Sequence[tf.Variable]) -> list[tf.Variable]:
    """Returns those of two or more dimensions: no biases, no scales."""
    return [variable for variable in variables if variable.shape.rank >= 2]


def clipped(gradients: Gradients, norm: float) -> Gradients:
    """Returns the gradients, scaled down where the norm over all variables is larger (Pascanu et al., 2013).

    Args:
        gradients: of this replica; what is clipped is the sum over all replicas.
        norm: the largest.

    Returns:
        What the replicas, that add up what they have, make the clipped gradient of.
    """
    values = [_added_up(gradient) for gradient, _ in gradients]
    if replicas.several():
        values = [_added_up(value) for value in replicas.summed(values)]
    values, total = tf.clip_by_global_norm(values, norm)
    tf.compat.v1.summary.scalar('gradient_norm', total)
    count = tf.distribute.get_strategy().num_replicas_in_sync
    values = [_scaled(value, 1 / count) for value in values] if count > 1 else values
    return [(value, variable) for value, (_, variable) in zip(values, gradients, strict=True)]


def decay(gradients: Gradients, share: tf.Tensor) -> tf.Operation:
    """Returns an op that takes a share off the weights once their gradients are there.

    Args:
        gradients: of the variables; those of one dimension are left as they are.
        share: float32 scalar.
    """

    def take_off(strategy, share, *variables):
        return tf.group(*(strategy.extended.update(variable, _shrink, args=(share,)) for variable in variables))

    with tf.control_dependencies([_dense_part(gradient) for gradient, _ in gradients]):
        variables = weights([variable for _, variable in gradients])
        return tf.distribute.get_replica_context().merge_call(take_off, args=(tf.identity(share), *variables))


def _shrink(variable: tf.Variable, share: tf.Tensor) -> tf.Tensor:
    return variable.assign_sub(share * variable)


def _added_up(gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor | tf.IndexedSlices:
    """Returns a gradient in which each row occurs once, else the norm would not be that of their sum."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, place = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, place, tf.size(rows))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def _scaled(gradient: tf.Tensor | tf.IndexedSlices, factor: float) -> tf.Tensor | tf.IndexedSlices:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
    return gradient * factor


def _dense_part(gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor:
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
