"""Sees to it that checkpoints hold finite weights only, and that training ends where its loss is not finite.

Estimator's own hook looks at the loss alone, and after checkpoints have been saved: then the newest holds weights that
are lost, and each restart fails again (https://github.com/google/automl/issues/59).
"""

import math
import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from estimator_trainer import checkpoints, files
from estimator_trainer.compat import tf
from estimator_trainer.errors import TrainerError

_LISTED = 3  # of the names found, so many are told
_STATE = 'model_checkpoint_path: "{}"'  # how the file `checkpoint` begins, and all of it that is needed
_CHECKED = (tf.float16, tf.bfloat16, tf.float32, tf.float64)


class NotFinite(TrainerError):
    """The loss, or a weight, is not finite."""


class Weights:
    """The trainable float variables of the training graph. Others may hold an infinite value on purpose.

    Attributes:
        names: their names, as in a checkpoint; one for each part of a variable in parts.
    """

    def __init__(self):
        self.names: list[str] = []
        self._graph: tf.Graph | None = None

    def build(self) -> None:
        """Adds to the current graph what `not_finite` runs, once."""
        graph = tf.compat.v1.get_default_graph()
        if self._graph is graph:
            return
        variables = [
            variable for variable in tf.compat.v1.trainable_variables() if variable.dtype.base_dtype in _CHECKED
        ]
        self.names = [_name_of(variable) for variable in variables]
        finite = [_is_finite(variable) for variable in variables]
        self._graph, self._finite = graph, tf.stack(finite) if finite else ()

    def not_finite(self, session: tf.compat.v1.Session) -> list[str]:
        """Returns the names of those that hold a NaN or an infinity."""
        finite = session.run(self._finite)
        return list(dict.fromkeys(name for name, is_finite in zip(self.names, finite, strict=True) if not is_finite))


def _name_of(variable: Any) -> str:
    proto = variable.to_proto()  # the public way to learn that a variable is a part of another
    return proto.save_slice_info_def.full_name or variable.name.partition(':')[0]


def _is_finite(variable: Any) -> tf.Tensor:
    with tf.device(variable.device):  # where its values are, so that one bit of it travels
        value = variable.read_value()
        if value.dtype == tf.bfloat16:
            value = tf.cast(value, tf.float32)  # a GPU may have no such kernel
        return tf.reduce_all(tf.math.is_finite(value))


class Watch:
    """Looks whether the loss and the weights of one task's training are finite.

    Attributes:
        weights: those of the training.
        hook: for the training, ahead of the user's hooks.
        listener: for the hook that saves checkpoints.
    """

    def __init__(self, run: Any):
        """Takes the `run.Run` that trains."""
        self._run = run
        self.weights = Weights()
        self.hook = _LossHook(self)
        self.listener = _SavingListener(self)

    def begin(self) -> None:
        """Adds to the training graph what the checks need."""
        self.weights.build()
        self._step = tf.compat.v1.train.get_global_step()

    def check_start(self, session: tf.compat.v1.Session) -> None:
        """Looks at the weights with which a task begins that has restored or initialised them.

        Raises:
            NotFinite: a weight is not finite.
        """
        if self._run.topology.is_chief or not self._run.topology.has_ps:
            self.check_weights(session)

    def check_weights(self, session: tf.compat.v1.Session) -> None:
        """Looks at the weights alone, from any thread.

        Raises:
            NotFinite: a weight is not finite.
        """
        if names := self.weights.not_finite(session):
            raise self._error(session, names)

    def check_loss(self, session: tf.compat.v1.Session) -> None:
        """Looks at the loss of the last run.

        Raises:
            NotFinite: it is not finite; tells which weights are not, either.
        """
        if not math.isfinite(self._run.hook.loss):
            raise self._error(session, self.weights.not_finite(session))

    def check_saved(self, session: tf.compat.v1.Session) -> None:
        """Looks at the checkpoint just saved, where others may have changed the weights meanwhile; may take it back.

        Raises:
            NotFinite: a weight is not finite now.
        """
        if self._run.topology.has_ps and (names := self.weights.not_finite(session)):
            checkpoint = checkpoints.newest(self._run.model_dir)
            if not is_finite(checkpoint, names):
                _take_back(checkpoint, self._run.model_dir)
            raise self._error(session, names)

    def _error(self, session: tf.compat.v1.Session, names: Sequence[str]) -> NotFinite:
        error = NotFinite(self._message(session, names))
        # That peers fail, too, is not the cause. Only now, for without them the session would wait for ever.
        self._run.lifecycle.needs_peers = False
        return error

    def _message(self, session: tf.compat.v1.Session, names: Sequence[str]) -> str:
        run, hook = self._run, self._run.hook
        if not hook.runs:
            return _bad_start(run.summary.restored_from, run.model_dir, names, self.weights.names)
        hook.step = int(session.run(self._step))
        parts = [] if math.isfinite(hook.loss) else [f'loss is {hook.loss:g} ({self._loss_name()})']
        if names:
            parts.append(f'not finite: {_listed(names)}')
        last = checkpoints.newest(run.model_dir)
        parts.append(f'the last finite checkpoint is {last}' if last else 'there is no checkpoint')
        return f'step {hook.step:,}: {"; ".join(parts)}'

    def _loss_name(self) -> str:
        """Returns the name of the model_fn's loss, not that of what Estimator makes of those of several replicas."""
        return self._run.model.training_specs[0].loss.op.name


class _LossHook(tf.compat.v1.train.SessionRunHook):
    def __init__(self, watch: Watch):
        self._watch = watch

    def begin(self):
        self._watch.begin()

    def after_create_session(self, session, coord):
        self._watch.check_start(session)

    def after_run(self, run_context, run_values):
        self._watch.check_loss(run_context.session)


class _SavingListener(tf.compat.v1.train.CheckpointSaverListener):
    def __init__(self, watch: Watch):
        self._watch = watch

    def begin(self):
        self._watch.begin()

    def before_save(self, session, global_step_value):
        self._watch.check_weights(session)

    def after_save(self, session, global_step_value):
        self._watch.check_saved(session)


def is_finite(checkpoint: str, names: Sequence[str]) -> bool:
    """Returns whether those of the variables `names` that a checkpoint holds are finite; False if it is unreadable."""
    try:
        reader = tf.train.load_checkpoint(checkpoint)
        there = reader.get_variable_to_shape_map()
        return all(np.isfinite(reader.get_tensor(name)).all() for name in dict.fromkeys(names) if name in there)
    except (tf.errors.OpError, ValueError):
        return False


def _bad_start(restored: str | None, model_dir: str, bad: Sequence[str], names: Sequence[str]) -> str:
    """Returns what is to be said where training begins with weights that are not finite."""
    if restored is None:
        return f'the weights are not finite before the first step: {_listed(bad)}'
    found = f'{restored}, from which training would go on, is not finite: {_listed(bad)}'
    older = _newest_finite(restored, names)
    if older is None:
        return f'{found}; nor is any older checkpoint in {model_dir}: begin anew in another --model_dir'
    state = os.path.join(model_dir, 'checkpoint')
    return (
        f'{found}; to go on from {older}, the newest finite one, remove {restored}.* and replace the '
        f'content of {state} by {_STATE.format(os.path.basename(older))}'
    )


def _newest_finite(restored: str, names: Sequence[str]) -> str | None:
    """Returns the newest finite checkpoint that is older than the one restored, or None."""
    steps = {}
    for path in tf.io.gfile.glob(f'{re.sub("[0-9]+$", "", restored)}*.index'):
        prefix = path.removesuffix('.index')
        if found := re.search(r'-(\d+)$', prefix):
            steps[int(found[1])] = prefix
    before = int(re.search(r'\d*$', restored)[0] or 0)
    older = (steps[step] for step in sorted(steps, reverse=True) if step < before)
    return next((prefix for prefix in older if is_finite(prefix, names)), None)


def _take_back(checkpoint: str, model_dir: str) -> None:
    """Removes a checkpoint that was saved just now, and has the one before it be the newest again."""
    paths = tf.train.get_checkpoint_state(model_dir).all_model_checkpoint_paths
    names = [os.path.basename(path) for path in paths if path != checkpoint]
    state = os.path.join(model_dir, 'checkpoint')
    if names:
        # As a Saver with relative paths writes it; the public function to update it makes them absolute.
        lines = [_STATE.format(names[-1]), *(f'all_model_checkpoint_paths: "{name}"' for name in names)]
        files.replace(state, '\n'.join([*lines, '']))
    else:
        tf.io.gfile.remove(state)
    tf.compat.v1.train.remove_checkpoint(checkpoint)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return f'{", ".join(names[:_LISTED])}{f" and {more} more" * (more > 0)}'
