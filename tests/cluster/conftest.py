"""A user's project in which clusters run, and a check that no test leaves a process behind."""

import os
import signal

import pytest

from estimator_trainer.testing import LocalCluster

COUNTING_MODULE = """
import gin
import tensorflow as tf
import my_model


@gin.configurable
def sharded_input_fn(examples=240, num_input_pipelines=1, input_pipeline_id=0):
    # Each example has its number as a feature; a pipeline reads those that leave its own remainder.
    numbers = tf.data.Dataset.range(examples).shard(num_input_pipelines, input_pipeline_id)

    def example(n):
        x = tf.reshape(tf.cast(n, tf.float32), [1])
        return {'x': tf.concat([x, 1 - x], 0) / 240}, tf.cast(n > 120, tf.float32)

    return numbers.map(example).batch(8)


@gin.configurable
def broken_model_fn(features, labels, mode):
    raise KeyError('no such column')


@gin.configurable
def broken_in_training_model_fn(features, labels, mode):
    raise KeyError('no such column in training') if mode == 'train' else KeyError('no such column')
"""


@pytest.fixture
def cluster(user_project):
    """Returns a function that starts a cluster on the user's project; fails the test if a process stays behind."""
    (user_project / 'counting.py').write_text(COUNTING_MODULE)
    model_dir = user_project / 'M'
    clusters = []

    def start(spec, *arguments, **options):
        arguments = ['--gin_file=my.gin', *arguments]
        clusters.append(LocalCluster(spec, *arguments, model_dir=model_dir, cwd=user_project, **options))
        return clusters[-1]

    start.model_dir = model_dir
    start.project = user_project
    yield start
    left = processes_in(model_dir)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    for each in clusters:
        each.launcher.communicate()
    assert not left


def processes_in(model_dir):
    """Returns the ids of the processes that were started for a model_dir."""
    found = []
    for entry in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{entry}/cmdline') as file:
                command = file.read()
            with open(f'/proc/{entry}/stat') as file:
                state = file.read().rpartition(')')[2].split()[0]
        except OSError:
            continue
        if f'--model_dir={model_dir}\0' in command + '\0' and state != 'Z' and int(entry) != os.getpid():
            found.append(int(entry))
    return found


def end_after_the_others(job, victim, others):
    """Kills a stopped task once the others have ended: the launcher would let it have a minute first."""
    for task in others:
        job.wait_until(task, 'failed', seconds=60)
    job.signal(victim, signal.SIGKILL)


def check_exit_codes_after(job, victim, number, want_codes):
    """Sends a signal to a task, checks the exit codes of those in `want_codes` (task -> code), returns the Result."""
    job.signal(victim, number)
    if number == signal.SIGSTOP:
        end_after_the_others(job, victim, want_codes)
    result = job.finish(timeout=100)
    codes = {task: row['exit'] for task, row in result.tasks.items()}
    assert {task: codes[task] for task in want_codes} == {task: str(code) for task, code in want_codes.items()}
    return result
