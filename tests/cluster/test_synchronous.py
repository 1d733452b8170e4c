"""Synchronous training on parameter servers: exact steps, exact gradients, and one end for all tasks."""

import signal
import time

import pytest

from estimator_trainer.compat import tf
from tests import program

SYNC = program.bind(
    'my_model_fn.optimizer = @sync_replicas()',
    'sync_replicas.optimizer = @AdamOptimizer()',
    'AdamOptimizer.learning_rate = 0.05',
)
LINEAR = """
import gin
import tensorflow as tf
from estimator_trainer import sync_replicas


@gin.configurable
def linear_model_fn(features, labels, mode, optimizer):
    weights = tf.compat.v1.get_variable('weights', [2], initializer=tf.compat.v1.zeros_initializer())
    average = tf.compat.v1.get_variable('average', [], initializer=tf.compat.v1.zeros_initializer(), trainable=False)
    loss = tf.reduce_mean((tf.reduce_sum(features * weights, 1) - labels) ** 2)
    # What the step depends on must run once a step and task, and not when the chief applies the mean.
    with tf.control_dependencies([average.assign_add(1.0)]):
        train_op = optimizer.minimize(loss, tf.compat.v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@gin.configurable
def shard_input_fn(batches=None, batch=4, last_of=(), num_input_pipelines=1, input_pipeline_id=0):
    # Each pipeline has its own batch, always the same; alone, one has them all.
    numbers = tf.data.Dataset.range(8).shard(num_input_pipelines, input_pipeline_id)
    numbers = numbers.map(lambda n: (tf.stack([tf.cast(n, tf.float32) / 8, 1.0]), tf.cast(n % 3, tf.float32)))
    return numbers.batch(8).repeat(batches if input_pipeline_id in last_of else None)


@gin.configurable
class StopAfter(tf.compat.v1.train.SessionRunHook):
    def __init__(self, runs):
        self.runs = runs

    def after_run(self, run_context, run_values):
        self.runs -= 1
        if not self.runs:
            run_context.request_stop()
"""
LINEAR_GIN = program.bind(
    'experiment.model_fn = @linear_model_fn',
    'experiment.train_input_fn = @shard_input_fn',
    'linear_model_fn.optimizer = @sync_replicas()',
    'sync_replicas.optimizer = @GradientDescentOptimizer()',
    'GradientDescentOptimizer.learning_rate = 0.1',
)


@pytest.fixture(autouse=True)
def linear(user_project):
    (user_project / 'linear.py').write_text(LINEAR)


def of_linear(*arguments):
    return ['--import_module=linear', '--mode=train', *LINEAR_GIN, *arguments]


@pytest.mark.parametrize(
    ('arguments', 'max_steps', 'batch', 'want_accuracy'),
    [
        (SYNC, 200, 8, 0.9),
        (
            [
                '--gin_file=penguins.gin',
                *program.bind(
                    'dense_model_fn.optimizer = @sync_replicas',  # the function, not what it returns
                    'sync_replicas.optimizer = @AdamOptimizer',
                    'AdamOptimizer.learning_rate = 0.01',
                ),
            ],
            150,
            32,
            0.95,
        ),
    ],
    ids=['six-line model', 'penguins'],
)
def test_as_good_as_one_process_with_exactly_max_steps(cluster, arguments, max_steps, batch, want_accuracy):
    job = cluster('chief:1,worker:2,ps:2,evaluator:1', *arguments, f'--max_steps={max_steps}')
    result = job.finish().check()
    assert result.exit_codes == dict.fromkeys(['chief:0', 'worker:0', 'worker:1', 'ps:0', 'ps:1', 'evaluator:0'], 0)
    summary = program.summary(cluster.model_dir)
    assert (summary['status'], summary['stopped_because']) == ('done', 'max_steps')
    assert (summary['final_step'], summary['overshoot']) == (max_steps, 0)
    assert summary['examples'] == 3 * batch * max_steps
    assert summary['checkpoint'].endswith(f'-{max_steps}')
    assert summary['evaluations'][-1]['metrics']['accuracy'] > want_accuracy
    assert 'parameter_server, synchronous: 3 gradients a step, 3 tasks' in result.logs['chief:0']


@pytest.mark.once('oldest')
def test_a_step_of_two_tasks_is_one_on_both_batches(cluster):
    arguments = of_linear('--max_steps=3')
    program.run('--gin_file=my.gin', '--model_dir=local', *arguments, cwd=cluster.project).check()
    cluster('chief:1,worker:1,ps:1', *arguments).finish().check()
    weights = [tf.train.load_variable(str(cluster.project / of), 'weights') for of in ('local', 'M')]
    assert abs(weights[0]).min() > 0.01
    assert weights[1] == pytest.approx(weights[0], abs=1e-6)
    assert tf.train.load_variable(str(cluster.model_dir), 'average') == 6  # once a step and task
    assert program.summary(cluster.model_dir)['examples'] == 3 * 8


@pytest.mark.once('oldest')
def test_a_canned_estimator_with_more_gradients_than_tasks(cluster):
    canned = program.bind(
        'experiment.model_fn = None',
        'experiment.estimator = @DNNClassifierV1',
        'DNNClassifierV1.hidden_units = [8]',
        'DNNClassifierV1.feature_columns = [@numeric_column()]',
        "numeric_column.key = 'x'",
        'numeric_column.shape = [2]',
        'DNNClassifierV1.optimizer = @sync_replicas()',
        'sync_replicas.replicas_to_aggregate = 4',
    )
    result = cluster('chief:1,worker:1,ps:1', *SYNC[1:], *canned, '--max_steps=20').finish().check()
    assert set(result.exit_codes.values()) == {0}
    summary = program.summary(cluster.model_dir)
    assert (summary['final_step'], summary['examples']) == (20, 4 * 8 * 20)


@pytest.mark.once('oldest')
@pytest.mark.parametrize(
    ('arguments', 'want_why', 'want_task'),
    [
        (program.bind('shard_input_fn.batches = 5', 'shard_input_fn.last_of = [2]'), 'end_of_input', 'worker:1'),
        (program.bind('shard_input_fn.batches = 5', 'shard_input_fn.last_of = [0]'), 'end_of_input', 'chief:0'),
        (program.bind('experiment.hooks = [@StopAfter()]', 'StopAfter.runs = 5'), 'early_stopping', ''),
    ],
    ids=['input of a worker', 'input of the chief', 'early stopping'],
)
def test_the_end_of_one_task_is_the_end_of_all(cluster, arguments, want_why, want_task):
    result = cluster('chief:1,worker:2,ps:2', *of_linear('--max_steps=1000', *arguments)).finish().check()
    assert set(result.exit_codes.values()) == {0}
    summary = program.summary(cluster.model_dir)
    assert (summary['status'], summary['stopped_because'], summary['final_step']) == ('done', want_why, 5)
    assert summary['checkpoint'].endswith('-5')
    assert summary['examples'] == 5 * 8  # A batch whose gradient found no step does not count.
    if want_task:
        assert f'the input of {want_task} has ended at step 5, which ended the training of all' in ''.join(
            summary['warnings']
        )
        assert f'{want_task} ends the training of all tasks at step 5 (end_of_input)' in result.logs[want_task]


FOR_EVER = [*SYNC, '--max_steps=100000000', *program.bind('trainer.peer_timeout = 15')]


@pytest.mark.once('newest')
@pytest.mark.parametrize(
    ('victim', 'number', 'want_code'),
    [
        ('chief:0', signal.SIGTERM, 143),
        ('worker:0', signal.SIGTERM, 143),
        ('worker:0', signal.SIGKILL, 137),
        ('worker:0', signal.SIGSTOP, None),
    ],
    ids=lambda value: getattr(value, 'name', None),
)
def test_a_task_that_is_stopped_or_lost(cluster, victim, number, want_code):
    job = cluster('chief:1,worker:2,ps:1,evaluator:1', *FOR_EVER)
    job.wait_until('worker:1', 'training', steps=5)
    job.signal(victim, number)
    began = time.monotonic()
    result = job.finish(timeout=130)
    assert time.monotonic() - began < 90
    codes = {task: row['exit'] for task, row in result.tasks.items()}
    if want_code:
        assert codes[victim] == str(want_code)
    del codes[victim]
    assert set(codes.values()) == {'138'}, (codes, result.check(0))
    summary = program.summary(cluster.model_dir)
    # The chief has saved the last step that all have made.
    assert summary['checkpoint'].endswith(f'-{summary["final_step"]}')
    assert summary['final_step'] > 0
    if victim == 'chief:0':
        assert (summary['status'], summary['stopped_because']) == ('interrupted', 'signal')
    else:
        assert (summary['status'], victim in summary['error']) == ('failed', True)
        assert victim in result.logs['worker:1']
        assert victim in result.logs['ps:0']
