"""What each task does: a local process, and the chief, workers, parameter servers and evaluator of a cluster."""

import atexit
import json
import os
import shutil
import tempfile
import time
from typing import Any

from estimator_trainer import console, files, ledger, strategies
from estimator_trainer.compat import private, tf
from estimator_trainer.errors import RestartableError, UserError
from estimator_trainer.hooks import CheckpointListener, LastCheckpointHook, Stopped
from estimator_trainer.ledger_task import LedgerTask
from estimator_trainer.outputs import export, predict
from estimator_trainer.run import Run
from estimator_trainer.summary import finite
from estimator_trainer.synchronous import SynchronousTraining
from estimator_trainer.topology import CHIEF, EVALUATOR
from estimator_trainer.voting import Group, VotingHook, hooks

# What a step raises when a task that takes part in it has gone, as far as the session does not try again.
_COLLECTIVE_ERRORS = (
    *(tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError, tf.errors.InternalError),
    *(tf.errors.UnknownError, tf.errors.DeadlineExceededError),
)
_SECONDS_TO_NAME_A_PEER = 10.0
_AT_WORK = (ledger.STARTING, ledger.TRAINING, ledger.SERVING)


def perform(run: Run) -> None:
    """Does what this task has to do and returns when it is done, or when the process was told to stop."""
    task = run.topology.task
    if not run.trains and not run.topology.is_local:
        raise UserError(
            f'--mode={run.mode} runs in one process, but {run.topology.source} makes this one {task}; '
            f'unset {run.topology.source}'
        )
    if run.mode == 'train' and task.job == 'evaluator':
        raise UserError('--mode=train has no work for an evaluator; leave it out, or use --mode=train_and_evaluate')
    if not run.trains:
        {'evaluate': run.evaluate, 'predict': lambda: predict(run), 'export': lambda: export(run)}[run.mode]()
        return
    roles = {
        'local': _Local,
        'chief': _Chief,
        'worker': _Worker,
        'ps': _ParameterServer,
        'evaluator': _Evaluator,
    }
    if run.topology.is_collective:
        roles |= {'chief': _CollectiveChief, 'worker': _CollectiveWorker}
    roles[task.job](run).perform()


def tell_peers(run: Run, error: BaseException) -> None:
    """Tells the peers, if there are any, that this task has failed before its work began: they must not wait for it."""
    if not run.topology.is_local and run.trains:
        task = _ClusterTask(run)
        task.ledger.begin()
        task.fail(f'{type(error).__name__}: {error}'.splitlines()[0], getattr(error, 'exit_code', 1))


def foresee(run: Run) -> None:
    """Finds what this task would do with its input, for the plan."""
    if run.topology.task in run.topology.training_tasks:
        task = LedgerTask(run)
        run.resume(task.ledger.before if task.resumes else {}, training_went_on=False)


def _end(run: Run) -> None:
    """Evaluates and exports what a training that has ended well has made."""
    if run.mode == 'train_and_evaluate':
        run.evaluate(final=True)
    else:
        run.final_export()


class _Local(LedgerTask):
    """Trains and evaluates alone. Its record is for those who would do the same in the same model_dir."""

    def start(self):
        # Like all else it is written when the training session is there.
        self.run.on_training_start = self._begin_training

    def _begin_training(self):
        self.begin()
        self.ledger.write(state=ledger.TRAINING, **self.progress())

    def work(self):
        self.run.resume(self.ledger.before if self.resumes else {}, training_went_on=False)
        self.run.train()
        if self.lifecycle.stop is None:
            _end(self.run)


class _ClusterTask(LedgerTask):
    """A task with peers."""

    def __init__(self, run: Run):
        super().__init__(run)
        self.synchronous = SynchronousTraining(self)
        run.model.sync_hook = self.synchronous.hook
        run.training_ended_elsewhere = lambda: self.synchronous.ended_elsewhere

    @property
    def results_path(self) -> str:
        """Where the evaluator leaves what it has found."""
        return os.path.join(self.run.model_dir, 'run', 'evaluator-0.results.json')

    def start_server(self) -> Any:
        """Opens this task's gRPC server: before anybody is waited for, so that no two tasks wait for each other."""
        task, config = self.topology.task, self.run.config
        if not self.topology.is_distributed:
            return None
        if config.train_distribute is not None:
            private.keep_server(config.train_distribute)
        try:
            return tf.distribute.Server(
                config.cluster_spec.as_dict(),
                task.job,
                task.index,
                protocol=config.protocol,
                config=strategies.server_config(config),
            )
        except tf.errors.OpError as error:
            raise RestartableError(f'{task} cannot listen on {self.topology.address(task)}: {error.message}') from None

    def _training(self) -> list[str]:
        return self.workers(ledger.TRAINING)

    def train(self) -> None:
        """Trains once the peers are there."""
        self.wait_for_peers()
        if self.lifecycle.stop is None:
            before, chief = self.ledger.before, self.chief()
            training_went_on = before.get('run') == chief.get('incarnation') is not None
            # A task may have ended well in a run that was interrupted: what counts is how the chief has ended.
            interrupted = training_went_on or chief.get('resumes')
            self.run.resume(before if interrupted else {}, training_went_on)
            self.run.train()
            self.synchronous.after_training()


class _Chief(_ClusterTask):
    """Trains, initialises the variables, saves checkpoints, and ends the job."""

    def work(self):
        self._server = self.start_server()
        self.run.examples_elsewhere = None  # until the workers have ended
        self._prepare_training()
        self.train()
        self._count_examples()
        if self.lifecycle.restarts:
            return
        self._warn_of_unread_input()
        self.ledger.write(state=ledger.TRAINED, **self.progress())
        self.lifecycle.needs_peers = False
        if self.run.mode == 'train' or not self._evaluated_elsewhere():
            _end(self.run)
        self._wait_for_ends()

    def _prepare_training(self) -> None:
        if self.run.config.save_checkpoints_steps or self.run.config.save_checkpoints_secs:
            self.run.model.chief_hook = self._checkpoint_hook
        self.run.on_training_start = self._begin_training

    def _begin_training(self) -> None:
        self.ledger.write(state=ledger.TRAINING)
        self.synchronous.wait_for_workers()

    def _warn_of_unread_input(self) -> None:
        """Tells of workers that have not used up their part of an input that has ended."""
        if self.synchronous.is_on:  # One input ends the training of all.
            return
        if self.run.summary.stopped_because != 'end_of_input' or self.lifecycle.settings.end_policy == 'chief':
            return
        for task in self.topology.training_tasks[1:]:
            record = self.ledger.peer(task)
            if record.get('state') != ledger.DONE:
                how = record.get('cause') or ('is lost' if record else 'has not started')
                self.run.report.warn(f'{task} has not used up its part of the input: {how}')

    def _wait_for_ends(self) -> None:
        """Lets ps and workers end first, so that the table of all tasks tells how."""
        others = [task for task in self.topology.tasks if task.job in ('worker', 'ps')]

        def missing() -> list[str]:
            return [str(task) for task in others if self.lives(task, *_AT_WORK)]

        self.lifecycle.wait_until(lambda: not missing(), self.lifecycle.settings.grace_period, missing)

    def _evaluated_elsewhere(self) -> bool:
        """Waits for the evaluator, as long as it lives, and takes over what it has found; else returns False."""
        # Some launchers leave the evaluator out of the cluster: its record tells that there is one.
        if not self.topology.has_evaluator and not self.ledger.peer(EVALUATOR):
            return False
        self.lifecycle.wait_until(
            lambda: self.lifecycle.stop is not None or not self.lives(EVALUATOR, ledger.STARTING, ledger.EVALUATING),
            float('inf'),  # a heartbeat at least every trainer.peer_timeout
            lambda: [f'{EVALUATOR} to evaluate the last checkpoint'],
        )
        if self.lifecycle.stop is not None:
            raise Stopped
        if self.ledger.peer(EVALUATOR).get('state') == ledger.DONE:
            results = json.loads(files.read(self.results_path))
            self.run.summary.evaluations, self.run.summary.exports = results['evaluations'], results['exports']
            return True
        self.run.report.warn(f'{EVALUATOR} has not started, has failed or is lost: the chief evaluates')
        return False

    def _checkpoint_hook(self, scaffold: tf.compat.v1.train.Scaffold) -> LastCheckpointHook:
        # Estimator makes no hook of its own where there is one, and hooks of the chief come first: so this one waits
        # while the session is still open to the workers.
        config = self.run.config
        return LastCheckpointHook(
            self._end_training,
            self.run.model_dir,
            save_secs=config.save_checkpoints_secs,
            save_steps=config.save_checkpoints_steps,
            # Under a strategy the Estimator makes another scaffold, and its saver is that of the graph.
            scaffold=scaffold if config.train_distribute is None else None,
            # So that the position in the input is never older than the checkpoint.
            listeners=[CheckpointListener(self._note_checkpoint)],
        )

    def _note_checkpoint(self, step: int) -> None:
        try:
            self.ledger.write(**self.progress())
        except Exception as error:  # as with a heartbeat, one that fails is no reason to end the training
            console.say(f'cannot write the position of step {step} in the input: {error}')

    def _end_training(self) -> None:
        """Has the workers stop, so that the last checkpoint, saved after this, holds all their updates."""
        waits = self.lifecycle.settings.end_policy == 'all_workers' and not self.synchronous.is_on
        if waits and self._only_input_has_ended():
            # Bounded by their own input, by max_steps, and by their heartbeats.
            working = (ledger.STARTING, ledger.TRAINING)
            self.lifecycle.wait_until(
                lambda: self.lifecycle.stop is not None or not self.workers(*working),
                float('inf'),
                lambda: [f'{worker} to use up its input' for worker in self.workers(*working)],
            )
        seconds = self.lifecycle.settings.grace_period
        if self.lifecycle.signalled:
            # Half of the time that is left is for the workers, the other half to save.
            seconds /= 2
        self.ledger.write(state=ledger.ENDING, **self.synchronous.cause(), **self.progress())
        if not self.lifecycle.wait_until(lambda: not self._training(), seconds, self._training):
            self.run.report.warn(f'did not wait longer than {seconds:g} s for {", ".join(self._training())}')

    def _only_input_has_ended(self) -> bool:
        hook, max_steps = self.run.hook, self.run.experiment.max_steps
        at_the_end = max_steps is not None and hook.step >= max_steps
        return self.lifecycle.stop is None and not hook.stopped_by_hook and not at_the_end

    def _count_examples(self) -> None:
        records = [self.ledger.peer(task) for task in self.topology.training_tasks[1:]]
        counts = [record.get('examples', 0) for record in records]
        for record in records:
            # Still counting, or lost; or started anew in this run, without what it had counted before.
            if record.get('state') == ledger.TRAINING or (record.get('took_over') or 0) > self.ledger.started:
                counts.append(None)
        self.run.examples_elsewhere = None if None in counts else sum(counts)


class _CollectiveTask(_ClusterTask):
    """A training task that makes each step together with the others, and decides together with them."""

    def _prepare_training(self) -> None:
        run, config, settings = self.run, self.run.config, self.lifecycle.settings
        tasks = self.topology.training_tasks
        group = Group(
            tasks, tasks.index(self.topology.task), run.input.position.per_step, settings.uneven_input == 'pad'
        )
        run.input.share(group)
        run.voting = VotingHook(
            group,
            signalled=lambda: self.lifecycle.signalled,
            on_signal=self.lifecycle.stop_with,
            save_secs=config.save_checkpoints_secs,
            save_steps=config.save_checkpoints_steps,
            max_steps=run.experiment.max_steps,
            finite=run.input_is_finite,
            on_lost=self._lost,
        )
        run.model.last_hooks = hooks(run.voting, config, self._output_directory())
        run.on_training_start = lambda: self.ledger.write(state=ledger.TRAINING, **self.progress())
        run.before_session = self._begin_steps

    def _begin_steps(self) -> None:
        self.lifecycle.steps_together = True

    def train(self) -> None:
        try:
            super().train()
        except _COLLECTIVE_ERRORS as error:
            self._lost(error)
        self.lifecycle.steps_together = False

    def _lost(self, error: Exception | None = None) -> None:
        """Has the lifecycle name the task that is lost, and end this one; if it does not, raises an error."""
        seconds = self.lifecycle.settings.peer_timeout + _SECONDS_TO_NAME_A_PEER
        task, stopped = self.topology.task, lambda: self.lifecycle.stop is not None
        console.say(f'a step of {task} has failed: looking for up to {seconds:g} s which task is lost')
        if self.lifecycle.wait_until(stopped, seconds, lambda: ['a task to be found lost']):
            raise Stopped
        if error is not None:
            raise error
        raise RestartableError(f'{task} lost the connection to a task with which it makes each step')

    def _output_directory(self) -> str:
        if self.topology.is_chief:
            return self.run.model_dir
        # A save may need all tasks; what a worker writes is of no use to anybody.
        scratch = tempfile.mkdtemp(prefix='estimator_trainer-worker-')
        atexit.register(shutil.rmtree, scratch, ignore_errors=True)
        return scratch

    def progress(self):
        voting = self.run.voting
        return super().progress() | ({'unread': voting.unread} if voting is not None and voting.unread != 0 else {})


class _CollectiveWorker(_CollectiveTask):
    def work(self):
        self._server = self.start_server()
        if not self.run.nothing_to_train():
            self._prepare_training()
            self.train()


class _CollectiveChief(_CollectiveTask, _Chief):
    def _count_examples(self) -> None:
        # They end with the same step, so they need only the time to save.
        self.lifecycle.wait_until(lambda: not self._training(), self.lifecycle.settings.grace_period, self._training)
        super()._count_examples()

    def _warn_of_unread_input(self) -> None:
        for note in self.run.voting.notes if self.run.voting is not None else ():
            self.run.report.warn(note)
        unread = {task: self.ledger.peer(task).get('unread', 0) for task in self.topology.training_tasks[1:]}
        for task, count in ({CHIEF: self.run.voting.unread} | unread).items():
            if count != 0:
                what = f'{count:,} examples' if count else 'examples'
                self.run.report.warn(
                    f"{what} of {task} were not trained on; trainer.uneven_input = 'pad' leaves none out"
                )


class _Worker(_ClusterTask):
    """Trains until the chief ends, max_steps is reached or its input is used up."""

    def work(self):
        self._server = self.start_server()
        self.run.before_session = self._wait_for_variables
        if not self.run.nothing_to_train():  # else nobody may be there any more
            self.train()

    def _wait_for_variables(self) -> None:
        """Waits until the chief has initialised them: a session made before would look again only after 30 s."""
        seconds = self.run.config.session_creation_timeout_secs
        awaited = f'{CHIEF} to initialise the variables'
        self.lifecycle.wait_until(
            lambda: self.chief_is(ledger.TRAINING) or self.lifecycle.stop is not None, seconds, lambda: [awaited]
        )
        if self.lifecycle.stop is None and not self.chief_is(ledger.TRAINING):
            raise RestartableError(
                f'{self.topology.task} gave up after {seconds:g} s (RunConfig.session_creation_timeout_secs) waiting '
                f'for {awaited}'
            )
        # First written, then looked again, as the chief does when it ends: one of the two sees the other, so a worker
        # either is waited for or does not begin.
        self.ledger.write(state=ledger.TRAINING)
        if not self.chief_is(ledger.TRAINING):
            # The lifecycle, which looks twice a second, knows whether the chief is done or will be restarted.
            self.lifecycle.wait_until(lambda: self.lifecycle.stop is not None, 5, lambda: [])
            raise Stopped


class _ParameterServer(_ClusterTask):
    """Serves variables until the chief has ended the training and no worker trains any more."""

    def work(self):
        self._server = self.start_server()
        self.wait_for_peers()
        self.ledger.write(state=ledger.SERVING)
        # The training has no deadline; when the chief fails or is lost, the lifecycle ends this process. After a signal
        # the chief, which often gets one too, needs the variables to save them: the grace period is for that.
        while not self.chief_is(ledger.TRAINED, ledger.DONE):
            time.sleep(0.5)
        self.lifecycle.wait_until(lambda: not self._training(), self.lifecycle.settings.grace_period, self._training)


class _Evaluator(_ClusterTask):
    """Evaluates each new checkpoint, and the last one when the chief is done."""

    def work(self):
        self.wait_for_peers()
        self.ledger.write(state=ledger.EVALUATING)
        while not self.lifecycle.signalled:
            done = self.chief_is(ledger.TRAINED, ledger.DONE)  # asked before the checkpoint is looked up
            if done or self.run.checkpoint():
                self.run.evaluate(final=done)
            if done:
                break
            self._pause()
        if not self.lifecycle.signalled:
            # For the summary, which the chief writes.
            results = {name: getattr(self.run.summary, name) for name in ('evaluations', 'exports')}
            files.write(self.results_path, json.dumps(finite(results)))

    def _pause(self) -> None:
        end = time.monotonic() + max(self.lifecycle.settings.throttle_secs, 0.5)
        while time.monotonic() < end and not self.lifecycle.signalled:
            time.sleep(0.5)
