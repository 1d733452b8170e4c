"""What replicas find out together: sums over all of them, in the graph of a model_fn.

Not `ReplicaContext.all_reduce`: in the graphs of Estimator it refuses values that depend on variables.
"""

import contextlib
from collections.abc import Sequence

from estimator_trainer.compat import tf

_SUM = tf.distribute.ReduceOp.SUM
_GRADIENT = 'EstimatorTrainerSumOverReplicas'
_Values = Sequence[tf.Tensor | tf.IndexedSlices]


def several() -> bool:
    """Returns whether there are replicas that make each step together."""
    return tf.distribute.get_strategy().num_replicas_in_sync > 1


def summed(values: _Values) -> _Values:
    """Returns the sum over the replicas of each value, the same on each replica; without a gradient.

    All replicas must call it, in the same order.
    """
    if not several():
        return values

    def add_up(strategy, *values):
        return strategy.extended.batch_reduce_to(_SUM, [(value, value) for value in values])

    return tf.distribute.get_replica_context().merge_call(add_up, args=tuple(values))


def differentiable_sum(value: tf.Tensor) -> tf.Tensor:
    """Returns the sum of a value over the replicas, for a loss that is added up over them too.

    A sum is part of what each replica loses, so its gradient is the sum of their gradients.
    """
    if not several():
        return value
    (total,) = summed([value])
    with tf.compat.v1.get_default_graph().gradient_override_map({'IdentityN': _GRADIENT}):
        return tf.identity_n([tf.stop_gradient(total), value])[0]


def _gradient(op: tf.Operation, of_total: tf.Tensor, of_value: tf.Tensor) -> tuple[None, tf.Tensor]:
    del op, of_value  # What is returned is the total alone.
    return None, summed([of_total])[0]


with contextlib.suppress(KeyError):  # registered by this module, imported once more
    tf.RegisterGradient(_GRADIENT)(_gradient)
