"""Checks all of an experiment that can be checked before anything is written: parts, graphs, bindings, checkpoint."""

import os
from collections.abc import Sequence

from estimator_trainer import checkpoints, files, gin_config, input_checks, predictions, specs
from estimator_trainer.compat import tf
from estimator_trainer.early_stopping import EarlyStopping
from estimator_trainer.errors import TrainerError, UserError, nearest, tensorflow_message
from estimator_trainer.exporters import BestExporter
from estimator_trainer.run import Run

_ModeKeys = tf.estimator.ModeKeys
# So long the first batch of an input is waited for, before anything is written.
_FIRST_BATCH_SECONDS = 5.0


def prepare(run: Run, bindings: Sequence[gin_config.Binding], strict_unused: bool) -> None:
    """Checks what `run` is about to do.

    Args:
        run: what is checked; what its graphs warn of is said.
        bindings: all bindings, to find those that nothing uses.
        strict_unused: whether such a binding is an error.

    Raises:
        UserError: a part is missing or wrong, or a checkpoint does not fit, or a binding is not used.
    """
    cwd = os.getcwd()
    _check_directories(run)
    parts = _required(run)
    _check_parts(run, parts)
    for part in parts:
        _build(run, part)
    _check_records(run, parts)
    if 'evaluate' in parts and (warning := run.model.check_replicas()):
        run.report.warn(warning)
    if run.mode == 'evaluate':
        _check_batches(run, parts)
    if run.trains:
        if 'train' in parts and run.checkpoint() is None:  # else what it says of a start is of no account
            run.model.check_start()
        _check_batches(run, parts)
        _check_metrics(run)
    if os.getcwd() != cwd and not os.path.isabs(run.model_dir) and '://' not in run.model_dir:
        raise UserError(
            f'RunConfig.model_dir: user code has changed the current directory to {os.getcwd()}, where {run.model_dir} '
            'is another place; give an absolute path'
        )
    if run.topology.is_chief and (run.trains or strict_unused):
        run.user_hooks  # noqa: B018  Functions that make hooks use bindings too.
        for warning in run.model.rehearsal.warnings():
            run.report.warn(warning)
        _check_use(run, bindings, strict_unused)


def _build(run: Run, part: str) -> None:
    if part == 'export' and run.experiment.exporters and run.mode != 'export':
        run.exports.rehearse(run.model.rehearsal)
    else:
        getattr(run.model.rehearsal, part)()


def _required(run: Run) -> list[str]:
    """Returns the graphs that this task will build."""
    experiment, job = run.experiment, run.topology.task.job
    if job in ('worker', 'ps'):  # A worker's graph is built soon enough, and by the chief.
        # But one whose input is empty would have all others wait for its first step.
        return ['train'] if job == 'worker' and (run.options.plan or run.topology.is_collective) else []
    if run.mode == 'train':
        return ['train', *['export'] * bool(run.exports.final_exporters)]
    if run.mode == 'train_and_evaluate':
        parts = ['evaluate', *['export'] * bool(experiment.exporters)]
        return parts if job == 'evaluator' else ['train', *parts]
    return [run.mode]


def _check_parts(run: Run, parts: Sequence[str]) -> None:
    experiment, mode = run.experiment, run.mode
    if run.trains and run.topology.task.job != 'evaluator' and experiment.train_input_fn is None:
        raise UserError('experiment.train_input_fn is not bound; expected e.g. @train/my_input_fn')
    if 'evaluate' in parts and experiment.eval_input_fn is None:
        hint = '; bind it, or use --mode=train (not train_and_evaluate)' if mode == 'train_and_evaluate' else ''
        raise UserError(f'experiment.eval_input_fn is not bound{hint}')
    if 'predict' in parts and experiment.predict_input_fn is None and experiment.eval_input_fn is None:
        raise UserError('experiment.predict_input_fn is not bound; expected e.g. @predict/my_input_fn')
    if mode == 'predict':
        predictions.check_output(run.options.output)
    if mode == 'train_and_evaluate' and not (run.config.save_checkpoints_steps or run.config.save_checkpoints_secs):
        raise UserError(
            'RunConfig.save_checkpoints_steps: evaluation needs checkpoints; bind it, or save_checkpoints_secs'
        )
    if not run.trains and run.checkpoint() is None:
        raise UserError(f'--mode={mode}: no checkpoint in {run.model_dir}')


def _check_batches(run: Run, parts: Sequence[str]) -> None:
    """Raises a UserError if the first batch of an input is not there; one that takes long is not waited for."""
    for part, name, mode in (
        ('train', 'train_input_fn', _ModeKeys.TRAIN),
        ('evaluate', 'eval_input_fn', _ModeKeys.EVAL),
    ):
        if part not in parts:
            continue
        try:
            with input_checks.explained(mode):
                sizes, ended = getattr(run.model.rehearsal, part)().batches(_FIRST_BATCH_SECONDS, 1)
        except TrainerError as error:
            raise UserError(str(error)) from None
        except tf.errors.OpError as error:
            if 'Traceback' in error.message:  # of the user's own code
                raise
            raise UserError(f'experiment.{name}: {tensorflow_message(error)}') from None
        if ended and not sizes:
            raise UserError(f'experiment.{name} produced no batches{run.input.part if part == "train" else ""}')


def _check_records(run: Run, parts: Sequence[str]) -> None:
    """Raises a UserError if a record of an input is bad; those that take longer to look at are not looked at."""
    modes = {'train': _ModeKeys.TRAIN, 'evaluate': _ModeKeys.EVAL, 'predict': _ModeKeys.PREDICT}
    for part in (part for part in parts if part in modes):
        found = input_checks.examine(modes[part], run.lifecycle.settings.input_check_secs)
        if found.mistake is not None:
            raise UserError(found.mistake)
        run.input_remarks += [f'{part}: {remark}' for remark in found.remarks]


def _check_metrics(run: Run) -> None:
    """Looks whether the metrics that exporters and hooks go by are among those of the evaluation."""
    evaluation = run.model.rehearsal.built.get(_ModeKeys.EVAL)
    exporters = [exporter for exporter in run.experiment.exporters if exporter not in run.exports.final_exporters]
    hooks = [hook for hook in run.user_hooks if isinstance(hook, EarlyStopping)] if run.topology.is_chief else []
    if run.mode == 'train':
        for it in [*exporters, *hooks]:
            run.report.warn(f'{type(it).__name__} goes by evaluations, and --mode=train makes none')
    if evaluation is None or run.mode == 'train':
        return
    metrics = specs.metric_names(evaluation.spec)
    for exporter in exporters:
        if isinstance(exporter, BestExporter):
            exporter.check(metrics)
    for hook in hooks:
        if mistake := hook.lacking(metrics):
            raise UserError(mistake)


def _check_directories(run: Run) -> None:
    """Raises a UserError if a directory that is to be written to cannot be."""
    output = run.options.output
    if run.mode == 'export' and output is not None:
        if os.path.splitext(output)[1] in predictions.SUFFIXES or os.path.isfile(output):
            raise UserError(f'--output: --mode=export writes a directory, found {output!r}')
        files.check_writable(output, '--output')
    elif run.mode != 'predict' or not os.path.isdir(run.model_dir):
        files.check_writable(run.model_dir, 'RunConfig.model_dir')


def check_fit(run: Run) -> None:
    """Raises a UserError if the checkpoint that is there is not one of this model."""
    checkpoint = run.checkpoint()
    built = next(iter(run.model.rehearsal.built.values()), None)
    # A Saver of the model's own may well leave variables out, or rename them.
    if checkpoint is None or built is None or built.spec.scaffold.saver is not None:
        return
    comparison = checkpoints.compare(checkpoint, run.model.rehearsal.variables)
    if comparison is not None and not comparison.fits:
        hint = '' if run.options.checkpoint else '; train it in another --model_dir'
        raise UserError(f'{checkpoints.misfit(checkpoint, comparison)}{hint}')


def _check_use(run: Run, bindings: Sequence[gin_config.Binding], strict: bool) -> None:
    """Reports the bindings that nothing has used when all graphs are built that the experiment has parts for."""
    experiment = run.experiment
    there = {
        'train': experiment.train_input_fn,
        'evaluate': experiment.eval_input_fn,
        'predict': experiment.predict_input_fn,
        'export': experiment.exporters or experiment.serving_input_receiver_fn,
    }
    for part in (part for part in there if there[part] or part == 'export'):
        if not gin_config.unused(bindings):
            return
        try:
            _build(run, part)
        except Exception as error:  # A part that this mode does not need; what it uses cannot be known.
            if not there[part]:
                continue  # Any model may be exported, but nobody has said that of this one.
            if strict:
                raise UserError(f'--strict_unused: cannot build the graph of {part}: {error}') from error
            return
    unused = []
    for binding in gin_config.unused(bindings):
        scopes = {other.scope for other in bindings if other.scope and not other.is_macro} - {binding.scope}
        hint = '' if binding.is_macro or not binding.scope else nearest(binding.scope, scopes)
        unused.append(f'{binding.where}: {binding.name} = {binding.value}: nothing uses this binding{hint}')
    if unused and strict:
        raise UserError('; '.join(unused))
    for line in unused:
        run.report.warn(line)
