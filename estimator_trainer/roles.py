"""What each task does: a local process, and the chief, workers, parameter servers and evaluator of a cluster."""

import json
import time

from estimator_trainer import files, ledger
from estimator_trainer.chief import Chief
from estimator_trainer.cluster_task import ClusterTask
from estimator_trainer.collective_task import CollectiveChief, CollectiveWorker
from estimator_trainer.errors import RestartableError, UserError
from estimator_trainer.hooks import Stopped
from estimator_trainer.ledger_task import LedgerTask
from estimator_trainer.outputs import export, predict
from estimator_trainer.run import Run
from estimator_trainer.summary import finite
from estimator_trainer.topology import CHIEF


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
        modes = {'evaluate': run.evaluations.evaluate, 'predict': lambda: predict(run), 'export': lambda: export(run)}
        modes[run.mode]()
        return
    roles = {
        'local': _Local,
        'chief': Chief,
        'worker': _Worker,
        'ps': _ParameterServer,
        'evaluator': _Evaluator,
    }
    if run.topology.is_collective:
        roles |= {'chief': CollectiveChief, 'worker': CollectiveWorker}
    roles[task.job](run).perform()


def tell_peers(run: Run, error: BaseException) -> None:
    """Tells the peers, if there are any, that this task has failed before its work began: they must not wait for it."""
    if not run.topology.is_local and run.trains:
        task = ClusterTask(run)
        task.ledger.begin()
        task.fail(f'{type(error).__name__}: {error}'.splitlines()[0], getattr(error, 'exit_code', 1))


def foresee(run: Run) -> None:
    """Finds what this task would do with its input, for the plan."""
    if run.topology.task in run.topology.training_tasks:
        task = LedgerTask(run)
        run.resume(task.ledger.before if task.resumes else {}, training_went_on=False)


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
            self.run.conclude()


class _Worker(ClusterTask):
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


class _ParameterServer(ClusterTask):
    """Serves variables until the chief has ended the training and no worker trains any more."""

    def work(self):
        self._server = self.start_server()
        self.wait_for_peers()
        self.ledger.write(state=ledger.SERVING)
        # The training has no deadline; when the chief fails or is lost, the lifecycle ends this process. After a signal
        # the chief, which often gets one too, needs the variables to save them: the grace period is for that.
        while not self.chief_is(ledger.TRAINED, ledger.DONE):
            time.sleep(0.5)
        self.lifecycle.wait_until(
            lambda: not self.training_workers(), self.lifecycle.settings.grace_period, self.training_workers
        )


class _Evaluator(ClusterTask):
    """Evaluates each new checkpoint, and the last one when the chief is done."""

    def work(self):
        self.wait_for_peers()
        self.ledger.write(state=ledger.EVALUATING)
        while not self.lifecycle.signalled:
            done = self.chief_is(ledger.TRAINED, ledger.DONE)  # asked before the checkpoint is looked up
            if done or self.run.checkpoint():
                self.run.evaluations.evaluate(final=done)
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
