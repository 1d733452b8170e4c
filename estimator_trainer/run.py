"""One task's run: the Estimator calls that an experiment stands for, and the summary of what came of them."""

import contextlib
import datetime
import functools
import os
import re
import tempfile
import time
from collections.abc import Callable

import estimator_trainer
from estimator_trainer.compat import tf
from estimator_trainer.errors import TrainerError, UserError
from estimator_trainer.experiment import SESSION_HOOK, Experiment
from estimator_trainer.hooks import CheckpointListener, EvaluationHook, Stopped, TrainingHook
from estimator_trainer.lifecycle import Lifecycle
from estimator_trainer.report import Report
from estimator_trainer.run_config import RunConfig
from estimator_trainer.summary import INTERRUPTED, Summary
from estimator_trainer.topology import Topology
from estimator_trainer.user_fns import bind_input_fn, bind_model_fn, takes_input_context


class Run:
    """Trains and evaluates one experiment in one task.

    Attributes:
        config: the task's RunConfig.
        summary: what has happened so far.
        hook: the hook of the training session, None before it.
        examples_elsewhere: number of examples that other tasks have trained on; None where they cannot be counted.
    """

    def __init__(self, experiment: Experiment, topology: Topology, lifecycle: Lifecycle, mode: str):
        """Checks what can be checked; writes nothing.

        Raises:
            UserError: the experiment lacks a part that `mode` needs, or model_dir lacks a checkpoint.
        """
        self.experiment = experiment
        self.topology = topology
        self.lifecycle = lifecycle
        self.mode = mode
        self.config = RunConfig(topology=topology)
        self.model_dir = self.config.model_dir or self._temporary_model_dir()
        if self.config.model_dir is None:
            self.config = self.config.replace(model_dir=self.model_dir)
        self.summary_path = os.path.join(self.model_dir, 'run', 'summary.json')
        self.summary = Summary(mode)
        self.report = Report(self.summary, experiment.max_steps, '' if topology.is_local else ' in this task')
        self.hook: TrainingHook | None = None
        self.examples_elsewhere: int | None = 0
        self._last_evaluation = time.monotonic()
        self._check()

    def _temporary_model_dir(self) -> str:
        if not self.topology.is_local:
            raise UserError('the tasks of a cluster need a common --model_dir (RunConfig.model_dir)')
        if self.mode == 'evaluate':
            raise UserError('--mode=evaluate needs the --model_dir (RunConfig.model_dir) of a trained model')
        return os.path.join(tempfile.gettempdir(), f'estimator_trainer-{datetime.datetime.now():%Y%m%d-%H%M%S-%f}')

    @functools.cached_property
    def _estimator(self) -> tf.estimator.Estimator:
        return self._make_estimator(self.config)

    def _make_estimator(self, config: tf.estimator.RunConfig) -> tf.estimator.Estimator:
        model_fn = bind_model_fn(self.experiment.model_fn, config.tf_random_seed, self.chief_hook)
        return tf.estimator.Estimator(model_fn, config=config, params=dict(self.experiment.params))

    def _check(self) -> None:
        if '://' not in self.model_dir:
            _check_directory(self.model_dir)
        bind_model_fn(self.experiment.model_fn, None)
        if self.mode != 'evaluate':
            if self.experiment.train_input_fn is None:
                raise UserError('experiment.train_input_fn is not bound; expected e.g. @train/my_input_fn')
            bind_input_fn(self.experiment.train_input_fn, None)
        if self.mode == 'train' or self.topology.task.job in ('worker', 'ps'):
            return
        if self.experiment.eval_input_fn is None:
            raise UserError(f'experiment.eval_input_fn is not bound; bind it, or use --mode=train (not {self.mode})')
        if not (self.config.save_checkpoints_steps or self.config.save_checkpoints_secs):
            raise UserError('RunConfig: evaluation needs checkpoints; bind save_checkpoints_steps or _secs')
        if self.mode == 'evaluate' and self.newest_checkpoint() is None:
            raise UserError(f'--mode=evaluate: no checkpoint in {self.model_dir}')
        self._check_evaluation_input()

    def _check_evaluation_input(self) -> None:
        """Builds the evaluation input once before training: a mistake in it should not show after hours."""
        with tf.Graph().as_default():
            config, experiment = self.config, self.experiment
            input_fn = bind_input_fn(experiment.eval_input_fn, config.tf_random_seed)
            data = input_fn(tf.estimator.ModeKeys.EVAL, dict(experiment.params), config)
            if experiment.eval_steps is not None or not isinstance(data, tf.data.Dataset | tf.compat.v1.data.Dataset):
                return
            try:
                with tf.compat.v1.Session(config=config.session_config) as session:
                    cardinality = session.run(tf.data.experimental.cardinality(data))
            except tf.errors.OpError:
                return  # A dataset that needs tables or iterators initialised; evaluation does that.
        if cardinality == tf.data.INFINITE_CARDINALITY:
            raise UserError(
                'experiment.eval_input_fn repeats for ever and experiment.eval_steps is None: the evaluation would '
                'never end; bind eval_steps, or do not repeat (e.g. eval/my_input_fn.repeat = False)'
            )

    def describe(self, sources: list[str]) -> None:
        """Prints the head of the run: what, where, how, and until when."""
        checkpoint = self.newest_checkpoint()
        strategy = self.config.train_distribute
        replicas = strategy.num_replicas_in_sync if strategy is not None else 1
        facts = {
            'model_dir': f'{self.model_dir} ({f"from step {_step_of(checkpoint)}" if checkpoint else "new"})',
            'strategy': f'{type(strategy).__name__}, {replicas} replicas' if strategy is not None else 'none',
        }
        if not self.topology.is_local:
            facts['task'] = f'{self.topology.task} of {", ".join(map(str, self.topology.tasks))}'
            facts['strategy'] = 'parameter_server, asynchronous'
        if self.mode != 'evaluate':
            facts['until'] = (
                f'step {self.experiment.max_steps:,}' if self.experiment.max_steps else 'the end of the input'
            )
        self.report.start(
            f'estimator_trainer {estimator_trainer.__version__}, TensorFlow {tf.version.VERSION}: {self.mode} '
            f'{" ".join(sources)}',
            **facts,
        )

    # Training.

    def train(self) -> None:
        """Trains until max_steps, the end of the input, or a stop; fills in the summary.

        Raises:
            TrainerError: there was no input.
        """
        summary, max_steps = self.summary, self.experiment.max_steps
        summary.restored_from = self.newest_checkpoint()
        start = _step_of(summary.restored_from) if summary.restored_from else 0
        summary.first_step = summary.final_step = start
        if self.nothing_to_train():
            summary.stopped_because = 'nothing_to_do'
            self.report.warn(f'{self.model_dir} is at step {start}, max_steps is {max_steps}: nothing to train')
            return
        self._warn_of_unsharded_input()
        self.hook = TrainingHook(
            every_n_steps=self.config.log_step_count_steps,
            last_step=None if self.topology.is_local else max_steps,
            should_stop=lambda: self.lifecycle.stop is not None,
            before_session=self.before_session,
            on_start=self._on_start,
            on_batch=self.report.batch,
            on_step=self.report.step if self.report.on_terminal else None,
            on_progress=self.report.progress,
        )
        listeners = []
        if self.mode == 'train_and_evaluate' and self.topology.is_local:
            listeners.append(CheckpointListener(self._on_checkpoint))
        try:
            self._estimator.train(
                bind_input_fn(self.experiment.train_input_fn, self.config.tf_random_seed, self.topology),
                hooks=[*self._user_hooks(), self.hook],
                max_steps=max_steps,
                saving_listeners=listeners,
            )
        except (tf.errors.NotFoundError, tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
            why = None if self.started else _why_not_restored(error)
            if why is None:
                raise
            raise TrainerError(f'{summary.restored_from} is not a checkpoint of this model: {why}') from None
        self.report.close()
        self.lifecycle.training = False
        self._count_training()
        summary.stopped_because = self._why_training_ended()
        if summary.stopped_because == 'end_of_input':
            if summary.steps == 0 and self.topology.is_local:
                raise TrainerError('experiment.train_input_fn produced no batches')
            if max_steps is not None:
                self.report.warn(f'the input ended at step {summary.final_step}, before max_steps={max_steps}')

    def nothing_to_train(self) -> bool:
        """Returns whether max_steps has been reached before."""
        checkpoint, max_steps = self.newest_checkpoint(), self.experiment.max_steps
        return max_steps is not None and checkpoint is not None and _step_of(checkpoint) >= max_steps

    def _user_hooks(self) -> list[tf.compat.v1.train.SessionRunHook]:
        hooks = self.experiment.hooks
        return [hook if isinstance(hook, SESSION_HOOK) else hook(self._estimator) for hook in hooks]

    def _warn_of_unsharded_input(self) -> None:
        pipelines = len(self.topology.training_tasks)
        if pipelines > 1 and not takes_input_context(self.experiment.train_input_fn):
            self.report.warn(
                f'experiment.train_input_fn takes no input_context, so each of the {pipelines} training tasks '
                'reads all of the input'
            )

    # What the roles of a cluster have to say to the training.

    chief_hook: Callable[[tf.compat.v1.train.Scaffold], tf.compat.v1.train.SessionRunHook] | None = None

    def before_session(self) -> None:
        """Called when the graph is built, before the session is made."""

    def on_training_start(self) -> None:
        """Called when the session is ready: the variables are there."""

    @property
    def started(self) -> bool:
        """Whether training has begun, and with it the writing of files."""
        return self.hook is not None and self.hook.started

    def _on_start(self) -> None:
        self.lifecycle.graceful = self.lifecycle.training = True
        self.on_training_start()
        if self.topology.is_chief:
            self.write_summary()

    def _count_training(self) -> None:
        if not self.started:
            return
        counts = (self.hook.examples, self.examples_elsewhere)
        self.summary.examples = None if None in counts else sum(counts)
        self.summary.final_step, self.summary.seconds = self.hook.step, self.hook.seconds

    def _why_training_ended(self) -> str:
        max_steps = self.experiment.max_steps
        if max_steps is not None and self.summary.final_step >= max_steps:
            return 'max_steps'
        if self.hook.stopped_by_hook:
            return 'early_stopping'
        return self.lifecycle.stop.reason if self.lifecycle.stop else 'end_of_input'

    # Evaluation.

    def _on_checkpoint(self, step: int) -> None:
        begin = time.monotonic()
        if not self.lifecycle.signalled and begin - self._last_evaluation >= self.lifecycle.settings.throttle_secs:
            # A stop breaks the evaluation off here, and the training by its own hook, which has yet to see this step.
            with contextlib.suppress(Stopped):
                self.evaluate()
            self._last_evaluation = time.monotonic()
            self.hook.leave_out(self._last_evaluation - begin)

    def evaluate(self) -> None:
        """Evaluates the newest checkpoint, unless that has been done, and adds the result to the summary.

        Raises:
            TrainerError: there is no checkpoint, or no evaluation input.
            Stopped: the process was told to stop meanwhile.
        """
        checkpoint = self.newest_checkpoint()
        if checkpoint is None:
            raise TrainerError(f'no checkpoint in {self.model_dir} to evaluate')
        if any(evaluation['step'] == _step_of(checkpoint) for evaluation in self.summary.evaluations):
            return
        self.lifecycle.graceful = True
        hook = EvaluationHook(lambda: self.lifecycle.signalled)
        metrics = self._evaluating_estimator().evaluate(
            bind_input_fn(self.experiment.eval_input_fn, self.config.tf_random_seed),
            steps=self.experiment.eval_steps,
            hooks=[hook],
            checkpoint_path=checkpoint,
        )
        if not hook.batches:
            raise TrainerError('experiment.eval_input_fn produced no batches')
        evaluation = {
            'name': 'eval',
            'step': int(metrics.pop('global_step')),
            # Without the metrics that are no numbers: a vector is an array, an image summary is bytes.
            'metrics': {name: value.item() for name, value in metrics.items() if getattr(value, 'ndim', None) == 0},
            'examples': hook.examples,
        }
        self.summary.evaluations.append(evaluation)
        self.report.evaluation(evaluation)

    def _evaluating_estimator(self) -> tf.estimator.Estimator:
        if self.topology.task.job in ('local', 'evaluator'):
            return self._estimator
        # In a cluster, RunConfig places variables on the ps tasks; evaluation reads a checkpoint and needs no peer.
        return self._make_estimator(RunConfig(topology=Topology(), train_distribute='none', model_dir=self.model_dir))

    # The outcome.

    def newest_checkpoint(self) -> str | None:
        """Returns the path prefix of the newest checkpoint in model_dir, or None.

        Raises:
            TrainerError: there is one, but its name cannot be read; beginning anew would overwrite what was trained.
        """
        path = os.path.join(self.model_dir, 'checkpoint')
        checkpoint = tf.train.latest_checkpoint(self.model_dir)
        if checkpoint is None and tf.io.gfile.exists(path):
            raise TrainerError(f'{path} names no checkpoint that is there; correct it, or remove it to begin anew')
        return checkpoint

    def finish(self, status: str, stopped_because: str | None = None, error: str | None = None) -> None:
        """Completes and writes the summary, where this task is the one that writes it, and prints the table."""
        self.report.close()
        self.lifecycle.graceful = False
        self._count_training()
        self.summary.status = status
        if status != INTERRUPTED or self.summary.stopped_because is None:  # else training had ended before
            self.summary.stopped_because = stopped_because or self.summary.stopped_because
        self.summary.error = error
        self.summary.checkpoint = tf.train.latest_checkpoint(self.model_dir)
        if self.topology.is_chief:
            self.write_summary()
            saved = _step_of(self.summary.checkpoint) if self.summary.checkpoint else 0
            if self.started and self.summary.final_step > saved:
                self.report.warn(
                    f'{self.summary.final_step - saved:,} steps since step {saved:,} are not in a checkpoint'
                )
            self.report.finish(self.summary_path)

    def write_summary(self) -> None:
        """Writes summary.json."""
        self.summary.write(self.summary_path)


def _check_directory(path: str) -> None:
    """Raises a UserError unless a local directory, or the nearest that is there above it, can be written to."""
    there = os.path.abspath(path)
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    try:
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        raise UserError(f'RunConfig.model_dir: {path}: cannot write to {there}: {error.strerror}') from None


def _why_not_restored(error: tf.errors.OpError) -> str | None:
    """Returns what in a checkpoint does not fit the model, or None for an error that is not about restoring one."""
    message = error.message
    if not isinstance(error, tf.errors.DataLossError) and 'Restoring from checkpoint failed' not in message:
        return None
    detail = re.search(
        r'Key \S+ not found in checkpoint|[^\n]*(?:shape|dtype)[^\n]*', message.split('Original error:')[-1]
    )
    return (detail[0] if detail else message).strip().splitlines()[0]


def _step_of(checkpoint: str) -> int:
    try:
        return int(tf.train.load_variable(checkpoint, tf.compat.v1.GraphKeys.GLOBAL_STEP))
    except (tf.errors.OpError, IndexError, ValueError) as error:  # which of them depends on what is broken
        raise TrainerError(f'cannot read global_step from {checkpoint}: {str(error).splitlines()[0]}') from None
