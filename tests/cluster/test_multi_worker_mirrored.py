"""Clusters without ps, in which the training tasks step together: real processes on loopback."""

import signal
import time

import pytest

from tests import program
from tests.cluster.conftest import check_exit_codes_after

FOR_EVER = ('--max_steps=100000000', '--gin_param=trainer.peer_timeout = 10')
COUNTING = ('--import_module=counting', '--gin_param=experiment.train_input_fn = @sharded_input_fn')
KERAS = (
    '--gin_param=experiment.model_fn = None\nexperiment.keras_model = @keras_model',
    '--gin_param=experiment.train_input_fn = @uneven_input_fn\nuneven_input_fn.repeat = True',
    '--gin_param=experiment.eval_input_fn = @eval/uneven_input_fn\neval/uneven_input_fn.repeat = False',
)
OBJECT = '--gin_param=RunConfig.train_distribute = @MultiWorkerMirroredStrategy()'


@pytest.mark.parametrize(
    'arguments',
    [
        pytest.param([], id='auto'),
        pytest.param(
            [OBJECT, '--import_module=version_1'], id='object, v1 behaviour', marks=pytest.mark.once('oldest')
        ),
    ],
)
def test_the_six_line_model(cluster, arguments):
    job = cluster('chief:1,worker:2,evaluator:1', *arguments, '--gin_param=RunConfig.save_checkpoints_steps = 50')
    result = job.finish().check()
    assert result.exit_codes == dict.fromkeys(['chief:0', 'worker:0', 'worker:1', 'evaluator:0'], 0)
    summary = program.summary(cluster.model_dir)
    assert (summary['stopped_because'], summary['final_step'], summary['overshoot']) == ('max_steps', 200, 0)
    # A batch of 8 in each of three tasks.
    assert summary['examples'] == 3 * 8 * 200
    assert [row['steps'] for row in summary['tasks'] if row['steps'] is not None] == [200] * 3
    evaluation = summary['evaluations'][-1]
    assert (evaluation['step'], evaluation['examples']) == (200, 60)
    assert evaluation['metrics']['accuracy'] > 0.9
    steps = {int(path.suffixes[0].removeprefix('.ckpt-')) for path in cluster.model_dir.glob('model.ckpt-*.index')}
    assert steps == {0, 50, 100, 150, 200}
    assert not list(cluster.model_dir.glob('tmp_*'))
    assert list(cluster.model_dir.glob('events.*'))
    assert any('input_context' in warning for warning in summary['warnings'])
    assert 'global batch 24: 3 workers x 8' in result.out
    assert ('(auto: --local_cluster' in result.out) == (not arguments)


def test_penguins_to_the_accuracy_of_one_process(cluster):
    job = cluster(
        *('chief:1,worker:1', '--gin_file=penguins.gin', '--max_steps=300', '--strategy=multi_worker_mirrored'),
        fork=False,
    )
    job.finish().check()
    summary = program.summary(cluster.model_dir)
    # The global batch is 32, whatever the number of replicas.
    assert summary['examples'] == 32 * 300
    assert summary['evaluations'][-1]['metrics']['accuracy'] > 0.95
    assert len(summary['exports']) == 1


@pytest.mark.once('newest')
def test_a_keras_model(cluster):
    job = cluster('chief:1,worker:1', '--import_module=uneven', *KERAS, '--max_steps=30')
    job.finish().check()
    (evaluation,) = program.summary(cluster.model_dir)['evaluations']
    # Not only does it train: the moving averages of its batch normalisation are those of both tasks.
    assert (evaluation['examples'], evaluation['metrics']['accuracy'] > 0.8) == (80, True)


@pytest.mark.parametrize(
    ('policy', 'want_examples', 'want_step', 'want_unread', 'want_word'),
    [
        pytest.param('stop', 240, 10, 24, 'so all tasks stop', marks=pytest.mark.once('oldest')),
        pytest.param('pad', 264, 13, 0, 'read again', marks=pytest.mark.once('newest')),
    ],
)
def test_input_that_ends_in_one_task_before_another(cluster, policy, want_examples, want_step, want_unread, want_word):
    job = cluster(
        *('chief:1,worker:2', *COUNTING, '--gin_param=experiment.max_steps = None'),
        # Of 264 examples chief:0 reads 104, the others 80 each.
        '--import_module=uneven',
        f"--gin_param=trainer.uneven_input = '{policy}'",
        '--gin_param=experiment.train_input_fn = @uneven_input_fn',
    )
    result = job.finish().check()
    summary = program.summary(cluster.model_dir)
    assert (summary['stopped_because'], summary['final_step']) == ('end_of_input', want_step)
    assert summary['examples'] == want_examples
    (note,) = [
        warning for warning in summary['warnings'] if 'has ended after 10 steps' in warning and 'worker:0' in warning
    ]
    assert want_word in note
    unread = [warning for warning in summary['warnings'] if 'not trained on' in warning]
    assert [warning.split()[0] for warning in unread] == ([str(want_unread)] if want_unread else [])
    assert set(result.exit_codes.values()) == {0}


UNEVEN_MODULE = """
import gin
import tensorflow as tf


@gin.configurable
def uneven_input_fn(input_context=None, repeat=False):
    is_first = input_context is not None and input_context.input_pipeline_id == 0
    x = tf.random.stateless_uniform([104 if is_first else 80, 2], [1, 2], -1.0, 1.0)
    dataset = tf.data.Dataset.from_tensor_slices(({'x': x}, tf.cast(x[:, 0] > 0, tf.float32)))
    return (dataset.repeat() if repeat else dataset).batch(8)


@gin.configurable
def keras_model():
    x = tf.keras.Input([2], name='x')
    hidden = tf.keras.layers.BatchNormalization(momentum=0.5)(tf.keras.layers.Dense(8, 'relu')(x))
    model = tf.keras.Model(x, tf.keras.layers.Dense(1, 'sigmoid')(hidden))
    model.compile(tf.keras.optimizers.Adam(0.05), 'binary_crossentropy', ['accuracy'])
    return model


@gin.configurable
def empty_for_the_worker_input_fn(input_context):
    return uneven_input_fn(input_context).take(1 - input_context.input_pipeline_id)


@gin.configurable
class stop_in_task(tf.compat.v1.train.SessionRunHook):
    def __init__(self, wanted, fails=False):
        self._wanted, self._fails, self._runs = wanted, fails, 0

    def after_run(self, run_context, run_values):
        self._runs += 1
        import json, os
        assert os.environ['TF_FORCE_GPU_ALLOW_GROWTH'] == 'true'
        task = json.loads(os.environ['TF_CONFIG'])['task']['type']
        if task == self._wanted and self._runs == 60:
            if self._fails:
                raise KeyError('no such column')
            run_context.request_stop()
"""


@pytest.fixture(autouse=True)
def uneven_module(user_project):
    (user_project / 'uneven.py').write_text(UNEVEN_MODULE)
    (user_project / 'version_1.py').write_text('import tensorflow as tf\ntf.compat.v1.disable_v2_behavior()\n')


@pytest.mark.once('newest')
def test_a_task_without_input_ends_all(cluster):
    job = cluster(
        *('chief:1,worker:1', '--import_module=uneven'),
        '--gin_param=experiment.train_input_fn = @empty_for_the_worker_input_fn',
    )
    result = job.finish().check(2)
    assert 'produced no batches for worker:0, input pipeline 1 of 2' in result.out + result.err
    assert not cluster.model_dir.exists()


@pytest.mark.once('newest')
def test_a_hook_of_one_task_stops_all_after_the_same_step(cluster):
    job = cluster(
        *('chief:1,worker:1', *FOR_EVER, '--import_module=uneven'),
        "--gin_param=experiment.hooks = [@stop_in_task()]\nstop_in_task.wanted = 'worker'",
    )
    result = job.finish().check()
    summary = program.summary(cluster.model_dir)
    assert (summary['stopped_because'], summary['final_step']) == ('early_stopping', 61)
    assert set(result.exit_codes.values()) == {0}
    assert summary['checkpoint'].endswith('-61')


@pytest.mark.once('newest')
def test_an_exception_in_one_task_ends_all(cluster):
    job = cluster(
        *('chief:1,worker:1,evaluator:1', *FOR_EVER, '--import_module=uneven'),
        "--gin_param=experiment.hooks = [@stop_in_task()]\nstop_in_task.wanted = 'worker'\nstop_in_task.fails = True",
    )
    result = job.finish().check(1)
    assert result.exit_codes == {'chief:0': 138, 'worker:0': 1, 'evaluator:0': 138}
    assert "worker:0 failed: KeyError: 'no such column'" in result.logs['chief:0']
    assert 'Traceback' in result.logs['worker:0']


@pytest.mark.once('newest')
def test_checkpoints_by_the_clock_a_signal_to_a_worker_and_how_it_goes_on(cluster):
    arguments = (
        '--gin_param=RunConfig.save_checkpoints_secs = 1\nRunConfig.save_checkpoints_steps = None',
        '--import_module=uneven',
    )
    job = cluster('chief:1,worker:1', '--max_steps=100000000', *arguments)
    job.wait_until('chief:0', 'training', steps=5)
    deadline = time.monotonic() + 60
    while len(list(cluster.model_dir.glob('model.ckpt-*.index'))) < 4 and time.monotonic() < deadline:
        time.sleep(0.2)
    job.signal('worker:0', signal.SIGTERM)
    result = job.finish()
    assert result.exit_codes == {'chief:0': 138, 'worker:0': 143}
    assert 'worker:0 was told to stop by a signal' in result.logs['chief:0']
    summary = program.summary(cluster.model_dir)
    step = summary['final_step']
    assert len(list(cluster.model_dir.glob('model.ckpt-*.index'))) >= 4
    assert (summary['status'], summary['checkpoint'].endswith(f'-{step}')) == ('interrupted', True)
    result = cluster('chief:1,worker:1', f'--max_steps={step + 10}', *arguments).finish().check()
    summary = program.summary(cluster.model_dir)
    assert (summary['first_step'], summary['final_step']) == (step, step + 10)
    # Each step took one batch in each task.
    want = f'goes on after the {step:,} batches that an interrupted run has trained on'
    assert [want in result.logs[task] for task in ('chief:0', 'worker:0')] == [True, True]


# A task gets a signal, is lost, or stops.


@pytest.mark.once('newest')
@pytest.mark.parametrize(
    ('victim', 'number', 'want_codes'),
    [
        ('chief:0', signal.SIGTERM, {'chief:0': 143, 'worker:0': 138, 'worker:1': 138, 'evaluator:0': 138}),
        ('chief:0', signal.SIGKILL, {'chief:0': 137, 'worker:0': 138, 'worker:1': 138, 'evaluator:0': 138}),
        ('worker:1', signal.SIGKILL, {'chief:0': 138, 'worker:0': 138, 'worker:1': 137, 'evaluator:0': 138}),
        ('chief:0', signal.SIGSTOP, {'worker:0': 138, 'worker:1': 138, 'evaluator:0': 138}),
        ('worker:1', signal.SIGSTOP, {'chief:0': 138, 'worker:0': 138, 'evaluator:0': 138}),
    ],
    ids=lambda value: getattr(value, 'name', None),
)
def test_a_task_is_lost(cluster, victim, number, want_codes):
    job = cluster('chief:1,worker:2,evaluator:1', *FOR_EVER)
    job.wait_until('worker:0', 'training', steps=5)
    result = check_exit_codes_after(job, victim, number, want_codes)
    if number == signal.SIGTERM:
        step = program.summary(cluster.model_dir)['final_step']
        assert program.summary(cluster.model_dir)['checkpoint'].endswith(f'-{step}')
    else:
        for task in want_codes:
            assert task == victim or f'lost {victim}' in result.logs[task]
