"""How the tasks of a synchronous cluster decide together when to stop and when to save.

They make each step together, so what one of them does alone, the others wait for without end. Therefore each step also
adds up a small table over all tasks, their votes: what each task wants is known to all after the same step, and all act
on it after that step. A task whose input has ended says so one step ahead: its dataset is read one round early.
"""

# ruff: noqa: D102 (SessionRunHook documents its methods)

import dataclasses
import time
import types
from collections.abc import Callable, Sequence
from typing import Any

from estimator_trainer.compat import private, tf
from estimator_trainer.topology import Task
from estimator_trainer.user_fns import BATCH_SIZES

# What a task can say, each a row of the table.
INPUT_ENDS, STOP, SIGNAL, SAVE = range(4)
# Graph collections: int64 [rows but the first, tasks], what this task says; int64 [rows, tasks], what all tasks say.
_OWN, _ALL = 'estimator_trainer/own_votes', 'estimator_trainer/votes'
_FEATURES, _NEWS = 'estimator_trainer/features', 'estimator_trainer/news'
_SECONDS_TO_COUNT = 10.0


@dataclasses.dataclass(frozen=True)
class Group:
    """The tasks that step together.

    Attributes:
        tasks: all of them.
        index: which of them is this one.
        replicas: number of replicas in each.
        pad: whether input that has ended is read again until that of all tasks has ended.
    """

    tasks: Sequence[Task]
    index: int
    replicas: int
    pad: bool

    def wrap(self, data: tf.data.Dataset) -> tf.data.Dataset:
        """Returns a dataset of the same batches, each with the news whether it is followed by one for each replica.

        The news are among the features, in a structure that `unwrap` takes apart.
        """
        batches = data.map(lambda *batch: (_packed(batch), True))
        if self.pad:
            rest = data.repeat().map(lambda *batch: (_packed(batch), False))
        else:
            rest = tf.data.Dataset.range(self.replicas).map(lambda _: (tf.raw_ops.OptionalNone(), False))
        # What was read is held back for one round: the first is the oldest.
        nothing = tuple((tf.raw_ops.OptionalNone(), tf.constant(False)) for _ in range(self.replicas))
        column = tf.one_hot(self.index, len(self.tasks), dtype=tf.int64)

        def exchange(held, read):
            (oldest, is_new), *others = held
            return (*others, read), (oldest, is_new, read[1])

        def with_news(packed, is_new, more):
            batch = _unpacked(packed, data.element_spec)
            features, *labels = batch if isinstance(batch, tuple) else (batch,)
            ends = (1 - tf.cast(more, tf.int64)) * column
            news = {_FEATURES: features, _NEWS: (ends, is_new)}
            return (news, *labels) if labels else news

        return batches.concatenate(rest).scan(nothing, exchange).skip(self.replicas).map(with_news)


def _packed(batch: tuple) -> tf.Tensor:
    """Returns an element of a dataset as one variant tensor, which `scan` can hold whatever is in it."""
    return tf.raw_ops.OptionalFromValue(components=tf.nest.flatten(batch, expand_composites=True))


def _unpacked(packed: tf.Tensor, spec: Any) -> Any:
    specs = tf.nest.flatten(spec, expand_composites=True)
    values = tf.raw_ops.OptionalGetValue(
        optional=packed, output_types=[each.dtype for each in specs], output_shapes=[each.shape for each in specs]
    )
    return tf.nest.pack_sequence_as(spec, values, expand_composites=True)


def unwrap(features: Any) -> tuple[Any, Any]:
    """Adds the votes of one replica to its graph, where `features` come from a dataset of `Group.wrap`.

    To be called in the replica's context.

    Returns:
        The features as they were, and whether the batch is new (a bool or bool scalar).
    """
    if not isinstance(features, dict) or _NEWS not in features:
        return features, True
    ends, is_new = features[_NEWS]
    _add_vote(ends)
    return features[_FEATURES], is_new


def _add_vote(ends: tf.Tensor) -> None:
    graph = tf.compat.v1.get_default_graph()
    count = ends.shape[0]
    own = tf.zeros([SAVE, count], tf.int64)
    if not graph.get_collection(_OWN):  # one replica is enough to say what is the task's
        own = tf.compat.v1.placeholder_with_default(own, [SAVE, count], 'own_votes')
        graph.add_to_collection(_OWN, own)
    votes = tf.distribute.get_replica_context().all_reduce(
        tf.distribute.ReduceOp.SUM, tf.concat([ends[tf.newaxis], own], 0)
    )
    graph.add_to_collection(_ALL, votes)


class VotingHook(tf.compat.v1.train.SessionRunHook):
    """Tells the other tasks what this one wants, and stops all of them after the same step. Comes after other hooks.

    Attributes:
        save: whether a checkpoint is to be saved after this step.
        runs: number of steps so far, the same in each task.
        stopped_because: 'end_of_input', 'early_stopping' or 'signal', once that has been decided.
        unread: number of examples that were not trained on since the input of another task had ended; None where they
            could not be counted.
        notes: what is to be said of the input.
    """

    def __init__(
        self,
        group: Group,
        signalled: Callable[[], bool],
        on_signal: Callable[[list[Task]], None],
        save_secs: float | None,
        save_steps: int | None,
        max_steps: int | None,
        finite: Callable[[], bool],
        on_last: Callable[[], None],
        on_lost: Callable[[], None],
    ):
        """Takes what a vote depends on.

        Args:
            group: the tasks that vote.
            signalled: whether this task was told to stop.
            on_signal: called with those that were, where it is another task.
            save_secs: seconds from one checkpoint to the next, by the clock of the first task.
            save_steps: steps from one checkpoint to the next.
            max_steps: the global_step at which all stop by themselves.
            finite: whether the input of this task ends.
            on_last: called after the last step.
            on_lost: called when a step has failed, since another task has gone; to raise an error.
        """
        self._group = group
        self._signalled, self._on_signal = signalled, on_signal
        self._save_secs, self._save_steps, self._max_steps = save_secs, save_steps, max_steps
        self._finite, self._on_last, self._on_lost = finite, on_last, on_lost
        self.save = False
        self.runs = 0
        self.stopped_because: str | None = None
        self.unread: int | None = 0
        self.notes: list[str] = []
        self._wants_stop = self._had_session = False
        self._ended: set[Task] = set()

    def begin(self):
        graph = tf.compat.v1.get_default_graph()
        self._own, self._votes = graph.get_collection(_OWN)[0], graph.get_collection(_ALL)[0]
        self._step = tf.compat.v1.train.get_global_step()
        self._sizes = graph.get_collection(BATCH_SIZES)

    def after_create_session(self, session, coord):
        if self._had_session:  # a step with the others has failed, and what they are doing now is not known
            self._on_lost()
        self._had_session = True
        self._saved_step = int(session.run(self._step))
        self._saved_time = time.monotonic()

    def before_run(self, run_context):
        own = [[0] * len(self._group.tasks) for _ in range(SAVE)]
        due = self._group.index == 0 and self._save_secs and time.monotonic() - self._saved_time >= self._save_secs
        for row, says in ((STOP, self._wants_stop), (SIGNAL, self._signalled()), (SAVE, due)):
            own[row - 1][self._group.index] = int(bool(says))
        return tf.compat.v1.train.SessionRunArgs([self._votes, self._step], {self._own: own})

    def after_run(self, run_context, run_values):
        votes, step = run_values.results
        self.runs += 1
        says = [[task for task, vote in zip(self._group.tasks, row, strict=True) if vote] for row in votes]
        # What was read of the step may be from before or after its update.
        self.save = bool(says[SAVE])
        if self._save_steps and int(step) + 1 >= self._saved_step + self._save_steps:
            self.save = int(run_context.session.run(self._step)) >= self._saved_step + self._save_steps
        if self.save:
            self._saved_step, self._saved_time = int(run_context.session.run(self._step)), time.monotonic()
        self._note_input(says[INPUT_ENDS])
        others = [task for task in says[SIGNAL] if task != self._group.tasks[self._group.index]]
        if others and not self._signalled():
            self._on_signal(others)
        if says[SIGNAL]:
            self.stopped_because = 'signal'
        elif says[STOP]:
            self.stopped_because = 'early_stopping'
        elif len(says[INPUT_ENDS]) >= (len(self._group.tasks) if self._group.pad else 1):
            self.stopped_because = 'end_of_input'
        if self.stopped_because:
            run_context.request_stop()
        elif run_context.stop_requested and not self._at_max_steps(run_context.session):
            # Another hook of this task alone wants to stop: all do, one step later.
            self._wants_stop = True
            private.withdraw_stop(run_context)
        if run_context.stop_requested:
            self._on_last()

    def _at_max_steps(self, session) -> bool:
        return self._max_steps is not None and int(session.run(self._step)) >= self._max_steps

    def _note_input(self, ended: Sequence[Task]) -> None:
        for task in ended:
            if task not in self._ended and len(ended) < len(self._group.tasks):
                does = 'is read again until the others have read theirs' if self._group.pad else 'so all tasks stop'
                self.notes.append(f'the input of {task} has ended after {self.runs:,} steps: {does}')
        self._ended.update(ended)

    def end(self, session):
        me = self._group.tasks[self._group.index]
        if self.stopped_because == 'end_of_input' and not self._group.pad and me not in self._ended:
            self.unread = self._count_unread(session)

    def _count_unread(self, session) -> int | None:
        if not self._finite() or not self._sizes:
            return None
        count, end = 0, time.monotonic() + _SECONDS_TO_COUNT
        for size in self._sizes:
            try:
                while time.monotonic() < end:
                    count += int(session.run(size))
                return None
            except tf.errors.OutOfRangeError:
                pass
        return count


def hooks(
    voting: VotingHook,
    config: tf.estimator.RunConfig,
    directory: str,
    listeners: Sequence[tf.compat.v1.train.CheckpointSaverListener],
) -> list[tf.compat.v1.train.SessionRunHook]:
    """Returns the hooks of a task that steps together with others: they vote, save and write summaries.

    Args:
        voting: decides.
        config: tells which files are wanted.
        directory: where they go.
        listeners: told of each checkpoint.
    """
    made = [voting]
    if config.save_summary_steps:
        made.append(SynchronousSummaryHook(voting, config.save_summary_steps, directory))
    if config.save_checkpoints_steps or config.save_checkpoints_secs:
        made.append(SynchronousSaverHook(voting, directory, listeners=listeners))
    return made


class SynchronousSaverHook(tf.compat.v1.train.CheckpointSaverHook):
    """Saves checkpoints, where all tasks vote for it: a save may have to read variables of the others."""

    def __init__(self, voting: VotingHook, *arguments: Any, **fields: Any):
        super().__init__(*arguments, save_steps=1, **fields)
        self._voting = voting

    def after_run(self, run_context, run_values):
        if self._voting.save:
            super().after_run(run_context, run_values)


class SynchronousSummaryHook(tf.compat.v1.train.SummarySaverHook):
    """Writes summaries at the same steps in all tasks: they, too, may need the others."""

    def __init__(self, voting: VotingHook, every_n_steps: int, output_dir: str):
        # The summaries are known when the graph is complete: what has a summary_op stands for the scaffold.
        self._later = types.SimpleNamespace(summary_op=None)
        super().__init__(save_steps=1, output_dir=output_dir, scaffold=self._later)
        self._voting = voting
        self._every_n_steps = every_n_steps
        self._due = False

    def begin(self):
        super().begin()
        self._later.summary_op = tf.compat.v1.summary.merge_all()

    def before_run(self, run_context):
        self._due = self._voting.runs % self._every_n_steps == 0
        return super().before_run(run_context) if self._due else None

    def after_run(self, run_context, run_values):
        if self._due:
            super().after_run(run_context, run_values)
