"""Saves the last step of a training that does not end in good order, so that what it has learnt is not lost."""

# ruff: noqa: D102 (SessionRunHook documents its methods)

import collections
import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from estimator_trainer import checkpoints, console
from estimator_trainer.compat import tf
from estimator_trainer.errors import tensorflow_message
from estimator_trainer.finite import NotFinite

# Kinds of ops that change variables, or may do so in a function that they call.
_UPDATE = re.compile(r'(Assign|(Resource|Sparse)*(Apply|Scatter(?!Nd$))|StatefulPartitionedCall|(While|If|Case)$)')
# How an error names the ops that it comes from, the innermost first.
_NODE = re.compile(r'\[\[(?:\{\{node )?([^\s{}\]]+)')


class LastStepHook(tf.compat.v1.train.SessionRunHook):
    """Saves checkpoints out of turn: when a training without peers fails, and when its process must end in a step.

    Tasks with peers may not be able to save alone, and one of these is lost when another fails.
    """

    def __init__(self, run: Any):
        """Takes the `run.Run` that trains."""
        self._run = run
        self._ended = False

    def begin(self):
        self._step = tf.compat.v1.train.get_global_step()

    def after_create_session(self, session, coord):
        self._session = session
        if saves_checkpoints(self._run.config) and not self._run.topology.is_distributed:
            coord.register_thread(_BeforeClosing(self._save_last_step))

    def end(self, session):
        self._ended = True

    def emergency_save(self) -> str:
        """Saves the training's state while a step runs, from another thread, and returns what to say of it.

        Variables may hold a part of that step's updates.

        Raises:
            NotFinite: a weight is not finite.
        """
        path = self._save()
        self._warn_of_part(path)
        return f'saved {path} in the middle of it'

    def _save_last_step(self) -> None:
        """Saves, if training has failed, what it has done since the last checkpoint."""
        error = sys.exc_info()[1]
        if self._ended or isinstance(error, NotFinite):
            return
        try:
            newest = checkpoints.newest(self._run.model_dir)
            if int(self._session.run(self._step)) <= (checkpoints.step_of(newest) if newest else 0):
                return
            path = self._save()
            if self._is_in_part(error):
                self._warn_of_part(path)
            else:
                console.say(f'saved {path} of the last step')
        except Exception as further:  # What has gone wrong first is what matters.
            console.say(f'cannot save the last step: {tensorflow_message(further) or further}')

    def _save(self) -> str:
        run, session = self._run, self._session
        with session.graph.as_default():  # a thread has a default graph of its own
            run.watch.check_weights(session)
            savers = session.graph.get_collection(tf.compat.v1.GraphKeys.SAVERS)
            path = (run.model.training_specs[0].scaffold.saver or savers[0]).save(
                session,
                os.path.join(run.model_dir, 'model.ckpt'),
                global_step=int(session.run(self._step)),
                write_meta_graph=run.config.checkpoint_save_graph_def,
            )
        run.saved_step = checkpoints.step_of(path)
        return path

    def _warn_of_part(self, path: str) -> None:
        self._run.report.warn(f'{path} was saved in the middle of a step, which may be applied in part')

    def _is_in_part(self, error: BaseException | None) -> bool:
        """Whether the error has interrupted a step that may have changed a variable before."""
        if not self._run.hook.in_step or not isinstance(error, tf.errors.OpError):
            return False
        failed = _failed_op(error, self._session.graph)
        train_ops = [getattr(spec.train_op, 'op', spec.train_op) for spec in self._run.model.training_specs]
        return failed is None or not precedes_updates(failed, train_ops)


class _BeforeClosing(threading.Thread):
    """Calls a function before a session is closed: its coordinator asks, then, whether the threads that it has live.

    No thread of its own, which would have to guess when the main thread has come that far, and could not see the error.
    """

    def __init__(self, function: Callable[[], None]):
        super().__init__(name='before closing')
        self._function: Callable[[], None] | None = function

    def is_alive(self) -> bool:
        function, self._function = self._function, None
        if function is not None:
            function()
        return False


def saves_checkpoints(config: tf.estimator.RunConfig) -> bool:
    """Returns whether a training saves checkpoints."""
    return bool(config.save_checkpoints_steps or config.save_checkpoints_secs)


def _failed_op(error: tf.errors.OpError, graph: tf.Graph) -> tf.Operation | None:
    """Returns the op of the graph that has failed: the innermost, for one in a function is no op of the graph."""
    for name in _NODE.findall(error.message):
        with contextlib.suppress(KeyError, ValueError):
            return graph.get_operation_by_name(name)
    return None


def precedes_updates(op: tf.Operation, train_ops: Sequence[tf.Operation]) -> bool:
    """Returns whether all that changes variables in a run of `train_ops` waits for `op`, and for its success."""
    followers, left = collections.defaultdict(list), list(train_ops)
    reached = set(left)
    while left:
        follower = left.pop()
        for needed in {tensor.op for tensor in follower.inputs}.union(follower.control_inputs):
            followers[needed].append(follower)
            if needed not in reached:
                reached.add(needed)
                left.append(needed)
    after, left = {op}, [op]
    while left:
        new = set(followers[left.pop()]) - after
        after |= new
        left += new
    return all(each in after for each in reached if _UPDATE.match(each.type))
