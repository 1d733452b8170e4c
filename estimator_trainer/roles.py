"""What each task does: a local process, and the chief, workers, parameter servers and evaluator of a cluster."""

import os
import signal
import time
from typing import Any

from estimator_trainer import files, ledger
from estimator_trainer.compat import tf
from estimator_trainer.errors import RestartableError, UserError
from estimator_trainer.hooks import LastCheckpointHook, Stopped
from estimator_trainer.ledger import Ledger
from estimator_trainer.outputs import export, predict
from estimator_trainer.run import Run
from estimator_trainer.summary import add_evaluations
from estimator_trainer.topology import CHIEF, EVALUATOR


def perform(run: Run) -> None:
    """Does what this task has to do and returns when it is done, or when the process was told to stop."""
    task = run.topology.task
    if not run.trains and not run.topology.is_local:
        raise UserError(f'--mode={run.mode} runs in one process, but TF_CONFIG makes this one {task}; unset TF_CONFIG')
    if run.mode == 'train' and task.job == 'evaluator':
        raise UserError('--mode=train has no work for an evaluator; leave it out, or use --mode=train_and_evaluate')
    roles = {'chief': _Chief, 'worker': _Worker, 'ps': _ParameterServer, 'evaluator': _Evaluator}
    if task.job in roles:
        roles[task.job](run).perform()
        return
    if not run.trains:
        {'evaluate': run.evaluate, 'predict': lambda: predict(run), 'export': lambda: export(run)}[run.mode]()
        return
    run.train()
    if run.lifecycle.stop is None:
        _end(run)


def tell_peers(run: Run, error: BaseException) -> None:
    """Tells the peers, if there are any, that this task has failed before its work began: they must not wait for it."""
    if not run.topology.is_local:
        _ClusterTask(run).fail(f'{type(error).__name__}: {error}'.splitlines()[0], 1)


def _end(run: Run) -> None:
    """Evaluates and exports what a training that has ended well has made."""
    if run.mode == 'train_and_evaluate':
        run.evaluate(final=True)
    else:
        run.final_export()


class _ClusterTask:
    """A task of a cluster, which keeps its ledger: starting, training, done or failed."""

    def __init__(self, run: Run):
        self.run = run
        self.topology = run.topology
        self.lifecycle = run.lifecycle
        self.ledger = Ledger(
            os.path.join(run.model_dir, 'run'),
            self.topology.task,
            self.topology.run_id,
            files,
            (*self.topology.tasks, EVALUATOR),
        )

    def perform(self) -> None:
        """Does the task's work and leaves its outcome in the ledger."""
        self.lifecycle.before_abort(self.fail)
        self.lifecycle.watch_peers(self.topology, self.ledger)
        self.lifecycle.graceful = True
        try:
            self.work()
        except Stopped:
            pass
        except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
            message = f'{self.topology.task} lost the connection to a peer: {error.message.splitlines()[0]}'
            self.fail(message, RestartableError.exit_code)
            raise RestartableError(message) from None
        except BaseException as error:
            self.fail(f'{type(error).__name__}: {error}'.splitlines()[0], 1)
            raise
        stop = self.lifecycle.stop
        if stop is not None and stop.exit_code:
            self.fail(f'stopped by {stop.reason}', stop.exit_code)
        else:
            self.ledger.write(state=ledger.DONE, **self.progress())

    def work(self) -> None:
        """What this kind of task does."""

    def progress(self) -> dict[str, Any]:
        hook = self.run.hook
        return {'step': hook.step, 'examples': hook.examples} if hook else {'examples': 0}

    def fail(self, cause: str, exit_code: int) -> None:
        """Writes to the ledger that this task has failed, if the exit code says so."""
        if exit_code:
            self.ledger.write(state=ledger.FAILED, cause=cause, **self.progress())

    def start_server(self) -> Any:
        """Opens this task's gRPC server: before anybody is waited for, so that no two tasks wait for each other."""
        task, config = self.topology.task, self.run.config
        try:
            return tf.distribute.Server(
                config.cluster_spec.as_dict(),
                task.job,
                task.index,
                protocol=config.protocol,
                config=config.session_config,
            )
        except tf.errors.OpError as error:
            raise RestartableError(f'{task} cannot listen on {self.topology.address(task)}: {error.message}') from None

    def training_workers(self) -> list[str]:
        """Names the workers that are still training."""
        workers = (task for task in self.topology.training_tasks if task.job == 'worker')
        records = {task: self.ledger.peer(task) for task in workers}
        return [str(task) for task, record in records.items() if self._lives(record, ledger.TRAINING)]

    def _lives(self, record: dict[str, Any], *states: str) -> bool:
        """Whether a record says one of `states` and is not so old that its task is lost."""
        return record.get('state') in states and time.time() - record['time'] < self.lifecycle.settings.peer_timeout

    def chief_is(self, *states: str) -> bool:
        """Whether the chief's record says one of `states`."""
        return self.ledger.peer(CHIEF).get('state') in states

    def train(self) -> None:
        """Trains once the peers are there."""
        self.lifecycle.wait_for_peers(self.topology)
        if self.lifecycle.stop is None:
            self.run.train()


class _Chief(_ClusterTask):
    """Trains, initialises the variables, saves checkpoints, and ends the job."""

    def work(self):
        self._server = self.start_server()
        self.run.examples_elsewhere = None  # until the workers have ended
        if self.run.config.save_checkpoints_steps or self.run.config.save_checkpoints_secs:
            self.run.model.chief_hook = self._checkpoint_hook
        self.run.on_training_start = lambda: self.ledger.write(state=ledger.TRAINING)
        self.train()
        self._count_examples()
        if self.lifecycle.signalled:
            return
        self.ledger.write(state=ledger.TRAINED, **self.progress())
        self.lifecycle.needs_peers = False
        if self.run.mode == 'train' or not self._has_evaluator():
            _end(self.run)

    def _has_evaluator(self) -> bool:
        # Some launchers leave the evaluator out of the cluster: its record tells that there is one.
        record = self.ledger.peer(EVALUATOR)
        lives = self._lives(record, ledger.STARTING, ledger.DONE)
        if not lives and (record or self.topology.has_evaluator):
            self.run.report.warn(f'{EVALUATOR} has failed or is lost: the chief evaluates')
        return lives

    def _checkpoint_hook(self, scaffold: tf.compat.v1.train.Scaffold) -> LastCheckpointHook:
        # Estimator makes no hook of its own where there is one, and hooks of the chief come first: so this one waits
        # while the session is still open to the workers.
        config = self.run.config
        return LastCheckpointHook(
            self._end_training,
            self.run.model_dir,
            save_secs=config.save_checkpoints_secs,
            save_steps=config.save_checkpoints_steps,
            scaffold=scaffold,
        )

    def _end_training(self) -> None:
        """Has the workers stop, so that the last checkpoint, saved after this, holds all their updates."""
        seconds = self.lifecycle.settings.grace_period
        cause = {}
        if self.lifecycle.signalled:
            # Half of the time that is left is for the workers, the other half to save.
            seconds /= 2
            cause['cause'] = f'stopped by {signal.Signals(self.lifecycle.stop.exit_code - 128).name}'
        self.ledger.write(state=ledger.ENDING, **cause, **self.progress())
        if not self.lifecycle.wait_until(lambda: not self.training_workers(), seconds, self.training_workers):
            self.run.report.warn(f'did not wait longer than {seconds:g} s for {", ".join(self.training_workers())}')

    def _count_examples(self) -> None:
        records = [self.ledger.peer(task) for task in self.topology.training_tasks[1:]]
        counts = [record.get('examples', 0) for record in records]
        for record in records:
            # Still counting, or lost; or started anew in this run, without what it had counted before.
            if record.get('state') == ledger.TRAINING or (record.get('took_over') or 0) > self.ledger.started:
                counts.append(None)
        self.run.examples_elsewhere = None if None in counts else sum(counts)


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
        self.lifecycle.wait_for_peers(self.topology)
        # The training has no deadline; when the chief fails or is lost, the lifecycle ends this process. After a signal
        # the chief, which often gets one too, needs the variables to save them: the grace period is for that.
        while not self.chief_is(ledger.TRAINED, ledger.DONE):
            time.sleep(0.5)
        self.lifecycle.wait_until(
            lambda: not self.training_workers(), self.lifecycle.settings.grace_period, self.training_workers
        )


class _Evaluator(_ClusterTask):
    """Evaluates each new checkpoint, and the last one when the chief is done."""

    def work(self):
        self.lifecycle.wait_for_peers(self.topology)
        while not self.lifecycle.signalled:
            done = self.chief_is(ledger.TRAINED, ledger.DONE)  # asked before the checkpoint is looked up
            if done or self.run.checkpoint():
                self.run.evaluate(final=done)
            if done:
                break
            self._pause()
        if not self.lifecycle.signalled:
            self._complete_summary()

    def _complete_summary(self) -> None:
        """Adds the evaluations to the summary that the chief has written."""
        seconds = self.lifecycle.settings.grace_period
        if self.lifecycle.wait_until(lambda: self.chief_is(ledger.DONE), seconds, lambda: [str(CHIEF)]):
            add_evaluations(self.run.summary_path, self.run.summary.evaluations, self.run.summary.exports)

    def _pause(self) -> None:
        end = time.monotonic() + max(self.lifecycle.settings.throttle_secs, 0.5)
        while time.monotonic() < end and not self.lifecycle.signalled:
            time.sleep(0.5)
