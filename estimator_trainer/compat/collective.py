"""An Estimator for training tasks that step together.

In it only the hooks it is given save and write summaries, and sparse gradients of any length are added up.
"""

import copy
from collections.abc import Iterable
from typing import Any

from estimator_trainer.compat import exact_evaluation, tf


class Estimator(exact_evaluation.Estimator):
    """See this module.

    The hooks that TensorFlow adds by itself look at a step that need not be the same in all tasks, and those of workers
    leave directories in model_dir.
    """

    def __init__(self, *arguments: Any, **named: Any):
        super().__init__(*arguments, **named)
        _densify(self._train_distribution)  # not that of config, which has another copy

    def _train_with_estimator_spec_distributed(self, estimator_spec: Any, worker_hooks: Any, *listeners: Any) -> Any:
        config = self._config  # the model_fn, called before this, has seen it as it is
        self._config = copy.copy(config)
        self._config._save_checkpoints_secs = self._config._save_checkpoints_steps = None
        self._config._save_summary_steps = None
        if not config.is_chief:
            self._config._log_step_count_steps = None
        try:
            return super()._train_with_estimator_spec_distributed(estimator_spec, worker_hooks, *listeners)
        finally:
            self._config = config


def _densify(strategy: tf.distribute.Strategy) -> None:
    """Has a MultiWorkerMirroredStrategy add up as dense gradients the sparse ones whose length goes by the batch.

    TensorFlow (2.15 to 2.21) gathers sparse ones, by an op that wants the same length in all tasks and all steps.
    """

    def batch_reduce_to(reduce_op: Any, value_destination_pairs: Iterable[tuple[Any, Any]], *options: Any) -> Any:
        # Not that of the argument: Estimator trains with a copy of it, which has this function all the same.
        extended = tf.distribute.get_strategy().extended
        pairs = [(_dense(value), destination) for value, destination in value_destination_pairs]
        return type(extended).batch_reduce_to(extended, reduce_op, pairs, *options)

    strategy.extended.batch_reduce_to = batch_reduce_to


def _dense(value: Any) -> Any:
    if isinstance(value, tf.types.experimental.distributed.PerReplica):
        return type(value)([_dense(one) for one in value.values])
    varies = isinstance(value, tf.IndexedSlices) and value.indices.shape.num_elements() is None
    return tf.convert_to_tensor(value) if varies and value.dense_shape is not None else value
