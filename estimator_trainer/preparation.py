"""Checks all of an experiment that can be checked before anything is written: parts, graphs, bindings, checkpoint."""

import os
import tempfile
from collections.abc import Sequence

from estimator_trainer import checkpoints, gin_config, predictions
from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from estimator_trainer.run import TRAINING_MODES, Run

_ModeKeys = tf.estimator.ModeKeys


def prepare(run: Run, bindings: Sequence[gin_config.Binding], strict_unused: bool) -> None:
    """Checks what `run` is about to do.

    Args:
        run: what is checked; what its graphs warn of is said.
        bindings: all bindings, to find those that nothing uses.
        strict_unused: whether such a binding is an error.

    Raises:
        UserError: a part is missing or wrong, or a checkpoint does not fit, or a binding is not used.
    """
    if '://' not in run.model_dir and (run.mode != 'predict' or not os.path.isdir(run.model_dir)):
        _check_directory(run.model_dir)
    parts = _required(run)
    _check_parts(run, parts)
    for part in parts:
        getattr(run.model.rehearsal, part)()
    if 'export' in parts:
        run.exports.give_receiver(run.model.rehearsal.receiver_fn())
    if run.topology.is_chief and (run.mode in TRAINING_MODES or strict_unused):
        run.user_hooks  # noqa: B018  Functions that make hooks use bindings too.
        for warning in run.model.rehearsal.warnings():
            run.report.warn(warning)
        _check_use(run, bindings, strict_unused)


def _required(run: Run) -> list[str]:
    """Returns the graphs that this task will build."""
    experiment, job = run.experiment, run.topology.task.job
    if job in ('worker', 'ps'):  # A worker's graph is built soon enough, and by the chief.
        return ['train'] if run.options.plan and job == 'worker' else []
    if run.mode == 'train':
        return ['train', *['export'] * bool(run.exports.final_exporters)]
    if run.mode == 'train_and_evaluate':
        parts = ['evaluate', *['export'] * bool(experiment.exporters)]
        return parts if job == 'evaluator' else ['train', *parts]
    return [run.mode]


def _check_parts(run: Run, parts: Sequence[str]) -> None:
    experiment, mode = run.experiment, run.mode
    if mode in TRAINING_MODES and run.topology.task.job != 'evaluator' and experiment.train_input_fn is None:
        raise UserError('experiment.train_input_fn is not bound; expected e.g. @train/my_input_fn')
    if 'evaluate' in parts and experiment.eval_input_fn is None:
        hint = '; bind it, or use --mode=train (not train_and_evaluate)' if mode == 'train_and_evaluate' else ''
        raise UserError(f'experiment.eval_input_fn is not bound{hint}')
    if 'predict' in parts and experiment.predict_input_fn is None and experiment.eval_input_fn is None:
        raise UserError('experiment.predict_input_fn is not bound; expected e.g. @predict/my_input_fn')
    if mode == 'predict':
        predictions.check_output(run.options.output)
    if mode == 'train_and_evaluate' and not (run.config.save_checkpoints_steps or run.config.save_checkpoints_secs):
        raise UserError('RunConfig: evaluation needs checkpoints; bind save_checkpoints_steps or _secs')
    if mode not in TRAINING_MODES and run.checkpoint() is None:
        raise UserError(f'--mode={mode}: no checkpoint in {run.model_dir}')


def _check_directory(path: str) -> None:
    """Raises a UserError unless a local directory, or the nearest that is there above it, can be written to."""
    there = os.path.abspath(path)
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    try:
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        raise UserError(f'RunConfig.model_dir: {path}: cannot write to {there}: {error.strerror}') from None


def check_fit(run: Run) -> None:
    """Raises a UserError if the checkpoint that is there is not one of this model."""
    checkpoint = run.checkpoint()
    built = next(iter(run.model.rehearsal.built.values()), None)
    # A Saver of the model's own may well leave variables out, or rename them.
    if checkpoint is None or built is None or built.spec.scaffold.saver is not None:
        return
    comparison = checkpoints.compare(checkpoint, run.model.rehearsal.variables)
    if comparison is not None and not comparison.fits:
        raise UserError(f'RunConfig.model_dir: {checkpoints.misfit(checkpoint, comparison)}')


def _check_use(run: Run, bindings: Sequence[gin_config.Binding], strict: bool) -> None:
    """Reports the bindings that nothing has used when all graphs are built that the experiment has parts for."""
    experiment, rehearsal = run.experiment, run.model.rehearsal
    there = {
        'train': experiment.train_input_fn,
        'evaluate': experiment.eval_input_fn,
        'predict': experiment.predict_input_fn,
        'export': experiment.exporters or experiment.serving_input_receiver_fn,
    }
    for part in (part for part in there if there[part]):
        try:
            getattr(rehearsal, part)()
        except Exception as error:  # A part that this mode does not need; what it uses cannot be known.
            if strict:
                raise UserError(f'--strict_unused: cannot build the graph of {part}: {error}') from error
            return
    unused = [f'{binding.where}: {binding.name} = {binding.value}' for binding in gin_config.unused(bindings)]
    if unused and strict:
        raise UserError(f'{unused[0]}: nothing uses this binding{f"; nor {len(unused) - 1} more" * (len(unused) > 1)}')
    for line in unused:
        run.report.warn(f'{line}: nothing uses this binding')
