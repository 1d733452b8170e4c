"""Parameter-server clusters of real processes on loopback: every process ends by itself, with a right exit code."""

import json
import signal
import time

import pytest

from tests import program, resuming_module
from tests.cluster.conftest import check_exit_codes_after, processes_in

FOR_EVER = ('--max_steps=100000000', '--gin_param=trainer.peer_timeout = 15')


def ledger(cluster, task):
    return json.loads((cluster.model_dir / 'run' / f'{task.replace(":", "-")}.json').read_text())


# Each way to end ends all.


STRATEGY_OBJECT = '--gin_param=RunConfig.train_distribute = @ParameterServerStrategy()'


@pytest.mark.parametrize(
    ('fork', 'arguments'),
    [
        pytest.param(True, [], id='forked'),
        pytest.param(False, [], id='fresh', marks=pytest.mark.once('newest')),
        pytest.param(True, [STRATEGY_OBJECT], id='strategy object', marks=pytest.mark.once('oldest')),
    ],
)
def test_the_six_line_model(cluster, fork, arguments):
    job = cluster('chief:1,worker:2,ps:2,evaluator:1', *arguments, fork=fork)
    result = job.finish().check()
    assert result.exit_codes == dict.fromkeys(['chief:0', 'worker:0', 'worker:1', 'ps:0', 'ps:1', 'evaluator:0'], 0)
    summary = program.summary(cluster.model_dir)
    assert (summary['status'], summary['stopped_because'], summary['first_step']) == ('done', 'max_steps', 0)
    # Asynchronous workers each look at global_step after their own update: less than one step a task too many.
    assert 200 <= summary['final_step'] <= 202
    assert summary['overshoot'] == summary['final_step'] - 200
    # Every step consumed one batch of 8, on whichever task.
    assert summary['examples'] == 8 * summary['final_step']
    assert summary['checkpoint'] == f'{cluster.model_dir}/model.ckpt-{summary["final_step"]}'
    (*_, evaluation) = summary['evaluations']
    assert (evaluation['step'], evaluation['examples']) == (summary['final_step'], 60)
    assert evaluation['metrics']['accuracy'] > 0.9
    assert result.logs['evaluator:0'].count(f"evaluation 'eval' at step {summary['final_step']}:") == 1
    assert any('input_context' in warning for warning in summary['warnings'])
    # The table of all tasks, as the summary has it; only those that train count.
    tasks = {row['task']: row for row in summary['tasks']}
    assert {name: (row['status'], row['exit']) for name, row in tasks.items()} == dict.fromkeys(tasks, ('done', 0))
    assert sum(row['steps'] or 0 for row in tasks.values()) == summary['final_step']
    assert sum(row['examples'] or 0 for row in tasks.values()) == summary['examples']
    assert [result.tasks[name]['steps'] for name in ('chief:0', 'ps:0')] == [str(tasks['chief:0']['steps']), '-']


def test_penguins_to_the_accuracy_of_one_process(cluster):
    job = cluster('chief:1,worker:2,ps:2,evaluator:1', '--gin_file=penguins.gin', '--max_steps=500')
    result = job.finish().check()
    ended = max(record['time'] for record in (ledger(cluster, task) for task in result.tasks))
    assert ended - ledger(cluster, 'ps:0')['time'] < 30
    summary = program.summary(cluster.model_dir)
    assert summary['examples'] == 32 * summary['final_step']
    assert summary['evaluations'][-1]['metrics']['accuracy'] > 0.95
    assert len(summary['exports']) == 1
    assert len(list((cluster.model_dir / 'export' / 'final').iterdir())) == 1


@pytest.mark.once('newest')
def test_run_again_there_is_nothing_to_train(cluster):
    for want in ('max_steps', 'nothing_to_do'):
        # No record of the first run keeps anybody waiting.
        result = cluster('chief:1,worker:1,ps:1', '--max_steps=20').finish().check()
        assert result.exit_codes == {'chief:0': 0, 'worker:0': 0, 'ps:0': 0}
        summary = program.summary(cluster.model_dir)
        assert summary['stopped_because'] == want
        assert len(summary['evaluations']) == 1
    assert summary['examples'] == 0


@pytest.mark.once('oldest')
@pytest.mark.parametrize(('max_steps', 'arguments'), [('1000', []), ('None', [STRATEGY_OBJECT])])
def test_the_end_of_the_input_comes_after_each_example_was_trained_on_once(cluster, max_steps, arguments):
    job = cluster(
        *('chief:1,worker:2,ps:1,evaluator:1', '--import_module=counting', *arguments),
        f'--gin_param=experiment.max_steps = {max_steps}',
        '--gin_param=experiment.train_input_fn = @sharded_input_fn',
        '--gin_param=sharded_input_fn.examples = 244',  # does not divide by 3
    )
    result = job.finish().check()
    assert set(result.exit_codes.values()) == {0}
    summary = program.summary(cluster.model_dir)
    assert (summary['stopped_because'], summary['examples']) == ('end_of_input', 244)
    assert sorted(int(result.tasks[task]['examples']) for task in ('chief:0', 'worker:0', 'worker:1')) == [81, 81, 82]
    assert summary['evaluations'][-1]['step'] == summary['final_step'] == 33
    assert not any('input_context' in warning for warning in summary['warnings'])


@pytest.mark.once('oldest')
def test_the_chief_alone_may_decide_when_the_input_has_ended(cluster):
    job = cluster(
        *('chief:1,worker:1,ps:1', '--import_module=counting', '--gin_param=experiment.max_steps = None'),
        '--gin_param=experiment.train_input_fn = @sharded_input_fn',
        "--gin_param=trainer.end_policy = 'chief'",
    )
    result = job.finish().check()
    summary = program.summary(cluster.model_dir)
    assert (set(result.exit_codes.values()), summary['stopped_because']) == ({0}, 'end_of_input')
    assert int(result.tasks['chief:0']['examples']) == 120


@pytest.mark.once('oldest')
def test_early_stopping(cluster):
    job = cluster(
        *('chief:1,worker:1,ps:1', '--max_steps=100000000', '--gin_param=RunConfig.save_checkpoints_steps = 50'),
        '--gin_param=experiment.hooks = [@stop_after_steps()]',
        '--import_module=stopping',
    )
    result = job.finish().check()
    assert set(result.exit_codes.values()) == {0}
    assert program.summary(cluster.model_dir)['stopped_because'] == 'early_stopping'


STOPPING_MODULE = """
import os
import gin
import tensorflow as tf


@gin.configurable
class stop_after_steps(tf.compat.v1.train.SessionRunHook):
    def __init__(self):
        self.runs = 0

    def after_run(self, run_context, run_values):
        self.runs += 1
        if self.runs == 60:
            run_context.request_stop()


@gin.configurable
class fail_in_worker(tf.compat.v1.train.SessionRunHook):
    def after_run(self, run_context, run_values):
        if '"type": "worker"' in os.environ['TF_CONFIG']:
            raise KeyError('no such column')
"""


@pytest.fixture(autouse=True)
def stopping_module(user_project):
    (user_project / 'stopping.py').write_text(STOPPING_MODULE)


# Mistakes and failures.


@pytest.mark.once('oldest')
def test_a_mistake_is_told_once_and_leaves_nothing(cluster):
    result = cluster('chief:1,worker:1,ps:1', '--gin_param=experimnt.max_steps = 3').finish().check(2)
    assert (result.err + result.out).count("did you mean 'experiment'") == 1
    assert not cluster.model_dir.exists()


@pytest.mark.once('oldest')
def test_a_mistake_that_only_the_chief_finds(cluster):
    job = cluster('chief:1,worker:1,ps:1', '--strict_unused', '--gin_param=unused/my_input_fn.repeat = False')
    result = job.finish().check(2)
    assert 'unused/my_input_fn.repeat' in result.out + result.err
    assert not cluster.model_dir.exists()


@pytest.mark.once('newest')
def test_an_exception_in_the_model_ends_all(cluster):
    job = cluster(
        'chief:1,worker:1,ps:1', '--import_module=counting', '--gin_param=experiment.model_fn = @broken_model_fn'
    )
    result = job.finish().check(1)
    codes = result.exit_codes
    assert codes['chief:0'] == 1
    assert set(codes.values()) <= {1, 138}
    assert "KeyError: 'no such column" in result.out
    assert '--- ps:0' in result.err
    assert 'failed: KeyError' in result.err


@pytest.mark.once('oldest')
def test_an_exception_in_a_worker(cluster):
    job = cluster(
        *('chief:1,worker:1,ps:1,evaluator:1', '--max_steps=3000', '--import_module=stopping'),
        '--gin_param=experiment.hooks = [@fail_in_worker()]',
    )
    result = job.finish().check(1)
    # The others go on without it.
    assert result.exit_codes == {'chief:0': 0, 'worker:0': 1, 'ps:0': 0, 'evaluator:0': 0}
    assert "KeyError: 'no such column'" in result.logs['worker:0']


# A task gets a signal, is lost, or stops. Other tasks' exit codes: those of tasks that need it, of those that do not.


@pytest.mark.once('oldest')
@pytest.mark.parametrize(
    ('victim', 'number', 'want_codes'),
    [
        ('chief:0', signal.SIGTERM, {'chief:0': 143, 'worker:0': 138, 'ps:0': 138, 'evaluator:0': 138}),
        ('ps:0', signal.SIGTERM, {'chief:0': 138, 'worker:0': 138, 'ps:0': 143, 'evaluator:0': 138}),
        ('chief:0', signal.SIGKILL, {'chief:0': 137, 'worker:0': 138, 'ps:0': 138, 'evaluator:0': 138}),
        ('ps:0', signal.SIGKILL, {'chief:0': 138, 'worker:0': 138, 'ps:0': 137, 'evaluator:0': 138}),
        ('ps:0', signal.SIGSTOP, {'chief:0': 138, 'worker:0': 138, 'evaluator:0': 138}),
        ('chief:0', signal.SIGSTOP, {'worker:0': 138, 'ps:0': 138, 'evaluator:0': 138}),
    ],
    ids=lambda value: getattr(value, 'name', None),
)
def test_a_task_that_all_need(cluster, victim, number, want_codes):
    job = cluster('chief:1,worker:1,ps:1,evaluator:1', *FOR_EVER)
    job.wait_until('worker:0', 'training', steps=5)
    began = time.monotonic()
    result = check_exit_codes_after(job, victim, number, want_codes)
    assert time.monotonic() - began < 95
    summary = program.summary(cluster.model_dir)
    if victim != 'chief:0':
        assert (summary['status'], victim in summary['error']) == ('failed', True)
        assert 'the last checkpoint is' in result.out + result.err
    elif number == signal.SIGTERM:
        assert (summary['status'], summary['stopped_because']) == ('interrupted', 'signal')
        assert summary['checkpoint'].endswith(f'-{summary["final_step"]}')


@pytest.mark.once('oldest')
@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP], ids=lambda number: number.name)
@pytest.mark.parametrize('victim', ['worker:0', 'evaluator:0'])
def test_a_task_that_the_job_can_do_without(cluster, victim, number):
    job = cluster('chief:1,worker:1,ps:1,evaluator:1', '--max_steps=3000', '--gin_param=trainer.peer_timeout = 10')
    job.wait_until('worker:0', 'training', steps=5)
    job.signal(victim, number)
    if number == signal.SIGSTOP:
        job.wait_until('chief:0', 'done')
        job.signal(victim, signal.SIGKILL)
    result = job.finish(timeout=100)
    codes = result.exit_codes
    assert codes.pop(victim) == (143 if number == signal.SIGTERM else 137)
    assert set(codes.values()) == {0}
    summary = program.summary(cluster.model_dir)
    assert (summary['status'], summary['stopped_because']) == ('done', 'max_steps')
    assert summary['evaluations'][-1]['step'] == summary['final_step']
    assert {row['task']: row['exit'] for row in summary['tasks']}['chief:0'] == 0


@pytest.mark.once('oldest')
def test_sigterm_to_the_cluster_saves_and_ends_all(cluster):
    job = cluster('chief:1,worker:1,ps:1', *FOR_EVER)
    job.wait_until('worker:0', 'training', steps=5)
    job.launcher.send_signal(signal.SIGTERM)
    result = job.finish(timeout=60).check(143)
    assert result.exit_codes['chief:0'] == 143
    summary = program.summary(cluster.model_dir)
    assert (summary['status'], summary['stopped_because']) == ('interrupted', 'signal')
    assert summary['checkpoint'].endswith(f'-{summary["final_step"]}')
    assert summary['examples'] == 8 * summary['final_step']


@pytest.mark.once('oldest')
def test_tasks_end_when_the_launcher_is_killed(cluster):
    job = cluster('chief:1,worker:1,ps:1', *FOR_EVER, fork=False)
    job.wait_until('worker:0', 'training', steps=5)
    job.launcher.kill()
    job.launcher.communicate(timeout=20)
    deadline = time.monotonic() + 40
    while processes_in(cluster.model_dir) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert not processes_in(cluster.model_dir)


@pytest.mark.once('oldest')
@pytest.mark.parametrize(
    ('number', 'victim', 'want_code'), [(signal.SIGTERM, '', 143), (signal.SIGKILL, 'chief:0', 138)]
)
def test_an_interrupted_cluster_goes_on_in_its_input(cluster, number, victim, want_code):
    (cluster.project / 'resuming_module.py').write_text((program.TESTS / 'resuming_module.py').read_text())
    (cluster.project / 'my.gin').write_text(resuming_module.GIN)
    arguments = ['--gin_param=NoteHook.seconds = 0.1', '--gin_param=numbers_input_fn.examples = 400']
    job = cluster('chief:1,worker:1,ps:1', *arguments)
    job.wait_until('worker:0', 'training', steps=10)
    if victim:
        job.signal(victim, number)
    else:
        job.launcher.send_signal(number)
    job.finish().check(want_code)
    result = cluster('chief:1,worker:1,ps:1', *arguments).finish().check()
    # A slow worker may have had no part in the last checkpoint.
    assert 'batches that an interrupted run has trained on' in result.logs['chief:0'] + result.logs['worker:0']
    batches = {
        task: [[int(n) for n in line.split()] for line in (cluster.project / f'{task}-0.txt').read_text().splitlines()]
        for task in ('chief', 'worker')
    }
    numbers = [number for of_task in batches.values() for batch in of_task for number in batch]
    assert set(numbers) == set(range(400))
    # What the checkpoint does not hold comes once more, and what a task had trained on in the last seconds before it.
    lost = len(numbers) // 4 - program.summary(cluster.model_dir)['final_step']
    assert len(numbers) - 400 <= 4 * (lost + 2 + (60 if victim else 2))
    assert program.summary(cluster.model_dir)['stopped_because'] == 'end_of_input'
