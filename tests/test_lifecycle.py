"""Signals, and peers that are awaited, lost, failed or finished. Real processes are in tests/cluster/."""

import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from estimator_trainer import lifecycle as lifecycle_lib
from estimator_trainer.errors import RestartableError
from estimator_trainer.lifecycle import Lifecycle, Stop
from tests.lifecycle_job import CHIEF, PS, SECONDS, WORKER

# Signals.


@pytest.mark.parametrize(('number', 'want_code'), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_asks_who_looks_for_it_to_stop(job, number, want_code):
    job.lifecycle.graceful = True
    job.lifecycle._on_signal(number)
    assert job.lifecycle.stop == Stop('signal', want_code)
    assert job.lifecycle.signalled
    assert job.said == [f'{number.name}: stopping after this step, within 20 s; once more to end at once']
    assert job.aborts.empty()


def test_a_signal_ends_at_once_while_nobody_looks(job):
    with pytest.raises(SystemExit):
        job.lifecycle._on_signal(signal.SIGTERM)
    assert job.aborted() == ('SIGTERM: ended', 143)
    assert job.lifecycle.signalled


def test_the_second_signal_ends_at_once(job):
    job.lifecycle.graceful = True
    job.lifecycle._on_signal(signal.SIGINT)
    with pytest.raises(SystemExit):
        job.lifecycle._on_signal(signal.SIGTERM)
    assert job.aborted() == ('SIGTERM: ended', 143)


def test_a_signal_to_a_task_whose_chief_has_ended_is_the_first(job):
    job.lifecycle.graceful, job.lifecycle.stop = True, Stop('chief_ended', 0)
    job.lifecycle._on_signal(signal.SIGTERM)
    assert job.lifecycle.stop == Stop('signal', 143)
    assert job.aborts.empty()


def test_who_does_not_stop_within_the_grace_period_is_ended(job):
    job.settings(grace_period=0.05)
    job.lifecycle.graceful = True
    job.lifecycle._on_signal(signal.SIGTERM)
    assert job.aborted() == ('SIGTERM: not stopped within 0.05 s: ended', 143)


def test_who_has_stopped_is_not_ended(job):
    job.settings(grace_period=0.05)
    job.lifecycle.graceful = True
    job.lifecycle._on_signal(signal.SIGTERM)
    job.lifecycle.close()
    time.sleep(0.2)
    assert job.aborts.empty()


@pytest.mark.parametrize(
    ('training', 'fails', 'want_text'),
    [
        (True, False, 'SIGTERM: no step has ended within 0.02 s: saved M/model.ckpt-7'),
        (True, True, 'SIGTERM: not stopped within 0.05 s: ended; the last checkpoint is M/model.ckpt-5'),
        (False, False, 'SIGTERM: not stopped within 0.05 s: ended; the last checkpoint is M/model.ckpt-5'),
    ],
)
def test_a_step_that_does_not_end_is_saved_before_the_grace_period_is_over(job, training, fails, want_text):
    def save():
        if fails:
            raise OSError('the ps is gone')
        return 'saved M/model.ckpt-7'

    job.settings(grace_period=0.05)
    job.lifecycle.graceful, job.lifecycle.training, job.lifecycle.emergency_save = True, training, save
    job.lifecycle.last_words = lambda: '; the last checkpoint is M/model.ckpt-5'
    job.lifecycle._on_signal(signal.SIGTERM)
    assert job.aborted() == (want_text, 143)
    assert ('cannot save: the ps is gone' in job.said) == fails


def test_abort_tells_all_and_exits_whatever_fails(monkeypatch):
    events = []
    monkeypatch.setattr(lifecycle_lib.os, '_exit', lambda code: events.append(('exit', code)))
    lifecycle = Lifecycle(lambda message: events.append(('said', message)))

    def fail(message, exit_code):
        raise OSError('disk full')

    lifecycle.before_abort(fail)
    lifecycle.before_abort(lambda *args: events.append(args))
    lifecycle.abort('lost ps:0', 138)
    assert events == [('said', 'lost ps:0'), ('said', 'while ending: disk full'), ('lost ps:0', 138), ('exit', 138)]


# The start.


@pytest.mark.parametrize(
    ('task', 'started', 'want_missing'),
    [
        (CHIEF, [], 'ps:0 (127.0.0.1:3): not started'),
        (CHIEF, [PS], 'ps:0 (127.0.0.1:3): does not answer'),
        (WORKER, [PS], 'chief:0 (127.0.0.1:1): not started, ps:0 (127.0.0.1:3): does not answer'),
        (WORKER, [CHIEF, PS], 'ps:0 (127.0.0.1:3): does not answer'),
        (PS, [WORKER], 'chief:0 (127.0.0.1:1): not started'),
    ],
)
def test_the_wait_for_peers_has_a_deadline_and_names_who_is_missing(job, task, started, want_missing):
    job.settings(startup_timeout=0.05)
    job.watch(task)
    for peer in started:
        job.ledger(peer)
    with pytest.raises(RestartableError) as caught:
        job.lifecycle.wait_for_peers(job.topology(task))
    assert str(caught.value) == (f'{task} gave up after 0.05 s (trainer.startup_timeout) waiting for {want_missing}')


def test_the_wait_ends_when_the_peers_answer(job):
    with socket.create_server(('127.0.0.1', 0)) as server:
        job.settings(startup_timeout=SECONDS)
        job.cluster['ps'] = (f'127.0.0.1:{server.getsockname()[1]}',)
        job.watch(CHIEF)
        threading.Timer(0.1, job.ledger, [PS]).start()
        begin = time.monotonic()
        job.lifecycle.wait_for_peers(job.topology(CHIEF))
        assert time.monotonic() - begin > 0.05


@pytest.mark.parametrize(('task', 'want'), [(CHIEF, True), (WORKER, False)])
def test_a_server_that_is_not_ours_serves_as_ps(job, monkeypatch, task, want):
    monkeypatch.setattr(lifecycle_lib, '_SECONDS_TO_BEGIN_A_LEDGER', 0.1)
    with socket.create_server(('127.0.0.1', 0)) as server:
        job.settings(startup_timeout=0.5)
        job.cluster['ps'] = (f'127.0.0.1:{server.getsockname()[1]}',)
        job.watch(task)
        if want:
            job.lifecycle.wait_for_peers(job.topology(task))
            return
        with pytest.raises(RestartableError, match=r'waiting for chief:0 \(127.0.0.1:1\): not started$'):
            job.lifecycle.wait_for_peers(job.topology(task))


def test_the_wait_ends_with_a_stop(job):
    job.watch(PS)
    job.lifecycle.stop = Stop('signal', 143)
    job.lifecycle.wait_for_peers(job.topology(PS))


def test_a_wait_says_what_it_waits_for(job, monkeypatch):
    monkeypatch.setattr(lifecycle_lib, '_REPORT_SECONDS', 0.1)
    assert not job.lifecycle.wait_until(lambda: False, 0.25, lambda: ['ps:0', 'ps:1'])
    assert job.said[0] == 'waiting for ps:0, ps:1 (0 of 0.25 s)'
    assert 1 <= len(job.said) <= 2


def test_a_forked_child_has_signals_of_its_own():
    code = (
        'import multiprocessing, time\n'
        'from estimator_trainer.lifecycle import Lifecycle\n'
        'Lifecycle(print).watch_signals()\n'
        "child = multiprocessing.get_context('fork').Process(target=time.sleep, args=(60,))\n"
        'child.start()\n'
        'time.sleep(0.5)\n'
        'child.terminate()\n'
        'child.join(10)\n'
        "print('child', child.exitcode)\n"
    )
    process = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, timeout=60)
    assert process.stdout == 'child -15\n', process.stderr
    assert process.returncode == 0
