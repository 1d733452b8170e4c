"""The evaluations of one task: each checkpoint at most once, what follows from it, and what is said of it."""

import contextlib
import time
from typing import Any

from estimator_trainer import checkpoints, input_checks
from estimator_trainer.compat import tf
from estimator_trainer.early_stopping import EarlyStopping
from estimator_trainer.errors import TrainerError
from estimator_trainer.hooks import EvaluationHook, Stopped
from estimator_trainer.user_fns import bind_input_fn


class Evaluations:
    """The evaluations of one task.

    Attributes:
        skipped: steps of the checkpoints that `trainer.throttle_secs` has kept from evaluation.
        evaluated_step: global_step of the checkpoint evaluated last, 0 before.
    """

    def __init__(self, run: Any):
        """Takes the `run.Run` that evaluates."""
        self._run = run
        self._last = time.monotonic()
        self._results: dict[int, dict[str, Any]] = {}
        self.skipped: set[int] = set()
        self.evaluated_step = 0

    def on_checkpoint(self, step: int) -> None:
        """Evaluates during training, after the checkpoint of a step has been saved."""
        lifecycle, begin = self._run.lifecycle, time.monotonic()
        if lifecycle.signalled:
            return
        if begin - self._last < lifecycle.settings.throttle_secs:
            self.skipped.add(step)
            return
        # A stop breaks the evaluation off here, and the training by its own hook, which has yet to see this step.
        with contextlib.suppress(Stopped):
            self.evaluate()
        self._last = time.monotonic()
        self._run.hook.leave_out(self._last - begin)

    def evaluate(self, final: bool = False) -> None:
        """Evaluates a checkpoint, unless that has been done, adds the result to the summary, and calls the exporters.

        Args:
            final: whether training has ended with this checkpoint.

        Raises:
            TrainerError: there is no checkpoint, no evaluation input, or no final export.
            Stopped: the process was told to stop meanwhile.
        """
        run, checkpoint = self._run, self._run.checkpoint()
        if checkpoint is None:
            raise TrainerError(f'no checkpoint in {run.model_dir} to evaluate')
        step = self.evaluated_step = checkpoints.step_of(checkpoint)
        if step not in self._results:
            self._results[step] = self._evaluate(checkpoint)
            self.skipped.discard(step)  # the last one is evaluated all the same
        if run.mode == 'train_and_evaluate':
            run.exports.after_evaluation(run.model.evaluating_estimator, checkpoint, step, self._results[step], final)

    def _evaluate(self, checkpoint: str) -> dict[str, Any]:
        run = self._run
        run.lifecycle.graceful = True
        hook = EvaluationHook(lambda: run.lifecycle.signalled)
        with input_checks.explained(tf.estimator.ModeKeys.EVAL):
            result = run.model.evaluating_estimator.evaluate(
                bind_input_fn(run.experiment.eval_input_fn, run.config.tf_random_seed),
                steps=run.experiment.eval_steps,
                hooks=[hook],
                checkpoint_path=checkpoint,
            )
        # Without the metrics that are no numbers: a vector is an array, an image summary is bytes.
        metrics = {name: value.item() for name, value in result.items() if getattr(value, 'ndim', None) == 0}
        step = metrics.pop('global_step')
        run.summary.evaluations.append({'name': 'eval', 'step': step, 'metrics': metrics, 'examples': hook.examples})
        run.report.evaluation(run.summary.evaluations[-1])
        for user_hook in run.user_hooks if run.started else ():
            if isinstance(user_hook, EarlyStopping) and (warning := user_hook.evaluated(metrics)):
                run.report.warn(warning)
        return result
