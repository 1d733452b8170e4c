"""Parameter-server clusters of real processes on loopback: every process ends by itself, with a right exit code."""

import json
import os
import signal
import time

import pytest

from tests import program

CLUSTER = '--local_cluster=chief:1,worker:1,ps:1'

COUNTING_MODULE = """
import gin
import tensorflow as tf
import my_model


@gin.configurable
def sharded_input_fn(path, input_context=None):
    # 240 examples over all pipelines; each leaves its number in a file when it is read.
    def note(number):
        with open(path + str(input_context.input_pipeline_id), 'a') as file:
            file.write(f'{number} ')
        return number

    numbers = tf.data.Dataset.range(240).shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    numbers = numbers.map(lambda n: tf.numpy_function(note, [n], tf.int64, stateful=True))

    def example(n):
        x = tf.reshape(tf.cast(n, tf.float32), [1])
        return {'x': tf.concat([x, 1 - x], 0) / 240}, tf.cast(n > 120, tf.float32)

    return numbers.map(example).batch(8)


@gin.configurable
def broken_model_fn(features, labels, mode):
    raise KeyError('no such column')
"""


def exit_codes(out):
    """Returns task -> exit code, from the table at the end of the launcher's output."""
    return {task: int(row['exit']) for task, row in task_table(out).items()}


def task_table(out):
    """Returns task -> column -> text, from the table at the end of the launcher's output."""
    lines = [line.split() for line in out.splitlines()]
    header = ['task', 'host', 'status', 'steps', 'examples', 'seconds', 'exit']
    rows = lines[lines.index(header) + 1 :]
    return {row[0]: dict(zip(header, row, strict=False)) for row in rows}


def tasks_of(model_dir):
    """Returns task -> process id of the cluster's processes, from their environment."""
    found = {}
    for entry in os.listdir('/proc'):
        try:
            with open(f'/proc/{entry}/environ', 'rb') as file:
                variables = dict(item.split('=', 1) for item in file.read().decode().split('\0') if '=' in item)
            with open(f'/proc/{entry}/cmdline') as file:
                command = file.read()
        except (OSError, UnicodeDecodeError):
            continue
        if variables.get('TF_CONFIG') and f'--model_dir={model_dir}' in command:
            task = json.loads(variables['TF_CONFIG'])['task']
            found[f'{task["type"]}:{task["index"]}'] = int(entry)
    return found


@pytest.fixture
def cluster(user_project):
    """Returns a function that runs a cluster on the user's project; fails the test if a process stays behind."""
    (user_project / 'counting.py').write_text(COUNTING_MODULE)
    model_dir = user_project / 'M'

    def start(*arguments, **variables):
        arguments = ['--gin_file=my.gin', f'--model_dir={model_dir}', *arguments]
        return program.start(*arguments, cwd=user_project, **variables)

    start.model_dir = model_dir
    start.project = user_project
    yield start
    left = tasks_of(model_dir)
    for pid in left.values():
        os.kill(pid, signal.SIGKILL)
    assert not left


def wait_for_training(model_dir, seconds=100):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        records = [model_dir / 'run' / f'{job}-0.json' for job in ('chief', 'worker')]
        if (
            all(path.exists() and '"training"' in path.read_text() for path in records)
            and (model_dir / 'model.ckpt-0.index').exists()
        ):
            time.sleep(2)
            return
        time.sleep(0.2)
    raise AssertionError('the cluster does not train')


def test_trains_and_every_process_ends(cluster):
    result = program.finish(cluster(CLUSTER)).check()
    assert exit_codes(result.out) == {'chief:0': 0, 'worker:0': 0, 'ps:0': 0}
    summary = program.summary(cluster.model_dir)
    assert (summary['status'], summary['stopped_because'], summary['first_step']) == ('done', 'max_steps', 0)
    # Asynchronous workers each look at global_step after their own update: less than one step a task too many.
    assert 200 <= summary['final_step'] <= 201
    # Every step consumed one batch of 8, on whichever task.
    assert summary['examples'] == 8 * summary['final_step']
    assert summary['checkpoint'] == f'{cluster.model_dir}/model.ckpt-{summary["final_step"]}'
    (evaluation,) = summary['evaluations']
    assert (evaluation['step'], evaluation['examples']) == (summary['final_step'], 60)
    assert evaluation['metrics']['accuracy'] > 0.9
    assert any('input_context' in warning for warning in summary['warnings'])
    for task in ('chief-0', 'worker-0', 'ps-0'):
        assert json.loads((cluster.model_dir / 'run' / f'{task}.json').read_text())['state'] == 'done'
        assert (cluster.model_dir / 'run' / 'logs' / f'{task}.log').exists()

    # The same again: nothing to train, and no record of the first run keeps anybody waiting.
    result = program.finish(cluster(CLUSTER)).check()
    assert exit_codes(result.out) == {'chief:0': 0, 'worker:0': 0, 'ps:0': 0}
    summary = program.summary(cluster.model_dir)
    assert (summary['stopped_because'], summary['examples']) == ('nothing_to_do', 0)
    assert len(summary['evaluations']) == 1


def test_a_worker_trains_in_a_short_job_without_launcher(cluster):
    # Started together, as a cluster manager does: the worker must not sleep while the chief trains alone.
    ports = {job: f'127.0.0.1:{free_port()}' for job in ('chief', 'worker', 'ps')}
    cluster_config = {job: [address] for job, address in ports.items()}
    evaluator = {'cluster': cluster_config, 'task': {'type': 'evaluator', 'index': 0}}
    configs = [{'cluster': cluster_config, 'task': {'type': job, 'index': 0}} for job in ports] + [evaluator]
    processes = [cluster('--max_steps=2000', TF_CONFIG=json.dumps(config)) for config in configs]
    results = [program.finish(process).check() for process in processes]
    records = {
        job: json.loads((cluster.model_dir / 'run' / f'{job}-0.json').read_text()) for job in (*ports, 'evaluator')
    }
    assert {record['state'] for record in records.values()} == {'done'}
    assert records['worker']['examples'] > 0
    summary = program.summary(cluster.model_dir)
    assert summary['examples'] == 8 * summary['final_step']
    # The evaluator, which is not in "cluster", evaluates; the chief does not.
    assert summary['evaluations'][-1]['step'] == summary['final_step']
    assert "evaluation 'eval'" not in results[0].out


def test_evaluator_evaluates_the_last_checkpoint(cluster):
    result = program.finish(cluster(f'{CLUSTER},evaluator:1', '--max_steps=40')).check()
    assert set(exit_codes(result.out).values()) == {0}
    step = program.summary(cluster.model_dir)['final_step']
    log = (cluster.model_dir / 'run' / 'logs' / 'evaluator-0.log').read_text()
    assert log.count(f"evaluation 'eval' at step {step}:") == 1
    assert program.summary(cluster.model_dir)['evaluations'][-1]['step'] == step


def test_each_example_is_read_by_one_task(cluster):
    result = program.finish(
        cluster(
            *(CLUSTER, '--import_module=counting', '--gin_param=experiment.max_steps = None', '--mode=train'),
            '--gin_param=experiment.train_input_fn = @sharded_input_fn',
            f"--gin_param=sharded_input_fn.path = '{cluster.project}/read-'",
        )
    ).check()
    assert set(exit_codes(result.out).values()) == {0}
    # Sets, for the chief reads its first batch once more, before anything is written, to see that it is there.
    reads = [{int(n) for n in path.read_text().split()} for path in sorted(cluster.project.glob('read-*'))]
    assert len(reads[0]) == 120
    assert all(number % 2 == 0 for number in reads[0])
    numbers = sorted(number for read in reads for number in read)
    assert len(numbers) == len(set(numbers))
    summary = program.summary(cluster.model_dir)
    assert summary['stopped_because'] == 'end_of_input'
    assert summary['examples'] == 8 * summary['final_step']


def test_mistake_is_told_once_and_leaves_nothing(cluster):
    result = program.finish(cluster(CLUSTER, '--gin_param=experimnt.max_steps = 3')).check(2)
    assert result.err.count("did you mean 'experiment'") + result.out.count("did you mean 'experiment'") == 1
    assert not cluster.model_dir.exists()


def test_exception_in_the_model_ends_all(cluster):
    result = program.finish(
        cluster(CLUSTER, '--import_module=counting', '--gin_param=experiment.model_fn = @broken_model_fn')
    ).check(1)
    codes = exit_codes(result.out)
    assert codes['chief:0'] == 1
    assert set(codes.values()) <= {1, 138}
    assert "KeyError: 'no such column'" in result.out
    assert '--- ps:0' in result.err
    assert 'failed: KeyError' in result.err


@pytest.mark.parametrize('victim', ['ps:0', 'chief:0'])
def test_lost_peer_ends_all_with_138(cluster, victim):
    process = cluster(CLUSTER, '--max_steps=100000000', '--gin_param=trainer.peer_timeout = 15')
    wait_for_training(cluster.model_dir)
    os.kill(tasks_of(cluster.model_dir)[victim], signal.SIGKILL)
    result = program.finish(process, timeout=90).check(138)
    codes = exit_codes(result.out)
    assert codes.pop(victim) == 137
    assert set(codes.values()) == {138}
    assert f'lost {victim}' in result.out + result.err
    if victim != 'chief:0':
        summary = program.summary(cluster.model_dir)
        assert (summary['status'], summary['stopped_because']) == ('failed', 'error')
        assert f'lost {victim}' in summary['error']


def test_sigterm_saves_and_ends_all(cluster):
    process = cluster(CLUSTER, '--max_steps=100000000')
    wait_for_training(cluster.model_dir)
    process.send_signal(signal.SIGTERM)
    result = program.finish(process, timeout=60).check(143)
    assert exit_codes(result.out)['chief:0'] == 143
    summary = program.summary(cluster.model_dir)
    assert (summary['status'], summary['stopped_because']) == ('interrupted', 'signal')
    assert summary['checkpoint'].endswith(f'-{summary["final_step"]}')
    assert summary['examples'] == 8 * summary['final_step']


def test_tasks_end_when_the_launcher_is_killed(cluster):
    process = cluster(CLUSTER, '--max_steps=100000000')
    wait_for_training(cluster.model_dir)
    process.kill()
    process.communicate(timeout=20)
    deadline = time.monotonic() + 40
    while tasks_of(cluster.model_dir) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert not tasks_of(cluster.model_dir)


def test_a_peer_that_never_starts_is_named(user_project):
    config = {
        'cluster': {'chief': ['127.0.0.1:1'], 'worker': ['127.0.0.1:2'], 'ps': ['127.0.0.1:3']},
        'task': {'type': 'ps', 'index': 0},
    }
    config['cluster']['ps'] = [f'127.0.0.1:{free_port()}']
    result = program.run(
        *('--gin_file=my.gin', '--model_dir=M', '--gin_param=trainer.startup_timeout = 2'),
        cwd=user_project,
        TF_CONFIG=json.dumps(config),
    ).check(138)
    assert (
        'ps:0 gave up after 2 s (trainer.startup_timeout) waiting for chief:0 (127.0.0.1:1): not started' in result.err
    )


def free_port():
    import socket

    with socket.socket() as holder:
        holder.bind(('127.0.0.1', 0))
        return holder.getsockname()[1]
