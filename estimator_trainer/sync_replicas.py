"""Synchronous training on a parameter-server cluster: a step is the mean of the gradients of all training tasks.

In TensorFlow's SyncReplicasOptimizer the tasks push their gradients to accumulators on the ps and wait for a token; the
chief applies the mean and hands out the tokens. It lacks an end: who has left makes no more gradients, and the others
wait for tokens for ever. Here who ends closes the queue of tokens, which ends the training of all in good order: for
each of them it is as if its input had ended.
"""

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import gin

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError

_v1 = tf.compat.v1
# Graph collections. Those whose names are no strings are not written to files.
_CONFIG = ('estimator_trainer', 'run_config')
_SYNCHRONOUS = ('estimator_trainer', 'sync_replicas')


@dataclasses.dataclass(frozen=True)
class Synchronous:
    """What makes a training graph synchronous.

    Attributes:
        optimizer: has put the accumulators and tokens into the graph.
        tasks: number of training tasks.
        aggregated: number of gradients that a step is the mean of.
    """

    optimizer: _v1.train.SyncReplicasOptimizer
    tasks: int
    aggregated: int

    @property
    def needs_all(self) -> bool:
        """Whether no step can be made without each of the tasks."""
        return self.aggregated >= self.tasks


def tell(config: tf.estimator.RunConfig) -> None:
    """Tells the optimizers of the current graph, which are made before the cluster is known, for which task it is."""
    _v1.get_default_graph().get_collection_ref(_CONFIG)[:] = [config]


def of(graph: tf.Graph) -> Synchronous | None:
    """Returns what makes a training graph synchronous, None where nothing does."""
    return next(iter(graph.get_collection(_SYNCHRONOUS)), None)


@gin.configurable(module='estimator_trainer')
def sync_replicas(
    optimizer: _v1.train.Optimizer | Callable[[], _v1.train.Optimizer] = gin.REQUIRED,
    replicas_to_aggregate: int | None = None,
) -> _v1.train.Optimizer:
    """Returns an optimizer that makes the training of a parameter-server cluster synchronous.

    With a single training task it does what `optimizer` does.

    Args:
        optimizer: an optimizer of tf.compat.v1.train, or a class or function that makes one.
        replicas_to_aggregate: number of gradients that a step is the mean of; None for one of each training task. With
            fewer the slowest tasks of a step are not waited for, and their gradients are dropped.

    Raises:
        UserError: a value of the wrong kind.
    """
    if callable(optimizer):
        optimizer = optimizer()
    if not isinstance(optimizer, _v1.train.Optimizer):
        raise UserError(
            f'sync_replicas.optimizer: expected an optimizer of tf.compat.v1.train, e.g. @AdamOptimizer(), found '
            f'{optimizer!r}'
        )
    number = replicas_to_aggregate
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
        raise UserError(
            f'sync_replicas.replicas_to_aggregate: expected a number of at least 1, or None; found {number!r}'
        )
    return _SyncReplicas(optimizer, number)


class _SyncReplicas(_v1.train.Optimizer):
    """Is the optimizer that it holds, or makes that synchronous: the graph in which it is used decides."""

    def __init__(self, optimizer: _v1.train.Optimizer, replicas_to_aggregate: int | None):
        super().__init__(use_locking=False, name='sync_replicas')
        self._optimizer = optimizer
        self._replicas_to_aggregate = replicas_to_aggregate

    def compute_gradients(self, *arguments: Any, **named: Any):
        return self._optimizer.compute_gradients(*arguments, **named)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        graph = _v1.get_default_graph()
        config = next(iter(graph.get_collection(_CONFIG)), None)
        tasks = config.num_worker_replicas if config is not None else 1
        strategy = config.train_distribute if config is not None else None
        if isinstance(strategy, _v1.distribute.experimental.ParameterServerStrategy):
            raise UserError(
                "sync_replicas: RunConfig.train_distribute is a ParameterServerStrategy; expected 'parameter_server'"
            )
        if tasks < 2 or strategy is not None:
            return self._optimizer.apply_gradients(grads_and_vars, global_step, name)
        if global_step is None:
            raise UserError(
                'sync_replicas: the model calls minimize or apply_gradients without global_step (as canned Estimators '
                'with two optimizers do); expected optimizer.minimize(loss, global_step)'
            )
        if of(graph) is not None:
            raise UserError('sync_replicas: a model can have one synchronous optimizer; found a second')
        aggregated = self._replicas_to_aggregate or tasks
        synchronous = _v1.train.SyncReplicasOptimizer(self._optimizer, aggregated, tasks)
        # Else what the caller has the train_op wait for, such as updates of moving averages, would also run, and read a
        # batch, whenever the chief applies the mean.
        with tf.control_dependencies(None):
            train_op = synchronous.apply_gradients(grads_and_vars, global_step, name)
            tf.identity(synchronous.ready_for_local_init_op)  # TensorFlow warns of it as long as nobody uses it
        graph.add_to_collection(_SYNCHRONOUS, Synchronous(synchronous, tasks, aggregated))
        return tf.group(train_op, name=name or 'sync_replicas')

    def get_slot(self, *arguments: Any, **named: Any):
        return self._optimizer.get_slot(*arguments, **named)

    def get_slot_names(self, *arguments: Any, **named: Any):
        return self._optimizer.get_slot_names(*arguments, **named)

    def variables(self):
        return self._optimizer.variables()


class SyncHook(_v1.train.SessionRunHook):
    """Starts synchronous training in this task's session, and ends that of all tasks when this task's ends.

    On the chief it must come before the hook that saves the last checkpoint.
    """

    def __init__(self, synchronous: Synchronous, is_chief: bool, on_end: Callable[[bool], None]):
        """Takes what to do.

        Args:
            synchronous: of the training graph.
            is_chief: whether this task applies the means.
            on_end: called at the end, before the others are told, with whether another task has ended training before.
        """
        self._synchronous = synchronous
        self._is_chief = is_chief
        self._on_end = on_end
        self._ended = False
        self._error: Exception | None = None

    def begin(self):  # noqa: D102
        optimizer = self._synchronous.optimizer
        runner = optimizer.get_chief_queue_runner()
        self._apply, self._close = runner.enqueue_ops, runner.cancel_op
        with _v1.colocate_with(runner.queue.queue_ref):
            self._is_closed = runner.queue.is_closed()
        if not self._is_chief:
            self._start = [optimizer.local_step_init_op]
            return
        # No more tokens at first than it takes: with one each, tasks would begin their second step before the first has
        # changed the variables, and the gradients of that are dropped.
        tokens = max(self._synchronous.aggregated - self._synchronous.tasks, 0)
        self._start = [optimizer.chief_init_op, optimizer.get_init_tokens_op(tokens)]

    def after_create_session(self, session, coord):  # noqa: D102
        self._session = session
        for op in self._start:
            session.run(op)
        if self._is_chief:
            # Not a thread of the coordinator, which waits two minutes for those: this one ends with the session.
            threading.Thread(target=self._apply_means, args=(session,), name='sync_replicas', daemon=True).start()

    def _apply_means(self, session: _v1.Session) -> None:
        try:
            while not self._ended:
                session.run(self._apply)
        except Exception as error:
            if self._ended or isinstance(error, tf.errors.CancelledError):  # the queue or the session is closed
                return
            self._error = error
            self.release()

    def release(self) -> None:
        """Ends the training of all tasks, this one included; may be called by any thread."""
        self._session.run(self._close)

    def end(self, session):  # noqa: D102
        if self._error is not None:
            raise self._error
        self._ended = True
        self._on_end(bool(session.run(self._is_closed)))
        session.run(self._close)
