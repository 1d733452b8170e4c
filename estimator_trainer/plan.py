"""The plan: what a run would do, found by building its graphs and reading some of its input; nothing is trained."""

import os
from collections.abc import Sequence
from typing import Any

from estimator_trainer import checkpoints, gin_config, input_files, strategies, sync_replicas
from estimator_trainer.batches import Batch
from estimator_trainer.compat import tf
from estimator_trainer.exporters import BestExporter
from estimator_trainer.rehearsal import Built
from estimator_trainer.run import Run
from estimator_trainer.topology import EVALUATOR, Topology
from estimator_trainer.training_input import replicas_of

# Input is read so long to count its examples; what takes longer is not counted (null).
_READ_SECONDS = 20.0
_LONGEST_VALUE = 80  # characters of a binding's value that are shown to a person
_ModeKeys = tf.estimator.ModeKeys


def head(run: Run) -> dict[str, str]:
    """Returns the facts that stand at the head of a run: where, how, and until when."""
    checkpoint = run.checkpoint()
    step = f'from step {checkpoints.step_of(checkpoint):,}' if checkpoint else 'new'
    facts = {'model_dir': f'{run.model_dir} ({step})'}
    if not run.trains:
        return facts | {'checkpoint': checkpoint} | _eval_batch_fact(run)
    facts['strategy'] = _strategy(run)
    if not run.topology.is_local:
        facts['task'] = _task(run.topology)
    facts['until'] = f'step {run.experiment.max_steps:,}' if run.experiment.max_steps else 'the end of the input'
    facts['evaluation'] = _evaluation_rule(run)
    if run.input.line:
        facts['input'] = run.input.line
    return facts | _eval_batch_fact(run)


def _eval_batch_fact(run: Run) -> dict[str, Any]:
    batch = _eval_batch(run)
    return {'eval batch': batch} if batch else {}


def _eval_batch(run: Run) -> Batch | None:
    """Returns the batch arithmetic of the evaluation, None where no batch of it has been read."""
    built = run.model.rehearsal.built.get(_ModeKeys.EVAL)
    if built is None or built.first_size is None:
        return None
    return Batch(1, run.model.evaluating_replicas, True, built.first_size)


def _task(topology: Topology) -> str:
    line = f'{topology.task} of {", ".join(map(str, topology.tasks))} ({topology.source})'
    if topology.launched_as:
        line += f'; the launcher calls it {topology.launched_as}: there is no chief, so worker:0 is made the chief'
    return line


def overridden(bindings: Sequence[gin_config.Binding]) -> list[str]:
    """Returns a line for each binding that has won over another one."""
    lines = []
    for binding in bindings:
        for value, where in binding.overridden[:1]:
            lines.append(f'{binding.name} = {_short(binding.value)} ({binding.where}; {where} said {_short(value)})')
    return lines


def _short(value: str) -> str:
    value = ' '.join(value.split())
    return value if len(value) <= _LONGEST_VALUE else f'{value[: _LONGEST_VALUE - 4]} ...'


def _strategy(run: Run) -> str:
    strategy, topology = run.config.train_distribute, run.topology
    if topology.has_ps:
        text = f'parameter_server{_how(run)}'
    elif topology.is_collective:
        text = f'multi_worker_mirrored, {len(topology.training_tasks)} tasks'
    else:
        text = (
            f'{type(strategy).__name__}, {replicas_of(run.config, topology)} replicas'
            if strategy is not None
            else 'none'
        )
    asked = run.options.bindings.get('RunConfig.train_distribute')
    return f'{text} (auto: {strategies.reason(topology)})' if asked in (None, 'None', "'auto'") else text


def _how(run: Run) -> str:
    built = run.model.rehearsal.built.get(_ModeKeys.TRAIN)
    if built is None:  # on a worker
        return ''
    synchronous = sync_replicas.of(built.graph)
    if synchronous is None:
        return ', asynchronous'
    return f', synchronous: {synchronous.aggregated} gradients a step, {synchronous.tasks} tasks'


def _evaluation_rule(run: Run) -> str:
    if run.mode == 'train':
        return 'none (--mode=train)'
    throttle = run.lifecycle.settings.throttle_secs
    rule = f'at every checkpoint (each {_saving(run)})'
    if run.topology.has_evaluator:
        rule = f'by {EVALUATOR}, {rule}'
    elif run.topology.is_distributed:
        return 'at the end'
    return rule + (f', at most once per {throttle:g} s' if throttle else '') + ', and at the end'


def _saving(run: Run) -> str:
    steps, seconds = run.config.save_checkpoints_steps, run.config.save_checkpoints_secs
    return f'{steps:,} steps' if steps else f'{seconds:g} s' if seconds else 'never'


def make(run: Run, bindings: Sequence[gin_config.Binding], tf_config: Any) -> dict[str, Any]:
    """Returns the plan of a run that `preparation.prepare` has checked; see docs/operations.md for its fields.

    Args:
        run: what would run.
        bindings: the configuration.
        tf_config: TF_CONFIG as it was found.
    """
    built = run.model.rehearsal.built
    training = _training(run, built.get(_ModeKeys.TRAIN))
    variables = run.model.rehearsal.variables
    sizes = [(variable.trainable, variable.size) for variable in variables]
    return {
        'mode': run.mode,
        'model_dir': run.model_dir,
        'versions': run.summary.versions,
        'config': [_binding(binding) for binding in bindings],
        'warnings': run.summary.warnings,
        'task': str(run.topology.task),
        'tasks': [str(task) for task in run.topology.tasks] or [str(run.topology.task)],
        'tf_config': {'before': tf_config, 'after': run.topology.tf_config()},
        'strategy': _strategy(run),
        'input': {
            'train': input_files.describe(built.get(_ModeKeys.TRAIN)),
            'eval': input_files.describe(built.get(_ModeKeys.EVAL)),
        },
        'input_remarks': run.input_remarks,
        'feature_description': input_files.described(),
        'input_shard': dict(zip(('pipelines', 'index'), run.topology.input_shard, strict=True)),
        'batch': training.pop('batch'),
        **training,
        'checkpoints': _checkpoints(run, training),
        'evaluations': _evaluations(run, training, built.get(_ModeKeys.EVAL)),
        'exports': [_export(run, exporter) for exporter in run.experiment.exporters],
        'hooks': [type(hook).__name__ for hook in run.user_hooks] if built else [],
        'writes': _writes(run),
        'variables': [
            {
                'name': variable.name,
                'shape': list(variable.shape),
                'dtype': variable.dtype,
                'trainable': variable.trainable,
                'parts': variable.parts,
            }
            for variable in variables
        ],
        'parameters': {
            'trainable': _sum(size for trainable, size in sizes if trainable),
            'total': _sum(size for _, size in sizes),
        },
        'restored_from': _restored_from(run),
    }


def _binding(binding: gin_config.Binding) -> dict[str, Any]:
    return {
        'binding': binding.name,
        'value': binding.value,
        'where': binding.where,
        'overridden': [{'value': value, 'where': where} for value, where in binding.overridden],
    }


def _sum(sizes: Any) -> int | None:
    sizes = list(sizes)
    return None if None in sizes else sum(sizes)


def _training(run: Run, built: Built | None) -> dict[str, Any]:
    """Returns the batch arithmetic, the first and the last step, why there is no further one, and the examples."""
    checkpoint = run.checkpoint()
    first = checkpoints.step_of(checkpoint) if checkpoint else 0
    max_steps, replicas = run.experiment.max_steps, replicas_of(run.config, run.topology)
    plan: dict[str, Any] = {'batch': None, 'first_step': first, 'final_step': max_steps, 'stopped_because': 'max_steps'}
    if run.nothing_to_train():
        return plan | {'final_step': first, 'stopped_because': 'nothing_to_do', 'examples': 0}
    if max_steps is None:
        plan |= {'final_step': None, 'stopped_because': 'end_of_input'}
    plan['examples'] = None
    if built is None:
        return plan
    wanted, skipped = (max_steps - first) * replicas if max_steps else None, run.input.position.skipped
    sizes, ended = built.batches(_READ_SECONDS, wanted + skipped if wanted else None)
    sizes = sizes[skipped:]
    steps = len(sizes) // replicas  # A step that has not a batch for each replica is not made.
    if sizes and built.sized:
        plan['batch'] = run.batch(replicas, sizes[0]).as_dict()
    if run.topology.is_distributed:
        return plan  # What the other tasks read and train is not known here.
    if ended:
        plan |= {'final_step': first + steps, 'stopped_because': 'end_of_input'}
    if built.sized and (ended or len(sizes) == wanted):
        plan['examples'] = sum(sizes[: steps * replicas])
    return plan


def _checkpoints(run: Run, training: dict[str, Any]) -> dict[str, Any]:
    """Returns when checkpoints are saved; `steps` are those that are certain, the last one among them."""
    every, first, last = run.config.save_checkpoints_steps, training['first_step'], training['final_step']
    steps = None
    if last is not None:
        steps = list(range(first, last + 1, every)) if every else [first]
        steps = sorted({*steps, last})
    return {'rule': _saving(run), 'steps': steps, 'kept': run.config.keep_checkpoint_max}


def _evaluations(run: Run, training: dict[str, Any], built: Built | None) -> dict[str, Any]:
    """Returns when evaluations happen; `steps` are those that are certain, the last one among them."""
    plan: dict[str, Any] = {'rule': _evaluation_rule(run), 'steps': [], 'batch': None, 'examples': None}
    if run.mode == 'train':
        return plan
    first, last = training['first_step'], training['final_step']
    throttled = run.lifecycle.settings.throttle_secs or not run.config.save_checkpoints_steps
    if last is None:
        plan['steps'] = None
    elif throttled or first == last or run.topology.is_distributed:
        plan['steps'] = [last]
    else:
        plan['steps'] = _checkpoints(run, training)['steps'][1:]  # The first one holds no training of this run.
    if built is not None and built.sized:
        steps = run.experiment.eval_steps
        at_most = steps and steps * run.model.evaluating_replicas
        sizes, ended = built.batches(_READ_SECONDS, at_most)
        plan['examples'] = sum(sizes) if ended or len(sizes) == at_most else None
        if batch := _eval_batch(run):
            plan['batch'] = batch.as_dict()
    return plan


def _export(run: Run, exporter: tf.estimator.Exporter) -> dict[str, Any]:
    final = exporter in run.exports.final_exporters
    when = 'at the end' if final else 'when better' if isinstance(exporter, BestExporter) else 'after each evaluation'
    return {
        'name': exporter.name,
        'exporter': type(exporter).__name__,
        'when': when,
        'path': os.path.join(run.exports.path_of(exporter), '<time>'),
    }


def _writes(run: Run) -> list[str]:
    """Returns patterns of all files that the run will write."""
    if run.mode == 'train_and_evaluate' and run.nothing_to_train():
        names = ['run/summary.json', 'eval/events.out.tfevents.*']
    else:
        names = ['config.gin', 'operative_config.gin', 'run/summary.json', 'graph.pbtxt', 'events.out.tfevents.*']
        names += ['checkpoint', 'model.ckpt-*'] if _saving(run) != 'never' else []
        names += ['eval/events.out.tfevents.*'] if run.mode == 'train_and_evaluate' else []
        names += ['run/chief-0.json'] if run.topology.is_local else []
    names += ['run/<task>.json', 'run/<task>.job.json'] if not run.topology.is_local else []
    exporters = run.exports.final_exporters if run.mode == 'train' else run.experiment.exporters
    paths = [os.path.join(run.model_dir, name) for name in names]
    paths += [os.path.join(run.exports.path_of(exporter), '*') for exporter in exporters]
    return paths + [
        f'{run.exports.path_of(exporter)}.json' for exporter in exporters if isinstance(exporter, BestExporter)
    ]


def _restored_from(run: Run) -> dict[str, Any] | None:
    """Returns what the newest checkpoint holds and whether it fits the model."""
    checkpoint = run.checkpoint()
    if checkpoint is None:
        return None
    comparison = checkpoints.compare(checkpoint, run.model.rehearsal.variables)
    plan = {'path': checkpoint, 'step': checkpoints.step_of(checkpoint), 'fits': None}
    if comparison is None:
        return plan
    return plan | {
        'fits': comparison.fits,
        'missing': list(comparison.missing),
        'unexpected': list(comparison.unexpected),
        'differing': list(comparison.differing),
    }


def text(plan: dict[str, Any]) -> list[str]:
    """Returns the lines that tell a plan to a person."""
    version, tensorflow = plan['versions']['estimator_trainer'], plan['versions']['tensorflow']
    lines = [f'estimator_trainer {version}, TensorFlow {tensorflow}: plan of {plan["mode"]}', 'config']
    for binding in plan['config']:
        lines.append(f'  {binding["binding"]} = {_short(binding["value"])}  ({binding["where"]})')
        lines += [f'      instead of {_short(old["value"])}  ({old["where"]})' for old in binding['overridden']]
    lines.append(f'task         {plan["task"]} of {", ".join(plan["tasks"])}')
    lines += [f'  TF_CONFIG {when}: {config}' for when, config in plan['tf_config'].items() if config is not None]
    lines.append(f'strategy     {plan["strategy"]}')
    lines += input_files.lines(plan)
    if batch := plan['batch']:
        lines.append(f'batch        {Batch.of(batch)}')
    last = plan['final_step'] if plan['final_step'] is not None else '?'
    examples = f', {plan["examples"]:,} examples' if plan['examples'] is not None else ''
    lines.append(f'steps        {plan["first_step"]} -> {last} ({plan["stopped_because"]}){examples}')
    for name in ('checkpoints', 'evaluations'):
        steps = plan[name]['steps']
        lines.append(f'{name:<12} {plan[name]["rule"]}{f"; steps {_shortened(steps)}" if steps else ""}')
    if plan['evaluations']['examples'] is not None:
        lines[-1] += f'; {plan["evaluations"]["examples"]:,} examples each'
    if batch := plan['evaluations']['batch']:
        lines.append(f'eval batch   {Batch.of(batch)}')
    lines += [f'export       {export["exporter"]} {export["when"]}: {export["path"]}' for export in plan['exports']]
    lines += [f'hook         {hook}' for hook in plan['hooks']]
    lines += [f'writes       {path}' for path in plan['writes']]
    if restored := plan['restored_from']:
        fits = {True: 'fits', False: 'does not fit', None: 'cannot be compared'}[restored['fits']]
        lines.append(f'checkpoint   {restored["path"]} of step {restored["step"]}: {fits}')
        for kind in ('missing', 'unexpected', 'differing'):
            lines += [f'  {kind}: {name}' for name in restored.get(kind, ())]
    parameters = plan['parameters']
    lines.append(f'parameters   {parameters["trainable"]} trainable, {parameters["total"]} in all variables')
    for variable in plan['variables']:
        trainable = '' if variable['trainable'] else ' not trainable'
        parts = f' in {variable["parts"]} parts' if variable['parts'] > 1 else ''
        lines.append(f'  {variable["name"]} {variable["dtype"]}{variable["shape"]}{trainable}{parts}')
    return lines


def _shortened(steps: Sequence[int]) -> str:
    shown = [*steps[:3], '...', steps[-1]] if len(steps) > 5 else steps
    return ', '.join(map(str, shown))
