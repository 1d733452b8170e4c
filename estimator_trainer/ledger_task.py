"""What all tasks have in common: a record in the ledger, from their start to their outcome."""

import contextlib
import dataclasses
import json
import os
import time
from typing import Any

from estimator_trainer import agreement, console, files, ledger
from estimator_trainer.compat import tf
from estimator_trainer.errors import RestartableError, TrainerError, UserError
from estimator_trainer.hooks import Stopped
from estimator_trainer.ledger import Ledger
from estimator_trainer.run import Run
from estimator_trainer.topology import CHIEF, EVALUATOR, LOCAL_CLUSTER, Task

# A task that is started again after its chief has ended is done if no new chief follows within so many seconds: a few
# where the task had not ended, more where it had, since then the job may just be run once more.
_SECONDS_FOR_A_NEW_CHIEF = (10.0, 30.0)


class LedgerTask:
    """A task that keeps its record in the ledger: starting, training, done or failed."""

    def __init__(self, run: Run):
        self.run = run
        self.topology = run.topology
        self.lifecycle = run.lifecycle
        self._directory = os.path.join(run.model_dir, 'run')
        self._agreed: set[str] = set()  # incarnations of peers
        self._terms = agreement.terms(run.topology, run.options.bindings)
        self.ledger = Ledger(
            self._directory,
            self.topology.task,
            self.topology.run_id,
            files,
            (*self.topology.tasks, CHIEF, EVALUATOR),
        )

    def perform(self) -> None:
        """Does the task's work and leaves its outcome in the ledger."""
        self.refuse_second()
        self.lifecycle.before_abort(self.fail)
        self.run.task_rows = self.rows
        self.start()
        try:
            self.work()
        except Stopped:
            pass
        except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
            if self.topology.is_local:
                raise
            message = f'{self.topology.task} lost the connection to a peer: {error.message.splitlines()[0]}'
            self.fail(message, RestartableError.exit_code)
            raise RestartableError(message) from None
        except BaseException as error:
            self.fail(f'{type(error).__name__}: {error}'.splitlines()[0], _exit_code(error))
            raise
        stop = self.lifecycle.stop
        if stop is not None and stop.exit_code:
            self.fail(f'stopped by {stop.reason}', stop.exit_code)
        else:
            self.ledger.write(state=ledger.DONE, exit=0, **self.progress())

    def start(self) -> None:
        """Makes this task known to its peers."""
        self.begin()
        self.lifecycle.graceful = True

    def begin(self) -> None:
        """Writes the first record, and watches peers and rivals from now on."""
        if self.resumes:
            # Should this process end before it trains, the next one still learns where training was interrupted.
            self.ledger.write(resumes=True, input=self.ledger.before.get('input'))
        if not self.topology.is_local:
            # First: who sees the record must not compare with the terms of an earlier run.
            files.makedirs(self._directory)
            files.write(self._terms_path(self.topology.task), json.dumps(self._terms))
        self.ledger.begin()
        self.lifecycle.watch_peers(self.topology, self.ledger, self.progress)

    @property
    def resumes(self) -> bool:
        """Whether the process that was this task before was interrupted."""
        return self.ledger.before.get('state', ledger.DONE) != ledger.DONE

    def work(self) -> None:
        """What this kind of task does."""

    def progress(self) -> dict[str, Any]:
        """Returns the fields of the record that tell how far this task is."""
        hook = self.run.hook
        if not hook:
            return {}
        position = dataclasses.asdict(self.run.note_position())
        return {'step': hook.step, 'steps': hook.runs, 'examples': hook.examples, 'input': position}

    def fail(self, cause: str, exit_code: int) -> None:
        """Writes to the ledger that this task has failed, if the exit code says so."""
        if exit_code:
            self.ledger.write(state=ledger.FAILED, cause=cause, exit=exit_code, **self.progress())

    # At the start.

    def refuse_second(self) -> None:
        """Raises a UserError if a living process is this task already."""
        if record := self.ledger.occupied(console.say):
            raise UserError(ledger.in_use(self.run.model_dir, record))

    def check_agreements(self) -> None:
        """Raises a UserError if chief and another task, this one being one of the two, were started differently."""
        task = self.topology.task
        for peer in [peer for peer in self.topology.tasks if peer != task and CHIEF in (peer, task)]:
            incarnation, text = self.ledger.peer(peer).get('incarnation'), ''
            if incarnation is None or incarnation in self._agreed:
                continue
            with contextlib.suppress(Exception):  # it starts just now
                text = files.read(self._terms_path(peer))
            if what := agreement.difference(self._terms, text):
                raise UserError(f'{task} and {peer} were started differently: {what}')
            if text:
                self._agreed.add(incarnation)

    def _terms_path(self, task: Task) -> str:
        return f'{self._directory}/{task.job}-{task.index}.job.json'

    def wait_for_peers(self) -> None:
        """Waits for the peers that this task needs, unless the job has ended before."""
        if self._comes_after_the_end():
            self.ledger.accept(CHIEF)
        self.lifecycle.wait_for_peers(self.topology, self.check_agreements)
        self.check_agreements()
        self.ledger.write(run=self.chief().get('incarnation'))

    def _comes_after_the_end(self) -> bool:
        """Whether this task was started anew after the chief had ended the job, which no new chief will do again."""
        old, before = self.ledger.old(CHIEF), self.ledger.before
        ended_for = time.time() - old.get('time', 0)
        timeout = self.lifecycle.settings.startup_timeout
        # With a run id there is no doubt which run a record is of.
        if self.topology.run_id or old.get('state') != ledger.DONE or ended_for > timeout:
            return False
        had_ended = before.get('state') == ledger.DONE and before.get('run') == old.get('incarnation')
        self.lifecycle.wait_until(
            lambda: self.lifecycle.stop is not None or bool(self.chief()),
            min(_SECONDS_FOR_A_NEW_CHIEF[had_ended], timeout),
            lambda: [f'a new {CHIEF}'],
        )
        return not self.chief()

    # Peers.

    def chief(self) -> dict[str, Any]:
        """Returns the chief's record in this run."""
        return self.ledger.peer(CHIEF)

    def chief_is(self, *states: str) -> bool:
        """Whether the chief's record says one of `states`."""
        return self.chief().get('state') in states

    def lives(self, task: Task, *states: str) -> bool:
        """Whether a task's record says one of `states` and has changed lately, else the task is lost."""
        if self.ledger.peer(task).get('state') not in states:
            return False
        if self.topology.source == LOCAL_CLUSTER and self.ledger.is_gone(task):
            return False
        return self.ledger.age(task) < self.lifecycle.settings.peer_timeout

    def workers(self, *states: str) -> list[str]:
        """Names the workers that live and are in one of `states`."""
        workers = (task for task in self.topology.training_tasks if task.job == 'worker')
        return [str(task) for task in workers if self.lives(task, *states)]

    def rows(self) -> list[dict[str, Any]]:
        """Returns what is known of each task, as in `Summary.tasks`."""
        tasks = self.topology.tasks or (self.topology.task,)
        if EVALUATOR not in tasks and self.ledger.peer(EVALUATOR):
            tasks = (*tasks, EVALUATOR)
        return [
            ledger.row(task, self.ledger.own() if task == self.topology.task else self.ledger.peer(task))
            for task in tasks
        ]


def _exit_code(error: BaseException) -> int:
    return error.exit_code if isinstance(error, TrainerError) else 1
