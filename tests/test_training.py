"""Whole runs of one process: outcomes and their summaries, strategies, seeds, broken checkpoints."""

import shutil
import subprocess
import sys

import pytest

from tests import program
from tests.conftest import MY_GIN, MY_MODEL

pytestmark = pytest.mark.once('newest')

USER_MODULE = (program.TESTS / 'user_module.py').read_text()

V1_MODULE = 'import tensorflow as tf\ntf.compat.v1.disable_v2_behavior()\n'

FINITE = ['--import_module=user_module', '--gin_param=experiment.train_input_fn = @finite_input_fn']

LATE = [
    '--import_module=user_module', '--gin_param=experiment.model_fn = @late_model_fn',
    "--gin_param=late_model_fn.fails = 'eval'",
]  # fmt: skip

RUNS = {
    'none': ['--strategy=none'],
    'one_device': ['--strategy=one_device'],
    'central_storage': ['--strategy=central_storage'],
    'mirrored': ['--strategy=mirrored'],
    'mirrored 4': ['--strategy=mirrored', '--gin_param=mirrored.cpu_replicas = 4'],
    'mirrored in gin': ["--gin_param=RunConfig.train_distribute = 'mirrored'"],
    'mirrored by a macro': ["--gin_param=how = 'mirrored'", '--gin_param=RunConfig.train_distribute = %how'],
    'mirrored object': [
        '--gin_param=RunConfig.train_distribute = @MirroredStrategy()',
        "--gin_param=MirroredStrategy.devices = ['cpu:0', 'cpu:1']",
        '--gin_param=MirroredStrategy.cross_device_ops = @ReductionToOneDevice()',
    ],
    'mirrored evaluation': ['--strategy=mirrored', "--gin_param=RunConfig.eval_distribute = 'one_device'"],
    'v1': ['--import_module=v1_module'],
    'v1 mirrored': ['--import_module=v1_module', '--strategy=mirrored'],
    'v1 central_storage': ['--import_module=v1_module', '--strategy=central_storage'],
    'train': ['--mode=train'],
    'input ends': [*FINITE, '--gin_param=finite_input_fn.examples = 20'],
    'input ends without max_steps': [
        *FINITE, '--gin_param=finite_input_fn.examples = 20', '--gin_param=experiment.max_steps = None'
    ],
    'no input': [*FINITE, '--gin_param=finite_input_fn.examples = 0'],
    'no evaluation input': [
        '--import_module=user_module', '--gin_param=experiment.eval_input_fn = @finite_input_fn',
        '--gin_param=finite_input_fn.examples = 0', '--max_steps=5',
    ],
    'stopped by a hook': [
        '--import_module=user_module', '--gin_param=experiment.hooks = [@StopAt()]', '--gin_param=StopAt.runs = 7'
    ],
    'stopped by a function of the estimator': [
        '--import_module=user_module', '--gin_param=experiment.hooks = [@stop_early]',
        '--gin_param=RunConfig.save_checkpoints_steps = 20',
    ],
    'any arguments': ['--import_module=user_module', '--gin_param=experiment.model_fn = @any_model_fn'],
    'unknown rank': [
        '--import_module=user_module', '--gin_param=experiment.train_input_fn = @unknown_rank_input_fn'
    ],
    'still': ['--import_module=user_module', '--gin_param=experiment.model_fn = @still_model_fn'],
    'exiting': ['--import_module=user_module', '--gin_param=experiment.model_fn = @exiting_model_fn'],
    'late mistake': [*LATE, '--gin_param=late_model_fn.raises = @mistake()'],
    'late failure': [*LATE, '--gin_param=late_model_fn.raises = @failure()'],
    'late exit': [*LATE, '--gin_param=late_model_fn.raises = @exit_0()'],
    'broken': ['--import_module=user_module', '--gin_param=experiment.model_fn = @broken_model_fn'],
    'metrics that are no numbers': [
        '--import_module=user_module', '--gin_param=experiment.model_fn = @image_model_fn', '--max_steps=5'
    ],
    'scalars': [
        '--import_module=user_module', '--gin_param=experiment.model_fn = @scalar_model_fn', '--max_steps=5',
        '--gin_param=experiment.train_input_fn = @scalar_input_fn',
        '--gin_param=experiment.eval_input_fn = @scalar_input_fn',
    ],
    'evaluations': ['--gin_param=RunConfig.save_checkpoints_steps = 80', '--gin_param=experiment.eval_steps = 2'],
    'throttled evaluations': [
        '--gin_param=RunConfig.save_checkpoints_steps = 80', '--gin_param=trainer.throttle_secs = 600'
    ],
    'seed': ['--seed=7', '--max_steps=30'],
    'seed again': ['--seed=7', '--max_steps=30'],
    'other seed': ['--seed=8', '--max_steps=30'],
    'scope': [
        '--gin_param=experiment.train_input_fn = @wide/my_input_fn', '--gin_param=wide/my_input_fn.batch_size = 20'
    ],
}  # fmt: skip

# Runs in a model_dir that an earlier one has left.
LATER_RUNS = {
    'again': ('none', []),
    'further': ('train', ['--max_steps=210']),
    'evaluate': ('seed', ['--mode=evaluate']),
}

# name -> (stopped_because, first_step, final_step, examples, steps of the evaluations)
OUTCOMES = {
    'none': ('max_steps', 0, 200, 1600, [200]),
    'one_device': ('max_steps', 0, 200, 1600, [200]),
    'central_storage': ('max_steps', 0, 200, 1600, [200]),
    'mirrored': ('max_steps', 0, 200, 3200, [200]),
    'mirrored 4': ('max_steps', 0, 200, 6400, [200]),
    'mirrored in gin': ('max_steps', 0, 200, 3200, [200]),
    'mirrored by a macro': ('max_steps', 0, 200, 3200, [200]),
    'mirrored object': ('max_steps', 0, 200, 3200, [200]),
    'mirrored evaluation': ('max_steps', 0, 200, 3200, [200]),
    'v1': ('max_steps', 0, 200, 1600, [200]),
    'v1 mirrored': ('max_steps', 0, 200, 3200, [200]),
    'v1 central_storage': ('max_steps', 0, 200, 1600, [200]),
    'train': ('max_steps', 0, 200, 1600, []),
    'input ends': ('end_of_input', 0, 3, 20, [3]),
    'input ends without max_steps': ('end_of_input', 0, 3, 20, [3]),
    'stopped by a hook': ('early_stopping', 0, 7, 56, [7]),
    'metrics that are no numbers': ('max_steps', 0, 5, 40, [5]),
    'stopped by a function of the estimator': ('early_stopping', 0, 20, 160, [20]),
    'any arguments': ('max_steps', 0, 200, 1600, [200]),
    'unknown rank': ('end_of_input', 0, 3, 12, [3]),
    'scalars': ('max_steps', 0, 5, None, [5]),
    'evaluations': ('max_steps', 0, 200, 1600, [80, 160, 200]),
    'throttled evaluations': ('max_steps', 0, 200, 1600, [200]),
    'scope': ('max_steps', 0, 200, 4000, [200]),
    'again': ('nothing_to_do', 200, 200, 0, [200]),
    'further': ('max_steps', 200, 210, 80, [210]),
    'evaluate': (None, None, None, 0, [30]),
}


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
    """(directory of the runs, name -> Result, name -> summary)."""
    directory = tmp_path_factory.mktemp('runs')
    files = {'my_model.py': MY_MODEL, 'my.gin': MY_GIN, 'user_module.py': USER_MODULE, 'v1_module.py': V1_MODULE}
    for name, text in files.items():
        (directory / name).write_text(text)
    first = {name: ['--gin_file=my.gin', f'--model_dir={name}', *arguments] for name, arguments in RUNS.items()}
    later = {name: ['--gin_file=my.gin', f'--model_dir={path}', *more] for name, (path, more) in LATER_RUNS.items()}
    results = program.run_forked(first, directory)
    summaries = {name: program.summary(directory / name) for name in first if (directory / name).exists()}
    results |= program.run_forked(later, directory)
    summaries |= {name: program.summary(directory / path) for name, (path, _) in LATER_RUNS.items()}
    return directory, results, summaries


@pytest.mark.parametrize('name', OUTCOMES)
def test_outcome(runs, name):
    _, results, summaries = runs
    results[name].check()
    summary = summaries[name]
    assert summary['status'] == 'done'
    assert summary['error'] is None
    found = tuple(summary[key] for key in ('stopped_because', 'first_step', 'final_step', 'examples'))
    assert (*found, [evaluation['step'] for evaluation in summary['evaluations']]) == OUTCOMES[name]


def test_summary_is_whole(runs):
    directory, _, summaries = runs
    summary = summaries['none']
    evaluation = summary['evaluations'][0]
    assert evaluation['name'] == 'eval'
    assert evaluation['examples'] == 60
    assert evaluation['metrics']['accuracy'] > 0.9
    assert set(evaluation['metrics']) == {'accuracy', 'loss', 'loss/batch_mean'}
    assert summary['restored_from'] is None
    assert summary['checkpoint'] == 'none/model.ckpt-200'
    assert (directory / 'none' / 'model.ckpt-200.index').exists()
    assert summary['exports'] == summary['warnings'] == []
    assert summary['seconds'] > 0
    assert summary['steps_per_second'] == pytest.approx(200 / summary['seconds'])
    assert {'python', 'tensorflow', 'estimator_trainer', 'tensorflow-estimator'} <= set(summary['versions'])
    assert summaries['further']['restored_from'] == 'train/model.ckpt-200'
    names = {path.name for path in (directory / 'none' / 'run').iterdir()}
    assert names == {'chief-0.json', 'summary.json'}


def test_every_example_is_evaluated_once(runs):
    # 60 examples in batches of 8: the last batch is odd. eval_steps = 2 takes two batches.
    _, _, summaries = runs
    assert {name: summaries[name]['evaluations'][-1]['examples'] for name in ('mirrored', 'v1', 'evaluations')} == {
        'mirrored': 60,
        'v1': 60,
        'evaluations': 16,
    }


def test_metrics_are_numbers(runs):
    _, _, summaries = runs
    assert set(summaries['metrics that are no numbers']['evaluations'][0]['metrics']) == {
        'accuracy',
        'loss',
        'loss/batch_mean',
    }


@pytest.mark.parametrize(
    ('name', 'want_text'),
    [
        ('input ends', 'the input ended at step 3, before max_steps=200'),
        ('again', 'none is at step 200, max_steps is 200: nothing to train'),
    ],
)
def test_warnings_are_said_and_kept(runs, name, want_text):
    _, results, summaries = runs
    assert f'WARNING: {want_text}' in results[name].err
    assert summaries[name]['warnings'] == [want_text]


@pytest.mark.parametrize(
    ('name', 'want_error'),
    [
        ('still', 'global_step has not moved in 100 runs of the train_op'),
        ('late mistake', 'a mistake that shows late'),
    ],
)
def test_a_failure_after_the_start_is_told_in_one_line(runs, name, want_error):
    _, results, summaries = runs
    assert f'estimator_trainer: error: {want_error}' in results[name].check(1).err
    assert 'Traceback' not in results[name].err
    assert summaries[name]['status'] == 'failed'
    assert summaries[name]['stopped_because'] == 'error'
    assert want_error in summaries[name]['error']


@pytest.mark.parametrize('name', ['train_input_fn', 'eval_input_fn'])
def test_an_input_without_batches_is_a_mistake(runs, name):
    directory, results, _ = runs
    case = {'train_input_fn': 'no input', 'eval_input_fn': 'no evaluation input'}[name]
    assert f'experiment.{name} produced no batches' in results[case].check(2).err
    assert not (directory / case).exists()


def test_sys_exit_of_the_user_is_no_success(runs):
    directory, results, summaries = runs
    for name in ('exiting', 'late exit'):
        assert 'user code called sys.exit(0)' in results[name].check(1).err
    assert not (directory / 'exiting').exists()
    assert summaries['late exit']['status'] == 'failed'


def test_an_exception_of_the_user_keeps_its_traceback(runs):
    directory, results, summaries = runs
    for name in ('broken', 'late failure'):
        assert 'user_module.py", line' in results[name].check(1).err
        assert "KeyError: 'no such column'" in results[name].err
    assert not (directory / 'broken').exists()
    assert summaries['late failure']['status'] == 'failed'
    assert summaries['late failure']['error'] == "KeyError: 'no such column'"


def _variables(directory, name):
    # The reader is a fresh process, for this one must not run TensorFlow ops before other tests do.
    code = (
        'import sys, tensorflow as tf\n'
        'r = tf.train.load_checkpoint(tf.train.latest_checkpoint(sys.argv[1]))\n'
        'print({n: r.get_tensor(n).tobytes().hex() for n in r.get_variable_to_shape_map()})'
    )
    return subprocess.run([sys.executable, '-c', code, name], cwd=directory, capture_output=True, text=True).stdout


def test_a_seed_repeats_a_run_bit_for_bit(runs):
    directory, results, _ = runs
    for name in ('seed', 'seed again', 'other seed'):
        results[name].check()
    assert 'dense/kernel' in _variables(directory, 'seed')
    assert _variables(directory, 'seed') == _variables(directory, 'seed again')
    assert _variables(directory, 'seed') != _variables(directory, 'other seed')


CHECKPOINTS_THAT_CANNOT_BE_RESTORED = {
    'names nothing': (lambda path: (path / 'checkpoint').write_text('garbage'), 'names no checkpoint that is there'),
    'names what is gone': (lambda path: (path / 'model.ckpt-30.index').unlink(), 'names no checkpoint that is there'),
    'broken index': (lambda path: (path / 'model.ckpt-30.index').write_bytes(b'x' * 200), 'cannot read the checkpoint'),
    'of another model': (lambda path: None, 'model.ckpt-30 is not a checkpoint of this model'),
}


def test_a_checkpoint_that_cannot_be_restored_is_not_overwritten(runs):
    directory, _, _ = runs
    cases = {}
    for name, (spoil, _) in CHECKPOINTS_THAT_CANNOT_BE_RESTORED.items():
        shutil.copytree(directory / 'other seed', directory / name)
        spoil(directory / name)
        config = '--gin_file=penguins.gin' if name == 'of another model' else '--gin_file=my.gin'
        cases[name] = [config, f'--model_dir={name}']
    for name, result in program.run_forked(cases, directory).items():
        want_error = CHECKPOINTS_THAT_CANNOT_BE_RESTORED[name][1]
        want_code = 2 if name == 'of another model' else 1
        errors = [line for line in result.check(want_code).err.splitlines() if line.startswith('estimator_trainer: ')]
        assert 'Traceback' not in result.err
        assert len(errors) == 1, result.err
        assert want_error in errors[0]
        assert not list((directory / name).glob('model.ckpt-200*'))
