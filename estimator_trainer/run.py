"""One task's run: the Estimator calls that an experiment stands for, and the summary of what came of them."""

import datetime
import functools
import os
import tempfile
from collections.abc import Mapping
from typing import Any

from estimator_trainer import checkpoints, input_checks, saved_config, sync_replicas
from estimator_trainer.batches import Batch
from estimator_trainer.compat import estimator_training, tf
from estimator_trainer.errors import TrainerError, UserError
from estimator_trainer.evaluation import Evaluations
from estimator_trainer.experiment import SESSION_HOOK, Experiment
from estimator_trainer.exports import Exports
from estimator_trainer.finite import Watch
from estimator_trainer.hooks import CheckpointListener, TrainingHook
from estimator_trainer.last_step import LastStepHook, saves_checkpoints
from estimator_trainer.lifecycle import Lifecycle
from estimator_trainer.models import Model
from estimator_trainer.options import Options
from estimator_trainer.report import Report
from estimator_trainer.resumption import InputPosition
from estimator_trainer.run_config import RunConfig
from estimator_trainer.settings import TRAINING_MODES
from estimator_trainer.summary import INTERRUPTED, Summary
from estimator_trainer.topology import LOCAL_CLUSTER, Topology
from estimator_trainer.training_input import TrainingInput
from estimator_trainer.voting import VotingHook


class Run:
    """Trains, evaluates, predicts with or exports one experiment in one task.

    Attributes:
        config: the task's RunConfig.
        summary: what has happened so far.
        hook: the hook of the training session, None before it.
        watch: sees to it that the loss and what is saved are finite.
        last_step: saves checkpoints out of turn.
        saved_step: global_step of the last checkpoint that was saved so, or seen at the end of the training.
        examples_elsewhere: number of examples that other tasks have trained on; None where they cannot be counted.
        outcome: further facts for the table at the end.
        input: the training input.
        input_remarks: what is to be said of the records of the inputs.
        evaluations: those of this task.
        voting: what decides with the other tasks that step together with this one; None where none does.
        model: the Estimators, and their graphs, built once before anything is written.
    """

    def __init__(self, experiment: Experiment, topology: Topology, lifecycle: Lifecycle, options: Options):
        """Writes nothing.

        Raises:
            UserError: RunConfig refuses a field.
        """
        self.experiment = experiment
        self.topology = topology
        self.lifecycle = lifecycle
        self.options = options
        self.mode = options.mode
        self.config = RunConfig(topology=topology)
        self.model_dir = self.config.model_dir or self._temporary_model_dir()
        if self.config.model_dir is None:
            self.config = self.config.replace(model_dir=self.model_dir)
        self.summary_path = os.path.join(self.model_dir, 'run', 'summary.json')
        self.summary = Summary(self.mode)
        self.report = Report(self.summary, experiment.max_steps, ' in this task' if topology.is_distributed else '')
        self.hook: TrainingHook | None = None
        self.examples_elsewhere: int | None = 0
        self.exports = Exports(experiment.exporters, self.model_dir, self.on_export)
        self.model = Model(experiment, self.config, topology)
        self.model.warn = self.report.warn
        self.evaluations = Evaluations(self)
        self.outcome: dict[str, str] = {}
        self.input_remarks: list[str] = []
        input_checks.skipped.say = self.report.warn
        self.saved_step = 0
        self.watch = Watch(self)
        self.last_step = LastStepHook(self)
        self.voting: VotingHook | None = None
        self.input = TrainingInput(experiment.train_input_fn, topology, self.config, options.bindings)

    def _temporary_model_dir(self) -> str:
        if not self.topology.is_local:
            raise UserError('the tasks of a cluster need a common --model_dir (RunConfig.model_dir)')
        if not self.trains:
            raise UserError(f'--mode={self.mode} needs the --model_dir (RunConfig.model_dir) of a trained model')
        return os.path.join(tempfile.gettempdir(), f'estimator_trainer-{datetime.datetime.now():%Y%m%d-%H%M%S-%f}')

    @functools.cached_property
    def user_hooks(self) -> list[tf.compat.v1.train.SessionRunHook]:
        """The hooks of the experiment, made where they are functions."""
        hooks = [
            hook if isinstance(hook, SESSION_HOOK) else hook(self.model.estimator) for hook in self.experiment.hooks
        ]
        for hook in hooks:
            if not isinstance(hook, SESSION_HOOK):
                raise UserError(f'experiment.hooks: a function returned {hook!r}; expected a SessionRunHook')
        return hooks

    @property
    def trains(self) -> bool:
        """Whether this run trains."""
        return self.mode in TRAINING_MODES

    # Training.

    def resume(self, before: Mapping[str, Any], training_went_on: bool) -> None:
        """Finds where to go on in the training input; to be called before `train`. See `TrainingInput.resume`."""
        if self.nothing_to_train():
            return
        restored_by_hook = any('InputPipeline' in type(hook).__name__ for hook in self.user_hooks)
        resumes = self.lifecycle.settings.resume_input
        self.input.resume(before if resumes else {}, self._newest_step(), restored_by_hook, training_went_on)

    def _newest_step(self) -> int:
        checkpoint = checkpoints.newest(self.model_dir)
        return checkpoints.step_of(checkpoint) if checkpoint else 0

    def note_position(self) -> InputPosition:
        """Returns how far this task is in its training input, up to the last step."""
        self.input.position.note(*self.hook.position, self._newest_step())
        return self.input.position

    def train(self) -> None:
        """Trains until max_steps, the end of the input, or a stop; fills in the summary.

        Raises:
            TrainerError: there was no input.
        """
        summary, max_steps = self.summary, self.experiment.max_steps
        summary.restored_from = checkpoints.newest(self.model_dir)
        start = checkpoints.step_of(summary.restored_from) if summary.restored_from else 0
        summary.first_step = summary.final_step = start
        if self.nothing_to_train():
            summary.stopped_because = 'nothing_to_do'
            self.report.warn(f'{self.model_dir} is at step {start}, max_steps is {max_steps}: nothing to train')
            return
        if self.input.line:
            self.report.table([('input', self.input.line)])
        if self.input.warning:
            self.report.warn(self.input.warning)
        self.hook = TrainingHook(
            every_n_steps=self.config.log_step_count_steps,
            last_step=max_steps if self.topology.has_ps else None,
            should_stop=lambda: self.lifecycle.stop is not None and self.voting is None,
            before_session=self.before_session,
            on_start=self._on_start,
            on_first_step=self._on_first_step,
            on_step=self.report.step if self.report.on_terminal else None,
            on_progress=self.report.progress,
        )
        # Where tasks step together, Estimator takes none: see `voting.hooks`.
        takes_some = saves_checkpoints(self.config) and not self.topology.is_collective
        listeners = [self.watch.listener] if takes_some else []
        if self.mode == 'train_and_evaluate' and not (self.topology.is_distributed or self.topology.has_evaluator):
            listeners.append(CheckpointListener(self.evaluations.on_checkpoint))
        try:
            with input_checks.explained(tf.estimator.ModeKeys.TRAIN):
                estimator_training.train_task(
                    self.model.estimator,
                    lambda estimator: estimator.train(
                        self.input.bound_input_fn(),
                        hooks=[self.watch.hook, self.last_step, *self.user_hooks, self.hook],
                        max_steps=max_steps,
                        saving_listeners=listeners,
                    ),
                )
        except (tf.errors.NotFoundError, tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
            why = None if self.started else checkpoints.why_not_restored(error)
            if why is None:
                raise
            raise TrainerError(f'{summary.restored_from} is not a checkpoint of this model: {why}') from None
        finally:
            alone = not self.topology.is_distributed
            if self.started and alone and summary.restored_from is None and not (self.hook.runs or self.saved_step):
                checkpoints.remove(self.model_dir)  # They hold no training, and would pass for a result.
        self.report.close()
        self.lifecycle.training = False
        if self.topology.is_chief:
            self.saved_step = self._newest_step()  # asynchronous workers may have gone on after the chief's hook
        self._count_training()
        summary.stopped_because = self.why_training_ended(summary.final_step)
        if summary.stopped_because == 'end_of_input':
            if self.training_ended_elsewhere():
                return  # who has ended it is told by the roles
            if not self.hook.runs and not self.input.position.skipped:
                raise TrainerError(f'experiment.train_input_fn produced no batches{self.input.part}')
            if max_steps is not None:
                self.report.warn(f'the input ended at step {summary.final_step}, before max_steps={max_steps}')

    def nothing_to_train(self) -> bool:
        """Returns whether max_steps has been reached before."""
        checkpoint, max_steps = checkpoints.newest(self.model_dir), self.experiment.max_steps
        return max_steps is not None and checkpoint is not None and checkpoints.step_of(checkpoint) >= max_steps

    def input_is_finite(self) -> bool:
        """Whether the training input is not known to repeat without end."""
        return self.model.rehearsal.train().cardinality() != tf.data.INFINITE_CARDINALITY

    # What the roles of a cluster have to say to the training.

    def before_session(self) -> None:
        """Called when the graph is built, before the session is made."""

    def on_training_start(self) -> None:
        """Called when the session is ready: the variables are there."""

    def training_ended_elsewhere(self) -> bool:
        """Whether another task has ended the training of all."""
        return False

    @property
    def started(self) -> bool:
        """Whether training has begun, and with it the writing of files."""
        return self.hook is not None and self.hook.started

    def task_rows(self) -> list[dict[str, Any]]:
        """Returns what is known of each task, as in `Summary.tasks`."""
        return []

    def _on_start(self) -> None:
        self.lifecycle.graceful = self.lifecycle.training = True
        if self.topology.is_chief:
            self.lifecycle.emergency_save = self.last_step.emergency_save
        self.lifecycle.last_words = self.last_checkpoint
        self.on_training_start()
        if self.topology.is_chief:
            saved_config.write_config(self.model_dir, self.options.resolved_config)
            self.write_summary()

    def _on_first_step(self, sizes: list[int]) -> None:
        if sizes:
            self.report.table([('batch', self.batch(len(sizes), sizes[0]))])
        if self.hook.growth > 1 and (self.is_synchronous or len(self.topology.training_tasks) == 1):
            self._warn_of_growth(self.hook.growth)
        if self.topology.is_chief:
            saved_config.write_operative_config(self.model_dir)

    def batch(self, replicas: int, replica_batch: int) -> Batch:
        """Returns the batch arithmetic of the training, given that of one task."""
        return Batch(len(self.topology.training_tasks), replicas, self.is_synchronous, replica_batch)

    @property
    def is_synchronous(self) -> bool:
        """Whether all training tasks make each step together."""
        built = self.model.rehearsal.built.get(tf.estimator.ModeKeys.TRAIN)
        return not self.topology.has_ps or (built is not None and sync_replicas.of(built.graph) is not None)

    def _warn_of_growth(self, growth: int) -> None:
        line, max_steps = f'global_step grows by {growth} per train_op run', self.experiment.max_steps
        if max_steps is not None:
            updates = -((self.summary.first_step - max_steps) // growth)
            line += f': {updates:,} updates for max_steps={max_steps}'
        self.report.warn(line)

    def last_checkpoint(self) -> str:
        """Returns the end of the message with which this process is ended."""
        checkpoint = checkpoints.newest(self.model_dir)
        return f'; the last checkpoint is {checkpoint}' if checkpoint else '; there is no checkpoint'

    def _count_training(self) -> None:
        if not self.started:
            return
        counts = (self.hook.examples, self.examples_elsewhere)
        self.summary.examples = None if None in counts else sum(counts)
        # The hook may not have seen the step that a checkpoint holds.
        self.summary.final_step = max(self.hook.step, self.saved_step, self.evaluations.evaluated_step)
        if self.experiment.max_steps is not None:
            self.summary.overshoot = max(self.summary.final_step - self.experiment.max_steps, 0)
        self.summary.seconds = self.hook.seconds

    def why_training_ended(self, step: int) -> str:
        """Returns why training in this task, which was at `step`, has ended."""
        max_steps = self.experiment.max_steps
        if max_steps is not None and step >= max_steps:
            return 'max_steps'
        if self.voting is not None and self.voting.stopped_because:
            return self.voting.stopped_because
        if self.hook.stopped_by_hook:
            return 'early_stopping'
        return self.lifecycle.stop.reason if self.lifecycle.stop else 'end_of_input'

    # Evaluation, export.

    def checkpoint(self) -> str | None:
        """Returns the checkpoint to work with: the one asked for, else the newest in model_dir, or None."""
        if self.options.checkpoint is not None:
            return checkpoints.find(self.options.checkpoint, self.model_dir, '--checkpoint')
        return checkpoints.newest(self.model_dir)

    def conclude(self) -> None:
        """Evaluates and exports what a training that has ended well has made.

        Raises:
            TrainerError: there is no final export.
        """
        if self.mode == 'train_and_evaluate':
            self.evaluations.evaluate(final=True)
            return
        if not self.exports.final_exporters:
            return
        checkpoint = checkpoints.newest(self.model_dir)
        if checkpoint is None:
            raise TrainerError(f'no checkpoint in {self.model_dir} to export')
        self.exports.final(self.model.evaluating_estimator, checkpoint, checkpoints.step_of(checkpoint))

    def on_export(self, name: str, step: int, path: str) -> None:
        """Takes note of an export that has been written."""
        self.summary.exports.append({'name': name, 'step': step, 'path': path})
        self.report.export(self.summary.exports[-1])

    # The outcome.

    def finish(self, status: str, stopped_because: str | None = None, error: str | None = None) -> None:
        """Completes and writes the summary, where this task is the one that writes it, and prints the table."""
        self.report.close()
        self.lifecycle.graceful = False
        self._count_training()
        self.summary.status = status
        self.summary.evaluations_skipped = len(self.evaluations.skipped)
        if status != INTERRUPTED or self.summary.stopped_because is None:  # else training had ended before
            self.summary.stopped_because = stopped_because or self.summary.stopped_because
        self.summary.error = error
        self.summary.bad_records = len(input_checks.skipped.places)
        self.summary.tasks = self.task_rows()
        self.summary.checkpoint = tf.train.latest_checkpoint(self.model_dir) if self.trains else self.checkpoint()
        if self.topology.is_chief:
            self.write_summary()
            saved = checkpoints.step_of(self.summary.checkpoint) if self.summary.checkpoint else 0
            if self.started and self.summary.final_step > saved:
                self.report.warn(
                    f'{self.summary.final_step - saved:,} steps since step {saved:,} are not in a checkpoint'
                )
            self.report.finish(self.summary_path if self._writes_summary else None, **self.outcome)
            if len(self.summary.tasks) > 1 and self.topology.source != LOCAL_CLUSTER:  # whose launcher prints it
                self.report.tasks()

    def write_summary(self) -> None:
        """Writes summary.json, if this run writes to model_dir."""
        if self._writes_summary:
            self.summary.write(self.summary_path)

    @property
    def _writes_summary(self) -> bool:
        return self.mode in (*TRAINING_MODES, 'evaluate') or (self.mode == 'export' and self.options.output is None)
