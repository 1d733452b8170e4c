"""Session hooks that watch a run: they count steps and examples, see why training ends, and stop it when told to."""

import math
import time
from collections.abc import Callable
from typing import Any

from estimator_trainer import console
from estimator_trainer.compat import tf
from estimator_trainer.errors import TrainerError
from estimator_trainer.user_fns import BATCH_SIZES

# A train_op that has not moved global_step in so many runs will not: max_steps would never be reached.
_RUNS_BEFORE_A_STEP = 100
# So near to the last step asynchronous workers look at the exact global_step after each step.
_STEPS_LOOKED_AT_CLOSELY = 100
_EVALUATION_REPORT_SECONDS = 30.0


class Stopped(Exception):
    """Evaluation was broken off because the process was told to stop."""


class TrainingHook(tf.compat.v1.train.SessionRunHook):
    """Counts steps and examples of this task, reports progress and stops training on request.

    Attributes:
        started: whether there has been a session.
        runs: number of runs of the train_op.
        in_step: whether one has begun of which there are no results.
        loss: that of the last run; NaN before the first.
        position: (global_step, runs): at that step the model certainly had the updates of so many runs of this task.
        step: global_step as last seen; exact at the start, at reports and at the end.
        examples: number of examples that this task has consumed, None where batches have no batch dimension.
        growth: by how much the first run of the train_op, and other tasks meanwhile, moved global_step.
        stopped_by_hook: whether another hook of the run asked for the stop.
    """

    def __init__(
        self,
        every_n_steps: int | None,
        should_stop: Callable[[], bool],
        before_session: Callable[[], None],
        on_start: Callable[[], None],
        on_first_step: Callable[[list[int]], None],
        on_step: Callable[[int], None] | None,
        on_progress: Callable[[int, float, float, float | None], None],
        last_step: int | None = None,
    ):
        """Takes what to call when.

        Args:
            every_n_steps: number of steps between two calls of `on_progress`; None or 0 for none.
            should_stop: asked after each step.
            before_session: called when the graph is built, before the session is made.
            on_start: called once the session is ready for the first step.
            on_first_step: called after the first step with the replicas' batch sizes (none where batches have no batch
                dimension).
            on_step: called with global_step after each step.
            on_progress: called with global_step, loss, steps per second and examples per second (or None).
            last_step: with asynchronous workers, the global_step to stop at. Estimator's own hook looks at a value from
                before the others' updates, and may go on for several steps.
        """
        self._every_n_steps = every_n_steps
        self._last_step = last_step
        self._should_stop = should_stop
        self._before_session = before_session
        self._on_start, self._on_first_step, self._on_step = on_start, on_first_step, on_step
        self._on_progress = on_progress
        self.runs = 0
        self.in_step = False
        self.loss = math.nan
        self.position = (0, 0)
        self.step = self.growth = 0
        self.examples: int | None = 0
        self._started = self._stopped = self._mark_time = 0.0
        self._last_run = None
        self._asked_to_stop = False

    @property
    def started(self) -> bool:
        return bool(self._started)

    @property
    def seconds(self) -> float:
        """Seconds since the first session was made, until the last step."""
        return (self._stopped or time.monotonic()) - self._started if self._started else 0.0

    @property
    def stopped_by_hook(self) -> bool:
        # Hooks that run after this one ask after it has looked, hence the look at the context of the last run.
        return self._last_run is not None and self._last_run.stop_requested and not self._asked_to_stop

    def begin(self):
        self._step_tensor = tf.compat.v1.train.get_global_step()
        # Estimator adds the loss that it reports last, after the model's own.
        loss = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.LOSSES)[-1]
        self._fetches = _fetches(self._count, self._step_tensor, loss, _batch_sizes())
        self._before_session()

    def after_create_session(self, session, coord):
        self.step = int(session.run(self._step_tensor))
        if not self.started:  # else the session was made anew after an error
            self._started, self._first_step = time.monotonic(), self.step
            self._on_start()
        self._mark = self.step
        self._mark_time, self._mark_examples = time.monotonic(), self.examples

    def before_run(self, run_context):
        self.in_step = True
        return tf.compat.v1.train.SessionRunArgs(self._fetches)

    def _count(self, step, loss, sizes):
        """Counts a run whose results are there: before any hook is asked about it, for another one may fail first."""
        self.in_step = False
        self.position = (int(step), self.runs)
        self.runs += 1
        self.loss = float(loss)
        self.examples = _add(self.examples, sizes)
        # The step was read at some time during the run, so it may be one short, unless asynchronous workers have moved
        # it on; one run moves it by one.
        self.step = max(self.step + 1, int(step))
        self._stopped = time.monotonic()

    def after_run(self, run_context, run_values):
        if self.runs == 1:
            self.growth = int(run_context.session.run(self._step_tensor)) - self._first_step
            self._on_first_step([int(size) for size in run_values.results[-1]])
        self._last_run = run_context
        if self.runs == _RUNS_BEFORE_A_STEP and int(run_context.session.run(self._step_tensor)) == self._first_step:
            raise TrainerError(
                f'global_step has not moved in {self.runs} runs of the train_op: it must increment '
                'tf.compat.v1.train.get_global_step(), e.g. optimizer.minimize(loss, global_step); for a Keras '
                'optimizer set optimizer.iterations = global_step'
            )
        if self._on_step:
            self._on_step(self.step)
        if self._every_n_steps and self.step >= self._mark + self._every_n_steps:
            self.step = int(run_context.session.run(self._step_tensor))
            if self.step >= self._mark + self._every_n_steps:
                self._report()
        if self._last_step is not None and self.step >= self._last_step - _STEPS_LOOKED_AT_CLOSELY:
            self.step = int(run_context.session.run(self._step_tensor))
        done = self._last_step is not None and self.step >= self._last_step
        if (done or self._should_stop()) and not run_context.stop_requested:
            self._asked_to_stop = True
            run_context.request_stop()

    def leave_out(self, seconds: float) -> None:
        """Takes time that did not go into training, such as for an evaluation, out of all rates."""
        self._started += seconds
        if self.runs:
            self._stopped += seconds  # the time of the last step
        self._mark_time += seconds

    def _report(self) -> None:
        now = time.monotonic()
        seconds = max(now - self._mark_time, 1e-9)
        rate = None if self.examples is None else (self.examples - self._mark_examples) / seconds
        self._on_progress(self.step, self.loss, (self.step - self._mark) / seconds, rate)
        self._mark = self.step
        self._mark_time, self._mark_examples = now, self.examples

    def end(self, session):
        self.step = int(session.run(self._step_tensor))


class LastCheckpointHook(tf.compat.v1.train.CheckpointSaverHook):
    """Saves checkpoints as Estimator's own hook does; before the last one it waits until `before_last` returns."""

    def __init__(self, before_last: Callable[[], None], *arguments: Any, **fields: Any):
        super().__init__(*arguments, **fields)
        self._before_last = before_last

    def end(self, session):
        self._before_last()
        super().end(session)


class EvaluationHook(tf.compat.v1.train.SessionRunHook):
    """Counts the examples of an evaluation and breaks it off on request.

    Attributes:
        examples: number of examples evaluated, None where batches have no batch dimension.
        batches: number of batches evaluated.
    """

    def __init__(self, should_stop: Callable[[], bool], say: Callable[[str], None] = console.out):
        self._should_stop = should_stop
        self._say = say
        self._said = time.monotonic()
        self.examples: int | None = 0
        self.batches = 0

    def begin(self):
        self._sizes = _batch_sizes()

    def before_run(self, run_context):
        return tf.compat.v1.train.SessionRunArgs(self._sizes)

    def after_run(self, run_context, run_values: Any):
        self.batches += 1
        self.examples = _add(self.examples, run_values.results)
        if time.monotonic() - self._said > _EVALUATION_REPORT_SECONDS:
            self._said = time.monotonic()
            self._say(f'evaluating: {self.batches:,} batches so far')
        if self._should_stop():
            raise Stopped

    def end(self, session):
        # Here, for Estimator goes on to write the metrics of nothing, which look perfect.
        if not self.batches or self.examples == 0:
            raise TrainerError(f'experiment.eval_input_fn produced no {"examples" if self.batches else "batches"}')


class CheckpointListener(tf.compat.v1.train.CheckpointSaverListener):
    """Calls a function with the global step after each checkpoint but the first, which holds no training yet."""

    def __init__(self, on_checkpoint: Callable[[int], None]):
        self._on_checkpoint = on_checkpoint
        self._first = True

    def after_save(self, session, global_step_value):
        if self._first:
            self._first = False
        else:
            self._on_checkpoint(int(global_step_value))


def _fetches(on_results: Callable[..., None], *tensors: Any) -> tuple:
    """Returns fetches for a session; it calls `on_results` with what they hold after each run, before it returns.

    A session gives back what it was given: for a tuple of a type of its own it calls that type with the results. There
    is no other seam ahead of the hooks that save checkpoints, which come before all others.
    """

    class Results(tuple):
        def __new__(cls, *values):
            on_results(*values)
            return super().__new__(cls, values)

    return tuple.__new__(Results, tensors)


def _batch_sizes() -> Any:
    """Returns a tensor with the batch size of each replica in this graph, () where batches have no batch dimension."""
    sizes = tf.compat.v1.get_collection(BATCH_SIZES)
    return tf.stack(sizes) if sizes else ()


def _add(examples: int | None, sizes: Any) -> int | None:
    return None if examples is None or not len(sizes) else examples + int(sizes.sum())
