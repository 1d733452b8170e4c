"""What the tasks of a synchronous training tell each other: none can make a step without the others."""

import signal
import time
from typing import Any

from estimator_trainer import console, ledger
from estimator_trainer.errors import RestartableError
from estimator_trainer.hooks import Stopped
from estimator_trainer.ledger_task import LedgerTask
from estimator_trainer.sync_replicas import SyncHook, Synchronous
from estimator_trainer.topology import CHIEF


class SynchronousTraining:
    """One task's part in a training that may turn out to be synchronous, when its graph is built.

    Attributes:
        ended_elsewhere: whether another task has ended the training of all.
    """

    def __init__(self, task: LedgerTask):
        self._task = task
        self._run, self._topology, self._lifecycle = task.run, task.topology, task.lifecycle
        self._synchronous: Synchronous | None = None
        self.ended_elsewhere = False

    @property
    def is_on(self) -> bool:
        """Whether training is synchronous."""
        return self._synchronous is not None

    def hook(self, synchronous: Synchronous) -> SyncHook:
        """Returns the hook for a training graph that is synchronous."""
        self._synchronous = synchronous
        hook = SyncHook(synchronous, self._topology.is_chief, self._on_end)
        self._lifecycle.release = hook.release
        return hook

    def wait_for_workers(self) -> None:
        """Waits, on the chief, for as many workers as a step takes.

        Raises:
            RestartableError: they have not come within trainer.startup_timeout, or one of them has failed.
            Stopped: this process was told to stop.
        """
        if not self.is_on:
            return
        workers = self._topology.training_tasks[1:]
        needed = min(self._synchronous.aggregated - 1, len(workers))
        if self._synchronous.needs_all:
            self._lifecycle.also_needs = workers

        def missing() -> list[str]:
            states = {worker: self._task.ledger.peer(worker).get('state', 'not started') for worker in workers}
            awaited = ('not started', ledger.STARTING)
            return [f'{worker} ({state})' for worker, state in states.items() if state in awaited]

        def are_there() -> bool:
            return len(workers) - len(missing()) >= needed

        began, seconds = time.monotonic(), self._lifecycle.settings.startup_timeout
        self._lifecycle.wait_until(lambda: self._lifecycle.stop is not None or are_there(), seconds, missing)
        self._run.hook.leave_out(time.monotonic() - began)
        if self._lifecycle.lost:
            raise RestartableError(self._lifecycle.lost)
        if self._lifecycle.stop is not None:
            raise Stopped
        if not are_there():
            raise RestartableError(
                f'{CHIEF} gave up after {seconds:g} s (trainer.startup_timeout) waiting for {", ".join(missing())}: '
                f'a step of sync_replicas takes {self._synchronous.aggregated} gradients'
            )

    def _on_end(self, ended_elsewhere: bool) -> None:
        """Leaves in the ledger how this task ends, before the others are let go and look there."""
        self._lifecycle.also_needs = ()
        self.ended_elsewhere = ended_elsewhere
        fields = {}
        if not ended_elsewhere:
            why, step = self._run.why_training_ended(self._run.hook.step), self._run.hook.step
            fields['ended'] = [why, step]
            if why != 'max_steps':
                console.say(f'{self._topology.task} ends the training of all tasks at step {step} ({why})')
        self._task.ledger.write(state=ledger.ENDING, **fields, **self.cause(), **self._task.progress())

    def cause(self) -> dict[str, str]:
        """Returns the `cause` for the chief's record where the others have to be restarted with it, else {}."""
        if not self._topology.is_chief:
            return {}
        if self._lifecycle.signalled:
            return {'cause': f'stopped by {signal.Signals(self._lifecycle.stop.exit_code - 128).name}'}
        failure = self._failure() if self.is_on else ''
        return {'cause': f'stopped: {failure}'} if failure else {}

    def _ends(self) -> list[tuple[Any, str, int]]:
        """Returns the tasks that say that they have ended the training of all, why, and at which step."""
        records = {task: self._task.ledger.peer(task) for task in self._topology.training_tasks}
        records[self._topology.task] = self._task.ledger.own()
        return [(task, *record['ended']) for task, record in records.items() if record.get('ended')]

    def _failure(self) -> str:
        stopped = (f'{task} was stopped at step {step}' for task, why, step in self._ends() if why == 'signal')
        return self._lifecycle.lost or next(stopped, '')

    def after_training(self) -> None:
        """Finds out how the training has ended, where another task may have ended it.

        Raises:
            RestartableError: a worker that the chief needs was lost.
        """
        if not self.is_on or self._lifecycle.signalled:
            return
        if not self._topology.is_chief:
            if self.ended_elsewhere and self._run.summary.stopped_because != 'max_steps':
                # The chief ends next, and tells by how it does so whether this task is to be restarted, too.
                self._lifecycle.wait_until(
                    lambda: self._lifecycle.stop is not None,
                    self._lifecycle.settings.grace_period,
                    lambda: [f'{CHIEF} to end'],
                )
            return
        if failure := self._failure():
            raise RestartableError(f'{failure}{self._run.last_checkpoint()}')
        for task, why, step in self._ends():
            if why == 'end_of_input':
                self._run.report.warn(f'the input of {task} has ended at step {step}, which ended the training of all')
            elif why == 'early_stopping':
                self._run.summary.stopped_because = why
