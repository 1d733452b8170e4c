"""The training tasks of a cluster without ps, which make each step together."""

import shutil
import tempfile
from typing import Any

from estimator_trainer import console, ledger
from estimator_trainer.chief import Chief
from estimator_trainer.cluster_task import ClusterTask
from estimator_trainer.compat import tf
from estimator_trainer.errors import RestartableError
from estimator_trainer.hooks import Stopped
from estimator_trainer.topology import CHIEF
from estimator_trainer.voting import Group, VotingHook, hooks

# What a step raises when a task that takes part in it has gone, as far as the session does not try again.
_COLLECTIVE_ERRORS = (
    *(tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError, tf.errors.InternalError),
    *(tf.errors.UnknownError, tf.errors.DeadlineExceededError),
)
_SECONDS_TO_NAME_A_PEER = 10.0


class CollectiveTask(ClusterTask):
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
            on_last=self._end_steps,
            on_lost=self._lost,
        )
        # A save may need all tasks, but what a worker writes is of no use to anybody.
        self._scratch = (
            run.model_dir if self.topology.is_chief else tempfile.mkdtemp(prefix='estimator_trainer-worker-')
        )
        run.model.last_hooks = hooks(run.voting, config, self._scratch, [run.watch.listener])
        run.on_training_start = lambda: self.ledger.write(state=ledger.TRAINING, **self.progress())
        run.before_session = self._begin_steps
        self.lifecycle.before_abort(self._clean_up)

    def _begin_steps(self) -> None:
        self.lifecycle.steps_together = True

    def _end_steps(self) -> None:
        self.lifecycle.steps_together = False

    def train(self) -> None:
        """Trains; who has to be waited for is told by the lifecycle."""
        try:
            super().train()
        except _COLLECTIVE_ERRORS as error:
            self._lost(error)
        finally:
            self._end_steps()
            self._clean_up()

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

    def _clean_up(self, *_: Any) -> None:
        if self._scratch != self.run.model_dir:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def progress(self) -> dict[str, Any]:
        """Returns the fields of the record; `unread` counts examples as `VotingHook.unread` does."""
        voting = self.run.voting
        return super().progress() | ({'unread': voting.unread} if voting is not None and voting.unread != 0 else {})


class CollectiveWorker(CollectiveTask):
    """Trains until all end."""

    def work(self) -> None:
        """Trains, unless the job has reached its end before."""
        self._server = self.start_server()
        if not self.run.nothing_to_train():
            self._prepare_training()
            self.train()


class CollectiveChief(CollectiveTask, Chief):
    """Trains until all end, and writes what is to be kept."""

    def _count_examples(self) -> None:
        # They end with the same step, so they need only the time to save.
        self.lifecycle.wait_until(
            lambda: not self.training_workers(), self.lifecycle.settings.grace_period, self.training_workers
        )
        super()._count_examples()

    def _warn_of_unread_input(self) -> None:
        for note in self.run.voting.notes:
            self.run.report.warn(note)
        unread = {task: self.ledger.peer(task).get('unread', 0) for task in self.topology.training_tasks[1:]}
        for task, count in ({CHIEF: self.run.voting.unread} | unread).items():
            if count != 0:
                what = f'{count:,} examples' if count else 'examples'
                self.run.report.warn(
                    f"{what} of {task} were not trained on; trainer.uneven_input = 'pad' leaves none out"
                )
