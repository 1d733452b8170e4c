"""The early-stopping hooks of `tf.estimator.experimental`, which here look at each evaluation once it has been made.

Same names, same arguments. Stock's look every 60 seconds: never in a short run, in others at a step that depends on the
machine's speed. Where `run_every_secs` or `run_every_steps` is given, the hook is stock's.
"""

# ruff: noqa: D102 (SessionRunHook documents its methods)

import collections
import contextlib
import dataclasses
import operator
import os
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from estimator_trainer import console
from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError, nearest

Estimator, Hook = tf.estimator.Estimator, tf.compat.v1.train.SessionRunHook

_SECONDS = 60.0  # between two looks at what another process has evaluated; stock's default


class EarlyStopping(Hook):
    """Stops training once a function says so, which is asked after each evaluation.

    That is in the step in which a checkpoint listener calls `evaluated`. Until the first such call another process may
    be evaluating, so that the function is asked every 60 s.
    """

    def __init__(self, should_stop: Callable[[], bool], lacking: Callable[[Mapping], str | None], workers: Hook):
        """Takes the function, one that tells what an evaluation lacks, and stock's hook that stops other workers."""
        self._should_stop, self._lacking, self._workers = should_stop, lacking, workers
        self._due = self._evaluated = False

    def evaluated(self, metrics: Mapping[str, Any]) -> str | None:
        """Takes note that this process has evaluated the newest checkpoint.

        Args:
            metrics: the metrics of the evaluation.

        Returns:
            A warning if the metric watched is not among them, else None.
        """
        warning = self._lacking(metrics)
        self._evaluated, self._due = True, warning is None
        return warning

    def lacking(self, metrics: Collection[str]) -> str | None:
        """Returns what an evaluation with these metrics lacks, None if it has the metric watched."""
        return self._lacking(dict.fromkeys(metrics))

    def begin(self):
        # Stock tells workers by a variable. It must not get into checkpoints: one with it would stop the training that
        # goes on from it, one without it could not be restored.
        variables = tf.compat.v1.get_collection_ref(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES)
        count = len(variables)
        self._workers.begin()
        tf.compat.v1.get_collection_ref(tf.compat.v1.GraphKeys.LOCAL_VARIABLES).extend(variables[count:])
        del variables[count:]
        self._asked = time.monotonic()

    def before_run(self, run_context):
        return self._workers.before_run(run_context)

    def after_run(self, run_context, run_values):
        if self._due or (not self._evaluated and time.monotonic() - self._asked >= _SECONDS):
            self._due, self._asked = False, time.monotonic()
            if self._should_stop():
                self._workers.after_run(run_context, run_values)
                run_context.request_stop()


def stop_if_higher_hook(
    estimator: Estimator,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = None,
    run_every_steps: int | None = None,
) -> Hook:
    """Returns a hook that stops training when a metric is higher than a threshold.

    Args:
        estimator: the Estimator that is trained; given by the trainer for `experiment.hooks = [@stop_if_higher_hook]`.
        metric_name: the metric to watch.
        threshold: what it has to exceed.
        eval_dir: where the event files of the evaluations are; None: `estimator.eval_dir()`.
        min_steps: evaluations before this global_step do not count.
        run_every_secs: seconds between two looks at the evaluations; None: see this module.
        run_every_steps: the same in steps; only one of the two may be given.

    Raises:
        UserError: both are given, or seconds under a strategy.
    """
    return _hook(stop_if_higher_hook, locals(), lambda values: any(value > threshold for value in values.values()))


def stop_if_lower_hook(
    estimator: Estimator,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = None,
    run_every_steps: int | None = None,
) -> Hook:
    """Returns a hook that stops training when a metric is lower than a threshold; see `stop_if_higher_hook`."""
    return _hook(stop_if_lower_hook, locals(), lambda values: any(value < threshold for value in values.values()))


def stop_if_no_increase_hook(
    estimator: Estimator,
    metric_name: str,
    max_steps_without_increase: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = None,
    run_every_steps: int | None = None,
) -> Hook:
    """Returns a hook that stops training when a metric has had its maximum `max_steps_without_increase` steps ago."""
    return _hook(stop_if_no_increase_hook, locals(), _stands_still(operator.gt, max_steps_without_increase))


def stop_if_no_decrease_hook(
    estimator: Estimator,
    metric_name: str,
    max_steps_without_decrease: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = None,
    run_every_steps: int | None = None,
) -> Hook:
    """Returns a hook that stops training when a metric has had its minimum `max_steps_without_decrease` steps ago."""
    return _hook(stop_if_no_decrease_hook, locals(), _stands_still(operator.lt, max_steps_without_decrease))


def make_early_stopping_hook(
    estimator: Estimator,
    should_stop_fn: Callable,
    run_every_secs: float | None = None,
    run_every_steps: int | None = None,
) -> Hook:
    """Returns a hook that stops training when `should_stop_fn()` is true; see `stop_if_higher_hook`."""
    return _hook(make_early_stopping_hook, locals())


def _stands_still(better: Callable[[float, float], bool], steps: int) -> Callable[[Mapping[int, float]], bool]:
    def condition(values):
        best = None
        for step, value in values.items():
            if best is None or better(value, values[best]):
                best = step
            if step - best >= steps:
                return True
        return False

    return condition


def _hook(function: Callable, arguments: Mapping[str, Any], condition: Callable | None = None) -> Hook:
    """Returns the hook for a call of one of the functions above.

    Args:
        function: the function.
        arguments: what it was given.
        condition: whether to stop, of global_step -> the metric's value; None where the caller gives `should_stop_fn`.
    """
    estimator, experimental = arguments['estimator'], tf.estimator.experimental
    if arguments['run_every_secs'] is not None or arguments['run_every_steps'] is not None:
        try:
            return getattr(experimental, function.__name__)(**arguments)
        except ValueError as error:
            raise UserError(f'{function.__name__}: {error}') from None
    workers = Hook()
    if estimator.config.cluster_spec:
        workers = experimental.make_early_stopping_hook(estimator, lambda: True, run_every_secs=None, run_every_steps=1)
        if not estimator.config.is_chief:
            return workers
    if condition is None:
        return EarlyStopping(arguments['should_stop_fn'], lambda metrics: None, workers)
    metric = _Metric(f'{function.__name__}.metric_name', arguments['metric_name'])
    eval_dir = arguments['eval_dir'] or estimator.eval_dir()
    # Those that are evaluated here are not those in another directory.
    lacking = metric.lacking if arguments['eval_dir'] is None else lambda metrics: None
    return EarlyStopping(lambda: condition(metric.values(eval_dir, arguments['min_steps'])), lacking, workers)


@dataclasses.dataclass
class _Metric:
    """A metric to watch, and the binding that names it."""

    binding: str
    name: str
    warned: bool = False

    def lacking(self, metrics: Mapping[str, Any]) -> str | None:
        """Returns the warning for an evaluation that does not have the metric, None for one that does."""
        if self.name in metrics:
            return None
        hint = nearest(self.name, metrics) or f'; it has {", ".join(sorted(metrics))}'
        return f'{self.binding}: the evaluation has no metric {self.name!r}{hint}'

    def values(self, eval_dir: str, min_steps: int) -> dict[int, float]:
        """Returns global_step -> value from `min_steps` on, in order, of the evaluations in a directory."""
        evaluations = _evaluations(eval_dir)
        values = {step: metrics[self.name] for step, metrics in sorted(evaluations.items()) if self.name in metrics}
        if evaluations and not values and not self.warned:
            self.warned = True
            console.say(f'WARNING: {self.lacking(next(iter(evaluations.values())))}')
        return {step: value for step, value in values.items() if step >= min_steps}


def _evaluations(eval_dir: str) -> dict[int, dict[str, float]]:
    """Returns global_step -> metrics of the evaluations whose event files are in a directory."""
    evaluations = collections.defaultdict(dict)
    for path in tf.io.gfile.glob(os.path.join(eval_dir, 'events.out.tfevents.*')):
        # Another process may be writing it.
        with contextlib.suppress(tf.errors.DataLossError):
            for event in tf.compat.v1.train.summary_iterator(path):
                for value in event.summary.value:
                    if value.HasField('simple_value'):
                        evaluations[event.step][value.tag] = value.simple_value
    return evaluations
