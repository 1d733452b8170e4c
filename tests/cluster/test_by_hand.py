"""Clusters whose tasks are started one by one, as launchers for many machines do: late, twice, otherwise, or never."""

import contextlib
import json
import os
import signal
import socket
import time

import pytest

from tests import program

pytestmark = pytest.mark.once('oldest')


@pytest.fixture
def tasks(user_project):
    """Returns a function that starts a task of a cluster on the user's project; kills those that are left."""
    cluster = {job: [f'127.0.0.1:{port}'] for job, port in zip(('chief', 'worker', 'ps'), free_ports(3), strict=True)}
    processes = []

    def start(job, *arguments, cluster=cluster):
        config = {'cluster': cluster, 'task': {'type': job, 'index': 0}}
        arguments = ['--gin_file=my.gin', '--model_dir=M', *arguments]
        processes.append(program.start(*arguments, cwd=user_project, TF_CONFIG=json.dumps(config)))
        return processes[-1]

    start.model_dir = user_project / 'M'
    start.cluster = cluster
    yield start
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(('127.0.0.1', 0))
        return [each.getsockname()[1] for each in sockets]


def ledger(tasks, job):
    try:
        return json.loads((tasks.model_dir / 'run' / f'{job}-0.json').read_text())
    except (OSError, ValueError):
        return {}


def wait_for(condition, seconds=100):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_short_job_without_launcher_and_a_worker_after_its_end(tasks):
    # Started together, as a cluster manager does: the worker must not sleep while the chief trains alone.
    arguments = ['--gin_param=experiment.max_steps = None', '--gin_param=my_input_fn.repeat = False', '--seed=1']
    started = {job: tasks(job, *arguments) for job in ('chief', 'worker', 'ps', 'evaluator')}
    results = {job: program.finish(process).check() for job, process in started.items()}
    records = {job: ledger(tasks, job) for job in started}
    assert {record['state'] for record in records.values()} == {'done'}
    assert records['worker']['examples'] == 60
    summary = program.summary(tasks.model_dir)
    assert (summary['examples'], summary['stopped_because']) == (120, 'end_of_input')
    # The evaluator, which is not in "cluster", evaluates; the chief does not.
    assert summary['evaluations'][-1]['step'] == summary['final_step']
    assert "\nevaluation 'eval'" not in results['chief'].out
    # Without a launcher's table the chief prints it.
    header, *rows = [line.split() for line in results['chief'].out.splitlines()[-5:]]
    assert header == ['task', 'host', 'status', 'steps', 'examples', 'seconds', 'exit']
    assert [row[0] for row in rows] == ['chief:0', 'worker:0', 'ps:0', 'evaluator:0']
    assert [row[-1] for row in rows[:3]] == ['0', '0', '0']
    assert {row['task']: row['exit'] for row in summary['tasks']} == {row[0]: 0 for row in rows}

    # Killed and started anew after the end: there is no chief any more, and nothing left to do.
    path = tasks.model_dir / 'run' / 'worker-0.json'
    path.write_text(json.dumps(records['worker'] | {'state': 'training', 'pid': 2**22 + 1}))
    began = time.monotonic()
    program.finish(tasks('worker', *arguments)).check()
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    ('job', 'arguments', 'other', 'want_text'),
    [
        ('ps', ['--max_steps=7'], {}, 'experiment.max_steps is '),
        ('worker', [], {'worker': ['127.0.0.1:1']}, 'the cluster has worker 127.0.0.1:'),
    ],
)
def test_tasks_that_were_started_differently_refuse_each_other(tasks, job, arguments, other, want_text):
    timeout = '--gin_param=trainer.startup_timeout = 200'
    started = [tasks('chief', timeout), tasks(job, timeout, *arguments, cluster=tasks.cluster | other)]
    results = [program.finish(process) for process in started]
    # Both see it; the first to do so tells the other, whose cause it then is.
    for result in results:
        assert f'were started differently: {want_text}' in result.err
    assert sorted(result.code for result in results) in ([2, 138], [2, 2])


def test_a_second_chief_is_refused(tasks):
    chief = tasks('chief')
    wait_for(lambda: ledger(tasks, 'chief'))
    before = ledger(tasks, 'chief')
    second = program.finish(tasks('chief')).check(2)
    assert f'M is in use: chief:0 is process {chief.pid} on {socket.gethostname()}, starting' in second.err
    after = ledger(tasks, 'chief')
    assert (after['incarnation'], after['beat'] > before['beat']) == (before['incarnation'], True)
    chief.send_signal(signal.SIGTERM)
    program.finish(chief).check(143)


def test_a_second_local_run_is_refused(user_project):
    first = program.start('--gin_file=my.gin', '--model_dir=M', '--max_steps=100000000', cwd=user_project)
    wait_for((user_project / 'M' / 'run' / 'chief-0.json').exists)
    second = program.run('--gin_file=my.gin', '--model_dir=M', cwd=user_project).check(2)
    assert f'M is in use: local:0 is process {first.pid}' in second.err
    first.send_signal(signal.SIGKILL)  # leaves a record of a training that goes on
    first.communicate()
    program.run('--gin_file=my.gin', '--model_dir=M', '--max_steps=1', cwd=user_project).check()


def test_a_port_in_use(tasks):
    host, _, port = tasks.cluster['ps'][0].rpartition(':')
    with socket.socket() as holder:
        holder.bind((host, int(port)))
        holder.listen()
        result = program.finish(tasks('ps')).check(138)
    assert f'ps:0 cannot listen on {host}:{port}' in result.err


def test_a_peer_that_never_starts_is_named(tasks):
    result = program.finish(tasks('ps', '--gin_param=trainer.startup_timeout = 2')).check(138)
    address = tasks.cluster['chief'][0]
    want = f'ps:0 gave up after 2 s (trainer.startup_timeout) waiting for chief:0 ({address}): not started'
    assert want in result.err


def test_an_evaluator_beside_a_chief_that_trains_alone(tasks):
    cluster = {'chief': tasks.cluster['chief'], 'evaluator': tasks.cluster['ps']}
    started = [tasks(job, '--max_steps=30', cluster=cluster) for job in ('chief', 'evaluator')]
    results = [program.finish(process).check() for process in started]
    assert "evaluation 'eval' at step 30" in results[1].out
    assert "\nevaluation 'eval'" not in results[0].out
    summary = program.summary(tasks.model_dir)
    assert (summary['final_step'], summary['evaluations'][-1]['step']) == (30, 30)


def test_a_worker_of_a_synchronous_training_that_comes_back_goes_on(tasks):
    sync = program.bind('my_model_fn.optimizer = @sync_replicas()', 'sync_replicas.optimizer = @AdamOptimizer()')
    arguments = [*sync, '--max_steps=1500', '--seed=1']
    started = {job: tasks(job, *arguments) for job in ('chief', 'worker', 'ps')}
    wait_for(lambda: all((ledger(tasks, job).get('steps') or 0) > 5 for job in ('chief', 'worker')))
    started['worker'].kill()
    started['worker'].communicate()
    step = ledger(tasks, 'chief')['step']
    started['worker'] = tasks('worker', *arguments)
    results = {job: program.finish(process).check() for job, process in started.items()}
    summary = program.summary(tasks.model_dir)
    assert step < 1500 == summary['final_step']
    assert 'lost' not in results['chief'].err


def test_a_synchronous_chief_without_its_worker_gives_up(tasks):
    sync = program.bind('my_model_fn.optimizer = @sync_replicas()', 'sync_replicas.optimizer = @AdamOptimizer()')
    started = [tasks(job, *sync, '--gin_param=trainer.startup_timeout = 20') for job in ('chief', 'ps')]
    for result in [program.finish(process).check(138) for process in started]:
        assert (
            'chief:0 gave up after 20 s (trainer.startup_timeout) waiting for worker:0 (not started): '
            'a step of sync_replicas takes 2 gradients'
        ) in result.err
