"""What a person sees of a run of one process, and how signals and threads of the user end it."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

from tests import program

pytestmark = pytest.mark.once('newest')


def test_a_run_prints_our_own_lines_only(user_project):
    result = program.run('--gin_file=my.gin', '--model_dir=M', cwd=user_project).check()
    assert result.err == ''
    want_lines = [
        r'estimator_trainer \S+, TensorFlow \S+: train_and_evaluate my\.gin',
        r'  model_dir  M \(new\)',
        r'  strategy   none \(auto: one process, no GPU\)',
        r'  until      step 200',
        r'  evaluation at every checkpoint \(each 600 s\), and at the end',
        r'  eval batch 8 examples a step',
        r'  batch      8 examples a step',
        r'step 100/200 \| loss \S+ \| \S+ steps/s \| \S+ examples/s \| ETA 0:00:\d\d',
        r'step 200/200 \| loss \S+ \| \S+ steps/s \| \S+ examples/s \| ETA 0:00:00',
        r"evaluation 'eval' at step 200: accuracy \S+, loss \S+, loss/batch_mean \S+ \(60 examples\)",
        r'done \(max_steps\)',
        r'  steps      0 -> 200 in \S+ s, \S+ steps/s',
        r'  examples   1,600',
        r"  evaluation 'eval' at step 200: accuracy \S+, loss \S+, loss/batch_mean \S+ \(60 examples\)",
        r'  checkpoint M/model\.ckpt-200',
        r'  summary    M/run/summary\.json',
    ]
    lines = result.out.splitlines()
    assert len(lines) == len(want_lines), result.out
    for line, want_line in zip(lines, want_lines, strict=True):
        assert re.fullmatch(want_line, line), line


def test_verbosity_brings_the_dependencies_lines_back_once(user_project):
    arguments = ['--gin_file=my.gin', '--model_dir=M', '--max_steps=5', '--verbosity=0']
    assert program.run(*arguments, cwd=user_project).check().err.count('Saving checkpoints for 5 into') == 1


def test_no_line_twice_when_a_user_module_configures_logging(user_project):
    (user_project / 'logger.py').write_text(
        'import logging\nimport tensorflow as tf\nlogging.basicConfig(level=logging.INFO)\n'
        "tf.compat.v1.logging.warning('from the user')\n"
    )
    arguments = ['--gin_file=my.gin', '--import_module=logger', '--model_dir=M', '--max_steps=5']
    cases = {'plain': arguments, 'info': [*arguments, '--verbosity=0'], 'also': [*arguments, '--alsologtostderr']}
    for name, result in program.run_forked(cases, user_project).items():
        assert result.check().err.count('from the user') == 1, (name, result.err)


def test_progress_bar_on_a_terminal(user_project):
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 100, 0, 0))
    process = subprocess.Popen(
        [sys.executable, '-m', 'estimator_trainer', '--gin_file=my.gin', '--model_dir=M', '--max_steps=300'],
        cwd=user_project,
        env=program.environment(COLUMNS='100'),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    written = b''
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        try:
            part = os.read(master, 4096)
        except OSError:  # the program has closed the terminal
            break
        written += part
    assert process.wait(timeout=20) == 0
    text = written.decode()
    assert re.search(r'\d+%\|.*\| \d+/300 \[', text), text
    assert 'step 100/300 |' not in text
    assert 'done (max_steps)' in text


def test_a_thread_of_the_user_does_not_keep_the_job(user_project):
    (user_project / 'sleeper.py').write_text(
        'import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()\n'
    )
    arguments = ['--gin_file=my.gin', '--import_module=sleeper', '--model_dir=M', '--max_steps=5']
    program.run(*arguments, cwd=user_project, timeout=90).check()


def test_training_goes_on_when_nobody_reads_its_output(user_project):
    process = program.start('--gin_file=my.gin', '--model_dir=M', cwd=user_project)
    process.stdout.close()
    assert process.wait(timeout=100) == 0, process.stderr.read()
    process.stderr.close()
    assert program.summary(user_project / 'M')['status'] == 'done'


@pytest.mark.parametrize(('signal_name', 'want_code'), [('SIGTERM', 143), ('SIGINT', 130)])
def test_a_signal_saves_and_ends(user_project, signal_name, want_code):
    arguments = ['--gin_file=my.gin', '--model_dir=M', '--max_steps=100000000']
    process = program.start(*arguments, cwd=user_project)
    events = user_project / 'M' / 'model.ckpt-0.index'
    deadline = time.monotonic() + 100
    while not events.exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(1)
    # Twice within a moment, as from `timeout`, is one request.
    process.send_signal(getattr(signal, signal_name))
    process.send_signal(getattr(signal, signal_name))
    result = program.finish(process, timeout=30).check(want_code)
    summary = program.summary(user_project / 'M')
    assert f'{signal_name}: stopping after this step' in result.err
    assert (summary['status'], summary['stopped_because']) == ('interrupted', 'signal')
    assert summary['final_step'] > 0
    assert summary['examples'] == 8 * summary['final_step']
    assert summary['checkpoint'] == f'M/model.ckpt-{summary["final_step"]}'


HANGING_INPUT = """
import time

import gin
import tensorflow as tf


@gin.configurable
def hanging_input_fn():
    def examples():
        for number in range(6 * 8):
            yield {'x': [number / 48, 1.0]}, number % 2
        time.sleep(1000)

    kinds = ({'x': tf.TensorSpec([2], tf.float32)}, tf.TensorSpec([], tf.float32))
    return tf.data.Dataset.from_generator(examples, output_signature=kinds).batch(8)
"""


def test_a_signal_in_a_step_that_does_not_end_saves_in_the_middle_of_it(user_project):
    (user_project / 'hanging.py').write_text(HANGING_INPUT)
    process = program.start(
        *('--gin_file=my.gin', '--model_dir=M', '--import_module=hanging', '--gin_param=trainer.grace_period = 10'),
        '--gin_param=experiment.train_input_fn = @hanging_input_fn',
        cwd=user_project,
    )
    record = user_project / 'M' / 'run' / 'chief-0.json'
    deadline = time.monotonic() + 100
    while not (record.exists() and '"steps": 6,' in record.read_text()) and time.monotonic() < deadline:
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    result = program.finish(process, timeout=60).check(143)
    assert 'SIGTERM: no step has ended within 4 s: saved M/model.ckpt-6 in the middle of it' in result.err, result.err
    summary = program.summary(user_project / 'M')
    assert (summary['status'], summary['final_step'], summary['checkpoint']) == ('interrupted', 6, 'M/model.ckpt-6')
    assert 'in the middle of it' in json.loads(record.read_text())['cause']
    program.run('--gin_file=my.gin', '--model_dir=M', '--max_steps=8', cwd=user_project).check()
    assert program.summary(user_project / 'M')['restored_from'] == 'M/model.ckpt-6'
