"""The plan of a run agrees, field by field, with what then happens; and it writes nothing."""

import fnmatch
import json
import pathlib
import subprocess
import sys

import pytest

from tests import program
from tests.conftest import MY_GIN, MY_MODEL

pytestmark = pytest.mark.once('oldest')

USER = ['--import_module=user_module']
FINITE = [*USER, '--gin_param=experiment.train_input_fn = @finite_input_fn']
EXPORTERS = '--gin_param=experiment.exporters = [@BestExporter(), @FinalExporter()]'

CASES = {
    'penguins': ['--gin_file=penguins.gin', '--max_steps=60', '--gin_param=RunConfig.save_checkpoints_steps = 25'],
    'penguins mirrored': ['--gin_file=penguins.gin', '--strategy=mirrored', '--max_steps=40'],
    'penguins evaluated on replicas': [
        *('--gin_file=penguins.gin', '--max_steps=10', "--gin_param=RunConfig.eval_distribute = 'mirrored'"),
        '--gin_param=experiment.eval_steps = 2',
    ],
    'penguins further': ['--gin_file=penguins.gin', '--max_steps=90', '--model_dir=penguins'],
    'penguins, nothing to do': ['--gin_file=penguins.gin', '--max_steps=60', '--model_dir=penguins, no more'],
    'input ends': ['--gin_file=my.gin', *FINITE, '--gin_param=finite_input_fn.examples = 20'],
    'input ends without max_steps': [
        *('--gin_file=my.gin', *FINITE, '--gin_param=finite_input_fn.examples = 30'),
        '--gin_param=experiment.max_steps = None',
    ],
    'static batches': ['--gin_file=my.gin', *USER, '--gin_param=experiment.train_input_fn = @static_input_fn'],
    'static batches for evaluation': [
        *('--gin_file=my.gin', *USER, '--gin_param=experiment.eval_input_fn = @static_input_fn', '--max_steps=4'),
        '--gin_param=experiment.eval_steps = 50',
    ],
    'mirrored input ends': [
        *('--gin_file=my.gin', *FINITE, '--gin_param=finite_input_fn.examples = 50', '--strategy=mirrored'),
        '--gin_param=experiment.max_steps = None',
    ],
    'without batch dimension': [
        *('--gin_file=my.gin', *USER, '--gin_param=experiment.model_fn = @scalar_model_fn'),
        '--gin_param=experiment.train_input_fn = @scalar_input_fn',
        '--gin_param=experiment.eval_input_fn = @scalar_input_fn',
    ],
    'eval_steps': [
        *('--gin_file=my.gin', '--max_steps=10', '--gin_param=experiment.eval_steps = 2'),
        '--gin_param=RunConfig.save_checkpoints_steps = 4',
    ],
    'throttled': [
        *('--gin_file=my.gin', '--max_steps=10', '--gin_param=trainer.throttle_secs = 600'),
        '--gin_param=RunConfig.save_checkpoints_steps = 4',
    ],
    'train': ['--gin_file=my.gin', '--max_steps=10', '--gin_param=experiment.eval_input_fn = None', '--mode=train'],
    'keras': [
        *('--gin_file=my.gin', '--max_steps=10', *USER, '--gin_param=experiment.model_fn = None'),
        '--gin_param=experiment.keras_model = @my_keras_model',
        EXPORTERS,
    ],
    'canned': [
        *('--gin_file=my.gin', '--max_steps=10', '--gin_param=experiment.model_fn = None'),
        *('--gin_param=experiment.estimator = @LinearClassifier', EXPORTERS),
        '--gin_param=LinearClassifier.feature_columns = [@numeric_column()]',
        *("--gin_param=numeric_column.key = 'x'", '--gin_param=numeric_column.shape = [2]'),
    ],
}  # fmt: skip


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
    """(directory, name -> plan, name -> summary)."""
    directory = tmp_path_factory.mktemp('plans')
    (directory / 'my_model.py').write_text(MY_MODEL)
    (directory / 'my.gin').write_text(MY_GIN)
    (directory / 'user_module.py').write_text((program.TESTS / 'user_module.py').read_text())
    plans, summaries = {}, {}
    later = [name for name in CASES if name.startswith('penguins ') or ',' in name]
    for names in ([name for name in CASES if name not in later], later):
        cases = {name: [f'--model_dir={name}', *CASES[name]] for name in names}
        planned = program.run_forked(
            {
                name: [*(flag for flag in case if not flag.startswith('--mode=')), '--mode=plan', '--plan_format=json']
                for name, case in cases.items()
            },
            directory,
        )
        for name, result in planned.items():
            plans[name] = json.loads(result.check().out)
            if name not in later:
                assert not (directory / name).exists()
        for name, result in program.run_forked(cases, directory).items():
            summaries[name] = program.summary(directory / plans[name]['model_dir'])
            assert result.check().code == 0
        if 'penguins' in names:
            subprocess.run(['cp', '-r', 'penguins', 'penguins, no more'], cwd=directory, check=True)
    return directory, plans, summaries


@pytest.mark.parametrize('name', CASES)
def test_the_plan_agrees_with_the_run(runs, name):
    _, plans, summaries = runs
    plan, summary = plans[name], summaries[name]
    for field in ('mode', 'versions', 'first_step', 'stopped_because', 'examples', 'warnings'):
        if field != 'warnings' or summary['stopped_because'] == 'max_steps':
            assert plan[field] == summary[field], field
    assert plan['final_step'] == summary['final_step']
    assert [evaluation['step'] for evaluation in summary['evaluations']] == plan['evaluations']['steps']
    for evaluation in summary['evaluations']:
        assert evaluation['examples'] == plan['evaluations']['examples']
    restored_from = plan['restored_from']
    assert (restored_from and restored_from['path']) == summary['restored_from'] or plan['examples'] == 0
    if restored_from:
        assert restored_from['fits'] is True
        assert restored_from['step'] == summary['first_step']
    names = {export['name'] for export in summary['exports']}
    assert names == {export['name'] for export in plan['exports']}


@pytest.mark.parametrize('name', CASES)
def test_only_the_files_of_the_plan_are_written(runs, name):
    directory, plans, _ = runs
    model_dir = plans[name]['model_dir']
    files = [path.relative_to(directory) for path in (directory / model_dir).rglob('*') if path.is_file()]
    # An earlier run in the same directory has written more.
    patterns = [pattern for plan in plans.values() if plan['model_dir'] == model_dir for pattern in plan['writes']]
    if name == 'penguins, nothing to do':
        patterns += [pattern.replace('penguins', model_dir, 1) for pattern in plans['penguins']['writes']]
    unplanned = [str(path) for path in files if not any(fnmatch.fnmatch(str(path), pattern) for pattern in patterns)]
    assert unplanned == []
    for pattern in plans[name]['writes']:
        assert any(fnmatch.fnmatch(str(path), pattern) for path in files), pattern


READ = """
import json, sys, tensorflow as tf
reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(sys.argv[1]))
dtypes = reader.get_variable_to_dtype_map()
shapes = reader.get_variable_to_shape_map()
print(json.dumps({name: [shapes[name], dtypes[name].name] for name in shapes}))
"""


@pytest.mark.parametrize('name', ['penguins', 'penguins mirrored', 'keras', 'canned', 'train'])
def test_variables_and_checkpoints(runs, name):
    directory, plans, _ = runs
    plan = plans[name]
    process = subprocess.run(
        [sys.executable, '-c', READ, name], cwd=directory, capture_output=True, text=True, check=True
    )
    found = json.loads(process.stdout.splitlines()[-1])
    assert {item['name']: [item['shape'], item['dtype']] for item in plan['variables']} == found
    total = 0
    for shape, _ in found.values():
        size = 1
        for dimension in shape:
            size *= dimension
        total += size
    assert plan['parameters']['total'] == total
    if name != 'penguins':  # a later run has added to it
        saved = [path.stem.rpartition('-')[2] for path in (directory / name).glob('model.ckpt-*.index')]
        assert sorted(map(int, saved)) == plan['checkpoints']['steps']


def test_inputs_and_batches(runs):
    _, plans, _ = runs
    plan = plans['penguins']
    (train,), (evaluation,) = plan['input']['train']['files'], plan['input']['eval']['files']
    for file, want_name in ((train, 'train.csv'), (evaluation, 'eval.csv')):
        assert pathlib.Path(file['path']).name == want_name
        assert file['bytes'] == pathlib.Path(file['path']).stat().st_size
    assert plan['input']['train']['batches'] == 'infinite'
    assert plan['input']['train']['features']['bill_length_mm'] == 'float32 (None,)'
    one = {'tasks': 1, 'synchronous': True, 'replicas': 1, 'replica_batch': 32, 'global_batch': 32}
    assert plan['batch'] == plan['evaluations']['batch'] == one
    mirrored = plans['penguins mirrored']
    assert mirrored['batch'] == {**one, 'replicas': 2, 'replica_batch': 16}
    assert mirrored['evaluations']['batch'] == one
    evaluated = plans['penguins evaluated on replicas']['evaluations']
    assert evaluated['batch'] == {**one, 'replicas': 2, 'replica_batch': 16}
    assert evaluated['examples'] == 64
    assert plans['input ends']['input']['train']['batches'] in (3, None)


def test_origins(runs):
    _, plans, _ = runs
    config = {item['binding']: item for item in plans['penguins']['config']}
    max_steps = config['experiment.max_steps']
    assert (max_steps['value'], max_steps['where']) == ('60', '--max_steps')
    (overridden,) = max_steps['overridden']
    assert overridden['value'] == '%max_steps'
    assert overridden['where'].startswith('configs/penguins.gin:')
    assert config['RunConfig.save_checkpoints_steps']['where'] == '--gin_param #1'


CLUSTER = {'cluster': {'chief': ['a:1'], 'worker': ['b:1'], 'ps': ['c:1'], 'evaluator': ['d:1']}}


@pytest.mark.parametrize(('task', 'want_evaluations'), [('chief', True), ('worker', False), ('ps', False)])
def test_a_task_of_a_cluster_is_planned_without_its_peers(user_project, task, want_evaluations):
    given = {**CLUSTER, 'task': {'type': task, 'index': 0}}
    arguments = ['--gin_file=my.gin', '--model_dir=M', '--mode=plan', '--plan_format=json']
    result = program.run(*arguments, cwd=user_project, TF_CONFIG=json.dumps(given)).check()
    plan = json.loads(result.out)
    assert plan['task'] == f'{task}:0'
    assert plan['tasks'] == ['chief:0', 'worker:0', 'ps:0', 'evaluator:0']
    assert plan['tf_config']['before'] == given
    assert plan['tf_config']['after']['task'] == {'type': task, 'index': 0}
    assert 'evaluator' not in plan['tf_config']['after']['cluster']
    assert plan['input_shard'] == {'pipelines': 2, 'index': int(task == 'worker')}
    assert (plan['parameters']['total'] > 0) == (task != 'ps')
    assert bool(plan['input']['eval']) == want_evaluations
    if task != 'ps':
        assert (plan['batch']['tasks'], plan['batch']['synchronous'], plan['batch']['global_batch']) == (2, False, 8)
    assert not (user_project / 'M').exists()


def test_the_plan_for_a_person(user_project):
    arguments = ['--gin_file=my.gin', '--model_dir=M', '--mode=plan', '--max_steps=10']
    result = program.run(*arguments, cwd=user_project).check()
    assert result.err == ''
    for want_line in (
        r'  experiment.max_steps = 10  (--max_steps)',
        r'      instead of 200  (my.gin:6)',
        r'batch        8 examples a step',
        r'eval batch   8 examples a step',
        r'steps        0 -> 10 (max_steps), 80 examples',
        r'writes       M/model.ckpt-*',
        r'  dense/kernel float32[2, 8]',
    ):
        assert want_line in result.out.splitlines()


def test_a_checkpoint_that_does_not_fit_is_told(user_project):
    program.run('--gin_file=my.gin', '--model_dir=M', '--max_steps=5', cwd=user_project).check()
    arguments = ['--gin_file=penguins.gin', '--model_dir=M', '--mode=plan', '--plan_format=json']
    restored_from = json.loads(program.run(*arguments, cwd=user_project).check().out)['restored_from']
    assert restored_from['fits'] is False
    assert 'hidden_0/kernel' in restored_from['missing']
    assert 'dense/kernel' in restored_from['unexpected']
