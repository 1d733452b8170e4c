"""Training that fails leaves a checkpoint of its last step: what it has learnt is not lost, and nothing comes twice."""

import shutil

import numpy as np
import pytest

from estimator_trainer import last_step
from estimator_trainer.compat import tf
from tests import plain, program
from tests.finite_module import GOING_GIN
from tests.program import bind

pytestmark = pytest.mark.once('newest')

v1 = tf.compat.v1

FILES = {
    'finite_module.py': (program.TESTS / 'finite_module.py').read_text(),
    'going.gin': GOING_GIN,
}
FOUR = bind('RunConfig.save_checkpoints_steps = 4')
HOOK = bind('experiment.hooks = [@FailingHook()]', 'FailingHook.at = 7')
INPUT = bind('experiment.train_input_fn = @train/going_input_fn')
MIRRORED = ['--strategy=mirrored']
EVALUATE = ['--mode=train_and_evaluate']
WITHOUT_FAILURE = {'undisturbed': [], 'undisturbed, mirrored': MIRRORED}

# name -> (arguments, what was raised, step of the last checkpoint, what is said of it, the same without a failure)
SAVED, IN_PART = (
    'saved {} of the last step',
    'WARNING: {} was saved in the middle of a step, which may be applied in part',
)
RUNS = {
    'after the step': ([*FOUR, *HOOK, *EVALUATE], "KeyError: 'no such hook'", 7, SAVED, 'undisturbed'),
    'before the step': (
        [*FOUR, *HOOK, *bind('FailingHook.before = True')], "KeyError: 'no such hook'", 6, SAVED, 'undisturbed',
    ),
    'first step': ([*FOUR, *HOOK, *bind('FailingHook.at = 1')], "KeyError: 'no such hook'", 1, SAVED, 'undisturbed'),
    'by the clock': (HOOK, "KeyError: 'no such hook'", 7, SAVED, 'undisturbed'),
    'at a checkpoint': (
        [*FOUR, *HOOK, *bind('FailingHook.at = 8')], "KeyError: 'no such hook'", 8, None, 'undisturbed',
    ),
    'hook, mirrored': ([*FOUR, *HOOK, *MIRRORED], "KeyError: 'no such hook'", 7, SAVED, 'undisturbed, mirrored'),
    'input': ([*FOUR, *INPUT, *bind('train/going_input_fn.fails_at = 7')], 'no such record', 6, SAVED, 'undisturbed'),
    'input, mirrored': (
        [*FOUR, *INPUT, *MIRRORED, *bind('train/going_input_fn.fails_at = 14')], 'no such record', 6, SAVED,
        'undisturbed, mirrored',
    ),
    'op': ([*FOUR, *bind('going_model_fn.assert_at = [7]')], 'a wrong number', 7, IN_PART, 'undisturbed'),
    'first op': ([*FOUR, *bind('going_model_fn.check_at = [7]')], 'a number to check', 6, SAVED, 'undisturbed'),
}  # fmt: skip
# What saves nothing: name -> (arguments, what is raised, the newest checkpoint, what is said)
OTHERS = {
    'no saving': (
        [*HOOK, *bind('RunConfig.save_checkpoints_secs = None')], "KeyError: 'no such hook'", None, '',
    ),
    'no step': ([*FOUR, *HOOK, *bind('FailingHook.at = 1', 'FailingHook.before = True')], 'no such hook', None, ''),
    'weights are not finite': (
        [*FOUR, *HOOK, *bind('going_model_fn.weights_at = [7]')], "KeyError: 'no such hook'", 4,
        'cannot save the last step: step 7: not finite: second/bias; the last finite checkpoint is {}',
    ),
    'no place': (
        [*FOUR, *HOOK, *bind("FailingHook.directory = 'no place/model.ckpt-7.index'")], "KeyError: 'no such hook'", 4,
        'cannot save the last step: FailedPreconditionError: no place/model.ckpt-7.index; Is a directory',
    ),
}  # fmt: skip
RESTARTS = ['after the step', 'input', 'input, mirrored']


def of(name):
    return ['--gin_file=going.gin', '--mode=train', f'--model_dir={name}']


def own_lines(result):
    """Returns the lines about saving and failing."""
    start = 'estimator_trainer: '
    lines = [line.removeprefix(start) for line in result.err.splitlines() if line.startswith(start)]
    return [line for line in lines if 'sav' in line]


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
    """(directory, name -> Result, checkpoint -> variables); those that do not fail save each step."""
    directory = tmp_path_factory.mktemp('runs')
    for name, text in FILES.items():
        (directory / name).write_text(text)
    each_step = bind('RunConfig.save_checkpoints_steps = 1')
    commands = {name: [*each_step, *arguments] for name, arguments in WITHOUT_FAILURE.items()}
    commands |= {name: arguments for name, (arguments, *_) in (RUNS | OTHERS).items()}
    results = program.run_forked({name: [*of(name), *arguments] for name, arguments in commands.items()}, directory)
    for name in RESTARTS:
        shutil.copytree(directory / name, directory / f'{name} again')
    (directory / 'mended').touch()
    again = {name: [*RUNS[name][0], *bind('experiment.hooks = []')] for name in RESTARTS}
    results |= program.run_forked(
        {f'{name} again': [*of(f'{name} again'), *arguments] for name, arguments in again.items()}, directory
    )
    paths = [f'{name}/model.ckpt-{step}' for name, (_, _, step, *_) in RUNS.items()]
    paths += [f'{name} again/model.ckpt-12' for name in RESTARTS]
    paths += [f'{name}/model.ckpt-{step}' for name in WITHOUT_FAILURE for step in (1, 6, 7, 8, 12)]
    return directory, results, plain.read({path: ('variables', path) for path in paths}, directory)


def assert_same(found, want):
    assert found.keys() == want.keys()
    for name, value in found.items():
        np.testing.assert_array_equal(value, want[name], err_msg=name, strict=True)


@pytest.mark.parametrize('name', RUNS)
def test_the_last_step_is_saved(runs, name):
    directory, results, variables = runs
    _, want_error, want_step, want_said, same = RUNS[name]
    checkpoint = f'{name}/model.ckpt-{want_step}'
    assert want_error in results[name].check(1).err
    assert own_lines(results[name]) == ([want_said.format(checkpoint)] if want_said else [])
    summary = program.summary(directory / name)
    assert want_error in summary['error']
    assert (summary['status'], summary['final_step'], summary['checkpoint']) == ('failed', want_step, checkpoint)
    # The results of a step whose op has failed are not known.
    assert summary['examples'] == (want_step - (name == 'op')) * replicas_of(name)
    assert summary['warnings'] == [IN_PART.format(checkpoint).removeprefix('WARNING: ')] * (want_said == IN_PART)
    assert_same(variables[checkpoint], variables[f'{same}/model.ckpt-{want_step}'])
    there = [path.stem for path in (directory / name).glob('*.index')]
    first, *others = (directory / name / 'checkpoint').read_text().splitlines()
    assert first == f'model_checkpoint_path: "model.ckpt-{want_step}"'
    assert sorted(others) == sorted(f'all_model_checkpoint_paths: "{path}"' for path in there)


def replicas_of(name):
    return 2 if 'mirrored' in name else 1


@pytest.mark.parametrize('name', OTHERS)
def test_what_there_is_nothing_to_save_of(runs, name):
    directory, results, _ = runs
    _, want_error, want_step, want_said = OTHERS[name]
    checkpoint = f'{name}/model.ckpt-{want_step}' if want_step else None
    assert want_error in results[name].check(1).err
    assert own_lines(results[name]) == ([want_said.format(checkpoint)] if want_said else [])
    assert program.summary(directory / name)['checkpoint'] == checkpoint


@pytest.mark.parametrize('name', RESTARTS)
def test_a_restart_ends_as_if_nothing_had_failed(runs, name):
    directory, results, variables = runs
    _, _, step, _, same = RUNS[name]
    batches = step * replicas_of(name)
    out = results[f'{name} again'].check().out
    assert f'  input      goes on after the {batches} batches that an interrupted run has trained on\n' in out
    assert program.summary(directory / f'{name} again')['first_step'] == step
    assert_same(variables[f'{name} again/model.ckpt-12'], variables[f'{same}/model.ckpt-12'])


def _graph():
    """Returns the op of each name."""
    x = v1.placeholder(tf.float32, [], 'x')
    w = v1.get_variable('w', initializer=1.0, use_resource=True)
    v = v1.get_variable('v', initializer=1.0, use_resource=False)
    y = tf.multiply(x, w, 'y')
    with tf.control_dependencies([y]):
        free = tf.constant(2.0, name='free')
    change_w = w.assign_add(y, name='change_w').op
    change_v = v.assign_add(free, name='change_v').op
    looped = tf.while_loop(lambda i: i < 3.0, lambda i: i + y, [0.0], name='loop')[0]
    return {'x': x.op, 'y': y.op, 'free': free.op, 'change_w': change_w, 'change_v': change_v, 'looped': looped.op}


@pytest.mark.parametrize(
    ('train_ops', 'failed', 'want'),
    [
        (['change_w'], 'x', True),
        (['change_w'], 'y', True),
        (['change_w'], 'change_w', True),
        (['change_w'], 'free', False),
        (['change_w', 'change_v'], 'y', True),
        (['change_w', 'change_v'], 'free', False),
        (['change_v'], 'free', True),
        (['looped'], 'y', True),
        (['y'], 'x', True),
    ],
)
def test_what_precedes_all_updates(train_ops, failed, want):
    with tf.Graph().as_default():
        ops = _graph()
        assert last_step.precedes_updates(ops[failed], [ops[name] for name in train_ops]) == want
