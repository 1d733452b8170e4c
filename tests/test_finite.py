"""A loss or weights that are not finite: training ends with one line, and a restart goes on from what is finite."""

import re
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest

from estimator_trainer import finite
from estimator_trainer.compat import tf
from estimator_trainer.testing import LocalCluster
from tests import plain, program
from tests.finite_module import GOING_GIN
from tests.program import bind

pytestmark = pytest.mark.once('newest')

v1 = tf.compat.v1

FILES = {
    'finite_module.py': (program.TESTS / 'finite_module.py').read_text(),
    'going.gin': GOING_GIN,
}
ALL = 'first/kernel, first/bias, second/kernel and 1 more'


def every(steps):
    return bind(f'RunConfig.save_checkpoints_steps = {steps}')


LOSS = bind('going_model_fn.loss_at = [7]')
WEIGHTS = bind('going_model_fn.weights_at = [7]')
EVALUATE = ['--mode=train_and_evaluate']

NAN = f'step 7: loss is nan (my_total); not finite: {ALL}'
INF = NAN.replace('nan', 'inf')
MIRRORED = ['--strategy=mirrored']

# name -> (arguments, the line less the checkpoint, step at the end, the newest checkpoint, examples)
RUNS = {
    'loss, each step': ([*LOSS, *every(1)], NAN, 7, 6, 7),
    'loss, every 4': ([*LOSS, *every(4), *EVALUATE], NAN, 7, 4, 7),
    'loss, by the clock': (LOSS, NAN, 7, 0, 7),
    'infinite loss': ([*LOSS, *every(4), *bind('going_model_fn.loss = @infinite()')], INF, 7, 4, 7),
    'harmless loss': ([*LOSS, *every(4), *bind('going_model_fn.learns = False')], NAN.partition(';')[0], 7, 4, 7),
    'first step': ([*every(4), *bind('going_model_fn.loss_at = [1]')], NAN.replace('7', '1'), 1, 0, 1),
    'weights, each step': ([*WEIGHTS, *every(1)], 'step 7: not finite: second/bias', 7, 6, 7),
    'weights, every 4': ([*WEIGHTS, *every(4)], INF.replace('7', '8'), 8, 4, 8),
    'weights, at the end': ([*WEIGHTS, *every(4), '--max_steps=7'], 'step 7: not finite: second/bias', 7, 4, 7),
    'hook of the user': ([*LOSS, *every(1), *bind('experiment.hooks = [@nan_hook]')], NAN, 7, 6, 7),
    'mirrored, loss': ([*MIRRORED, *every(4), *bind('going_model_fn.loss_at = [14]')], NAN, 7, 4, 14),
    'mirrored, weights': (
        [*MIRRORED, *every(1), *bind('going_model_fn.weights_at = [14]')], 'step 7: not finite: second/bias', 7, 6, 14,
    ),
}  # fmt: skip
RESTARTS = ['loss, every 4', 'weights, each step', 'mirrored, weights']
# name -> (arguments, steps of the checkpoints that there are, the newest finite one)
STARTS = {
    'local': ([], [3, 4, 5, 6, 7], 6),
    'no saving': (bind('RunConfig.save_checkpoints_secs = None', 'RunConfig.save_checkpoints_steps = None'), [6, 7], 6),
    'mirrored': (MIRRORED, [3, 4, 5, 6, 7], 6),
    'nothing finite': ([], [7], None),
}
_STOCK = """
import finite_module
from estimator_trainer.compat import tf

def model_fn(features, labels, mode):
    return finite_module.going_model_fn(features, labels, mode, loss_at=[7])

config = tf.estimator.RunConfig(save_checkpoints_steps=1, tf_random_seed=3)
tf.estimator.Estimator(model_fn, 'stock', config).train(finite_module.going_input_fn, max_steps=12)
"""


def of(name):
    return ['--gin_file=going.gin', '--mode=train', f'--model_dir={name}']


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
    """(directory, name -> Result, name -> variables of the newest checkpoint)."""
    directory = tmp_path_factory.mktemp('runs')
    for name, text in FILES.items():
        (directory / name).write_text(text)
    results = program.run_forked({name: [*of(name), *arguments] for name, (arguments, *_) in RUNS.items()}, directory)
    newest = {name: f'{name}/model.ckpt-{step}' for name, (_, _, _, step, _) in RUNS.items()}
    variables = plain.read({name: ('variables', path) for name, path in newest.items()}, directory)
    return directory, results, variables


@pytest.fixture(scope='module')
def stock(runs):
    """A model_dir whose newest checkpoint, of step 7, holds NaN: as Estimator alone leaves it."""
    process = subprocess.run(
        [sys.executable, '-c', _STOCK],
        cwd=runs[0],
        env=program.environment(TF_CPP_MIN_LOG_LEVEL='3'),
        capture_output=True,
        text=True,
    )
    assert 'NanLossDuringTrainingError' in process.stderr, process.stderr
    return runs[0] / 'stock'


def errors(result):
    assert 'Traceback' not in result.err, result.err
    return re.findall('^estimator_trainer: error: (.*)$', result.err, re.MULTILINE)


@pytest.mark.parametrize('name', RUNS)
def test_training_ends_with_its_last_finite_checkpoint(runs, name):
    directory, results, variables = runs
    _, want_line, want_step, want_checkpoint, want_examples = RUNS[name]
    checkpoint = f'{name}/model.ckpt-{want_checkpoint}'
    line = f'{want_line}; the last finite checkpoint is {checkpoint}'
    assert errors(results[name].check(1)) == [line]
    summary = program.summary(directory / name)
    assert (summary['status'], summary['stopped_because']) == ('failed', 'error')
    assert summary['error'] == f'NotFinite: {line}'
    assert (summary['final_step'], summary['examples']) == (want_step, want_examples)
    assert summary['checkpoint'] == checkpoint
    assert {int(path.stem.rpartition('-')[2]) for path in (directory / name).glob('*.index')} <= {
        *range(want_checkpoint + 1)
    }
    assert {key: value for key, value in variables[name].items() if not np.isfinite(value).all()} == {}


def test_a_restart_goes_on_from_the_last_finite_checkpoint(runs):
    directory, _, _ = runs
    cases = {}
    for name in RESTARTS:
        shutil.copytree(directory / name, directory / f'{name} again')
        cases[name] = [*of(f'{name} again'), *every(4), *(MIRRORED if 'mirrored' in name else [])]
    for name, result in program.run_forked(cases, directory).items():
        result.check()
        summary = program.summary(directory / f'{name} again')
        assert (summary['first_step'], summary['final_step']) == (RUNS[name][3], 12)


ADVICE = re.compile(
    r'to go on from .*-(\d+), the newest finite one, remove (.*)\.\* and replace the content of (.*) by (.*)$'
)


@pytest.fixture(scope='module')
def starts(runs, stock):
    """name -> (error, summary after the advice in it was followed)."""
    directory, _, _ = runs
    commands = {}
    for name, (arguments, there, _) in STARTS.items():
        shutil.copytree(stock, directory / name)
        for path in (directory / name).glob('model.ckpt-*'):
            if int(re.search(r'ckpt-(\d+)', path.name)[1]) not in there:
                path.unlink()
        commands[name] = [*of(name), *every(4), *arguments]
    before = {name: sorted((directory / name).glob('*ckpt*')) for name in STARTS}
    found = {name: errors(result.check(1)) for name, result in program.run_forked(commands, directory).items()}
    assert before == {name: sorted((directory / name).glob('*ckpt*')) for name in STARTS}
    for (line,) in found.values():
        if advice := ADVICE.search(line):
            _, bad, state, content = advice.groups()
            for path in directory.glob(f'{bad}.*'):
                path.unlink()
            (directory / state).write_text(content)
    program.run_forked(commands, directory)
    return {name: (line, program.summary(directory / name)) for name, (line,) in found.items()}


@pytest.mark.parametrize('name', STARTS)
def test_a_start_from_a_checkpoint_that_is_not_finite(starts, name):
    line, summary = starts[name]
    want_finite = STARTS[name][2]
    assert line.startswith(f'{name}/model.ckpt-7, from which training would go on, is not finite: {ALL}; '), line
    if want_finite is None:
        assert line.endswith(f'nor is any older checkpoint in {name}: begin anew in another --model_dir')
        assert summary['status'] == 'failed'
    else:  # What it advises is what helps.
        assert int(ADVICE.search(line)[1]) == want_finite
        assert (summary['first_step'], summary['final_step'], summary['status']) == (want_finite, 12, 'done')


def test_an_evaluation_may_have_a_loss_that_is_not_finite(runs):
    directory, _, _ = runs
    result = program.run_forked(
        {'evaluation': [*of('evaluation'), *EVALUATE, *every(6), *bind('going_model_fn.eval_loss = @infinite()')]},
        directory,
    )['evaluation'].check()
    assert result.out.count("evaluation 'eval' at step 6: loss inf") == 1
    assert [each['metrics']['loss'] for each in program.summary(directory / 'evaluation')['evaluations']] == [None] * 2


# Chief and workers read every other number; in both clusters the worker has the even ones.
CLUSTERS = {
    # The chief learns of the worker's loss by its own, or by the weights.
    'chief:1,worker:1,ps:1': ('loss', r'step \d+: .*not finite: .*', {'chief:0': 1, 'ps:0': 138}),
    'chief:1,worker:1': ('weights', r'step 4: not finite: second/bias', {'chief:0': 1}),
}


@pytest.mark.parametrize('tasks', CLUSTERS)
def test_a_cluster_ends_with_its_last_finite_checkpoint(runs, tasks):
    directory, _, _ = runs
    what, want_line, want_codes = CLUSTERS[tasks]
    bad = bind(f'going_model_fn.{what}_at = [8]')
    arguments = ['--gin_file=going.gin', '--mode=train', '--max_steps=400', *every(1)]
    name = tasks.replace(':1', '').replace(',', '-')
    with LocalCluster(tasks, *arguments, *bad, model_dir=name, cwd=directory) as cluster:
        result = cluster.finish().check(1)
    # Who finds it out first ends the others: the worker may just hear of it from the chief.
    codes = result.exit_codes
    assert (codes.pop('worker:0') in (1, 138), codes) == (True, want_codes)
    checkpoint = program.summary(directory / name)['checkpoint']
    lines = re.findall('^estimator_trainer: error: (.*)$', result.logs['chief:0'], re.MULTILINE)
    assert len(lines) == 1, lines
    assert re.fullmatch(f'{want_line}; the last finite checkpoint is {checkpoint}', lines[0]), lines
    assert 'not finite: ' in result.logs['worker:0']
    summary = program.summary(directory / name)
    assert (summary['status'], summary['error']) == ('failed', f'NotFinite: {lines[0]}')
    variables = plain.read({'newest': ('variables', checkpoint)}, directory)['newest']
    assert all(np.isfinite(value).all() for value in variables.values())
    step = int(variables['global_step'])
    # Numbers in the input that are bad only in the first run.
    with LocalCluster(tasks, *arguments, f'--max_steps={step + 4}', model_dir=name, cwd=directory) as cluster:
        cluster.finish().check()
    summary = program.summary(directory / name)
    assert (summary['first_step'], summary['status']) == (step, 'done')
    assert summary['final_step'] >= step + 4


# Each in a graph of its own: the variables' values, and the names of those that are found not to be finite.


def _variables(**values):
    for name, value in values.items():
        v1.get_variable(name, initializer=tf.constant(value))


def _none():
    v1.get_variable('steps', initializer=1, trainable=False)


def _kinds():
    _variables(half=np.float16([1, np.inf]), double=np.float64([np.nan]), whole=np.int32([7]), text='text')
    v1.get_variable('brain', initializer=tf.constant([[-np.inf, 2.0]], tf.bfloat16))
    v1.get_variable('fine_brain', initializer=tf.constant([1.0], tf.bfloat16))
    v1.get_variable('reference', initializer=[np.nan], use_resource=False)


def _parts():
    with v1.variable_scope('', partitioner=v1.fixed_size_partitioner(3)):
        _variables(wide=[1.0, 2.0, 3.0, np.nan, np.nan, np.nan], bad=[np.nan, 1.0, 1.0], good=[1.0, 1.0, 1.0])


def _not_trainable():
    v1.get_variable('limit', initializer=np.inf, trainable=False)
    _variables(w=[[1e38, -1e38]])


def _mirrored():
    with tf.distribute.MirroredStrategy(['cpu:0']).scope():
        _variables(w=[1.0, np.nan], v=[1.0])


@pytest.mark.parametrize(
    ('make', 'want'),
    [
        (_none, []),
        (_kinds, ['half', 'double', 'brain', 'reference']),
        (_parts, ['wide', 'bad']),
        (_not_trainable, []),
        (_mirrored, ['w']),
    ],
)
def test_weights(make, want, tmp_path):
    with tf.Graph().as_default(), v1.Session() as session:
        make()
        weights = finite.Weights()
        weights.build()
        size = len(session.graph.get_operations())
        weights.build()
        assert len(session.graph.get_operations()) == size
        session.run(v1.global_variables_initializer())
        session.graph.finalize()
        assert weights.not_finite(session) == want


def test_a_checkpoint_is_read_as_the_graph_is(tmp_path):
    for make, want in ((_kinds, False), (_parts, False), (_not_trainable, True)):
        with tf.Graph().as_default(), v1.Session() as session:
            make()
            saver = v1.train.Saver()
            weights = finite.Weights()
            weights.build()
            session.run(v1.global_variables_initializer())
            path = saver.save(session, str(tmp_path / make.__name__))
        assert finite.is_finite(path, weights.names) == want
        assert finite.is_finite(path, [*weights.names, 'not in it']) == want
    assert finite.is_finite(path, ['limit']) is False
    assert finite.is_finite(str(tmp_path / 'nothing'), ['w']) is False


class Poison(v1.train.CheckpointSaverListener):
    """Another worker, whose update comes after weights have been looked at and before they are saved."""

    def __init__(self, at):
        self._at = at

    def before_save(self, session, global_step_value):
        if global_step_value == self._at:
            session.run('poison')


@pytest.mark.parametrize(('at', 'want_left'), [(2, [0, 1]), (1, [0]), (0, [])])
def test_a_checkpoint_whose_weights_others_have_spoilt_meanwhile_is_taken_back(tmp_path, at, want_left):
    run = types.SimpleNamespace(
        hook=types.SimpleNamespace(loss=0.5, runs=1, step=0),
        lifecycle=types.SimpleNamespace(needs_peers=True),
        topology=types.SimpleNamespace(has_ps=True, is_chief=True),
        model_dir=str(tmp_path),
    )
    watch = finite.Watch(run)
    with tf.Graph().as_default():
        train_op = v1.assign_add(v1.train.create_global_step(), 1)
        v1.get_variable('w', initializer=[1.0, 2.0]).assign([1.0, np.nan], name='poison')
        saver = v1.train.CheckpointSaverHook(
            str(tmp_path),
            save_steps=1,
            saver=v1.train.Saver(save_relative_paths=True),
            listeners=[watch.listener, Poison(at)],
        )
        with pytest.raises(finite.NotFinite) as raised, v1.train.MonitoredSession(hooks=[saver]) as session:
            for _ in range(4):
                session.run(train_op)
    last = (
        f'the last finite checkpoint is {tmp_path}/model.ckpt-{want_left[-1]}'
        if want_left
        else 'there is no checkpoint'
    )
    assert str(raised.value) == f'step {at}: not finite: w; {last}'
    assert run.hook.step == at
    assert sorted(int(path.stem[-1]) for path in tmp_path.glob('*.index')) == want_left
    state = tf.train.get_checkpoint_state(str(tmp_path))
    paths = [f'{tmp_path}/model.ckpt-{step}' for step in want_left]
    assert list(state.all_model_checkpoint_paths if state else []) == paths
    assert tf.train.latest_checkpoint(str(tmp_path)) == (paths[-1] if paths else None)
