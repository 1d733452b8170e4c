"""A task with peers: its server, its start and its training."""

import os
from typing import Any

from estimator_trainer import ledger, strategies
from estimator_trainer.compat import private, tf
from estimator_trainer.errors import RestartableError
from estimator_trainer.ledger_task import LedgerTask
from estimator_trainer.run import Run
from estimator_trainer.synchronous import SynchronousTraining


class ClusterTask(LedgerTask):
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

    def training_workers(self) -> list[str]:
        """Names the workers that train."""
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
