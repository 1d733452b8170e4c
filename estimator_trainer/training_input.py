"""The training input of one task: which part of it the task reads, and where it begins."""

from collections.abc import Callable, Mapping
from typing import Any

from estimator_trainer import resumption
from estimator_trainer.compat import tf
from estimator_trainer.resumption import InputPosition
from estimator_trainer.topology import Topology
from estimator_trainer.user_fns import bind_input_fn, takes_input_context
from estimator_trainer.voting import Group


class TrainingInput:
    """The training input of one task.

    Attributes:
        position: how far the task is in it.
        line: where it begins, for the head of the run; '' where it has never been read.
    """

    def __init__(
        self, input_fn: Callable | None, topology: Topology, config: tf.estimator.RunConfig, bindings: Mapping[str, str]
    ):
        self._input_fn = input_fn
        self._topology = topology
        self._config = config
        seed = config.tf_random_seed
        self.position = InputPosition(
            resumption.key_of(bindings, topology), resumption.draw_seed() if seed is None else seed
        )
        self._wrap: Callable[[tf.data.Dataset], tf.data.Dataset] = lambda dataset: dataset
        if not topology.has_ps:
            self.position.per_step = replicas_of(config, topology)
        self.line = ''

    def share(self, group: Group) -> None:
        """Has all tasks of a group know ahead of the end of this input."""
        self._wrap = group.wrap

    def resume(self, before: Mapping[str, Any], step: int, restored_by_hook: bool, training_went_on: bool) -> None:
        """Finds where the input begins.

        Args:
            before: the record of the process that was this task before; {} begins at the beginning.
            step: global_step of the newest checkpoint.
            restored_by_hook: whether a hook of the user's restores the state of the input.
            training_went_on: whether the other tasks have trained since, so that no checkpoint was restored.
        """
        position = self.position
        position.first_step = step
        old = None if restored_by_hook else resumption.interrupted(before, position.key)
        if old is not None:
            position.skipped = old.latest if training_went_on else old.batches_at(step)
            position.seed = old.seed
        if position.skipped:
            self.line = f'goes on after the {position.skipped:,} batches that an interrupted run has trained on'
        elif step:
            self.line = 'goes on where it had stopped' if restored_by_hook else 'starts again from its beginning'

    def bound_input_fn(self) -> Callable:
        """Returns the input_fn with Estimator's full signature, for this task."""
        return bind_input_fn(self._input_fn, self.position.seed, self._topology, self.position.skipped, self._wrap)

    @property
    def part(self) -> str:
        """Which part of the input is this task's, to be added to an error."""
        pipelines, index = self._topology.input_shard
        return f' for {self._topology.task}, input pipeline {index} of {pipelines}' if pipelines > 1 else ''

    @property
    def warning(self) -> str | None:
        """What is to be said where several tasks train and each would read everything."""
        pipelines = len(self._topology.training_tasks)
        if pipelines == 1 or takes_input_context(self._input_fn):
            return None
        return (
            'experiment.train_input_fn takes no input_context and no input_pipeline_id, so each of the '
            f'{pipelines} training tasks reads all of the input'
        )


def replicas_of(config: tf.estimator.RunConfig, topology: Topology) -> int:
    """Returns the number of replicas in one training task, each of which reads a batch a step."""
    if config.train_distribute is None:
        return 1
    replicas = config.train_distribute.num_replicas_in_sync
    return replicas // len(topology.training_tasks) if topology.is_collective else replicas
