"""The chief: trains, saves, and ends the job."""

import json

from estimator_trainer import console, files, ledger
from estimator_trainer.cluster_task import ClusterTask
from estimator_trainer.compat import tf
from estimator_trainer.hooks import CheckpointListener, LastCheckpointHook, Stopped
from estimator_trainer.last_step import saves_checkpoints
from estimator_trainer.topology import EVALUATOR

_AT_WORK = (ledger.STARTING, ledger.TRAINING, ledger.SERVING)


class Chief(ClusterTask):
    """Trains, initialises the variables, saves checkpoints, and ends the job."""

    def work(self) -> None:
        """Trains, and sees to it that all else ends."""
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
            self.run.conclude()
        self._wait_for_ends()

    def _prepare_training(self) -> None:
        if saves_checkpoints(self.run.config):
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
            listeners=[self.run.watch.listener, CheckpointListener(self._note_checkpoint)],
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
        if not self.lifecycle.wait_until(lambda: not self.training_workers(), seconds, self.training_workers):
            self.run.report.warn(f'did not wait longer than {seconds:g} s for {", ".join(self.training_workers())}')

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
