"""What is made of a checkpoint besides its evaluation: predictions in a file, a SavedModel."""

import os
from collections.abc import Iterator
from typing import Any

from estimator_trainer import checkpoints, exporters, input_checks, predictions
from estimator_trainer.compat import tf
from estimator_trainer.errors import TrainerError
from estimator_trainer.hooks import Stopped
from estimator_trainer.run import Run
from estimator_trainer.user_fns import bind_input_fn


def export(run: Run) -> None:
    """Exports a checkpoint as a SavedModel."""
    base = run.options.output or os.path.join(run.model_dir, 'export', 'model')
    checkpoint = run.checkpoint()
    path = exporters.export_saved_model(run.model.estimator, base, run.model.rehearsal.receiver_fn(), checkpoint)
    run.on_export('model', checkpoints.step_of(checkpoint), path)


def predict(run: Run) -> None:
    """Writes a prediction for each example of the input.

    Raises:
        TrainerError: there was no input.
        Stopped: the process was told to stop meanwhile.
    """
    output = run.options.output
    run.lifecycle.graceful = True
    run.lifecycle.before_abort(lambda *_: predictions.discard(output))
    name = 'predict_input_fn' if run.experiment.predict_input_fn else 'eval_input_fn'
    bound = bind_input_fn(getattr(run.experiment, name), run.config.tf_random_seed)
    examples = run.model.estimator.predict(bound, checkpoint_path=run.checkpoint())
    with input_checks.explained(tf.estimator.ModeKeys.PREDICT):
        records = predictions.write(output, _until_stopped(run, examples))
    if not records:
        raise TrainerError(f'experiment.{name} produced no batches')
    run.outcome['output'] = f'{output} ({records:,} records)'


def _until_stopped(run: Run, examples: Iterator[Any]) -> Iterator[Any]:
    for example in examples:
        if run.lifecycle.signalled:
            raise Stopped
        yield example
