"""Signals, and peers that are awaited, lost, failed or finished. Real processes are in tests/cluster/."""

import json
import queue
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from estimator_trainer import lifecycle as lifecycle_lib
from estimator_trainer.errors import RestartableError
from estimator_trainer.ledger import DONE, ENDING, FAILED, TRAINED, TRAINING, Ledger
from estimator_trainer.lifecycle import Lifecycle, Stop
from estimator_trainer.settings import Settings
from estimator_trainer.topology import Task, Topology
from tests.memory_files import MemoryFiles

SECONDS = 10  # Far more than any of the tests takes.
CHIEF, WORKER, PS = Task('chief', 0), Task('worker', 0), Task('ps', 0)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(lifecycle_lib, '_POLL_SECONDS', 0.01)
    monkeypatch.setattr(lifecycle_lib, '_HEARTBEAT_SECONDS', 0.02)
    monkeypatch.setattr(lifecycle_lib, '_SAME_SIGNAL_SECONDS', 0.0)


class Job:
    """A cluster's ledgers in memory, and the lifecycle of one of its tasks."""

    def __init__(self, monkeypatch):
        self.files = MemoryFiles()
        self.said = []
        self.aborts = queue.Queue()
        self.lifecycle = Lifecycle(self.said.append)
        monkeypatch.setattr(self.lifecycle, 'abort', self._abort)
        self.cluster = {'chief': ('127.0.0.1:1',), 'worker': ('127.0.0.1:2',), 'ps': ('127.0.0.1:3',)}

    def _abort(self, message, exit_code):
        self.aborts.put((message, exit_code))
        self.lifecycle.close()  # Ends the threads, as the end of the process would.
        if threading.current_thread() is threading.main_thread():
            raise SystemExit

    def aborted(self):
        return self.aborts.get(timeout=SECONDS)

    def settings(self, **fields):
        self.lifecycle.settings = Settings(**fields)

    def ledger(self, task):
        ledger = Ledger('M/run', task, 'r1', self.files, self.topology(task).tasks)
        ledger.begin()
        return ledger

    def topology(self, task):
        return Topology(self.cluster, task, 'r1')

    def watch(self, task):
        """Has the lifecycle watch the peers of `task`."""
        self.own = self.ledger(task)
        self.lifecycle.watch_peers(self.topology(task), self.own)

    def until(self, condition):
        """Waits for what a thread does."""
        end = time.monotonic() + SECONDS
        while not condition() and time.monotonic() < end:
            time.sleep(0.005)
        assert condition()


@pytest.fixture
def job(monkeypatch):
    job = Job(monkeypatch)
    yield job
    job.lifecycle.close()


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


# Peers.


def test_heartbeats_are_sent_until_the_end_and_one_that_fails_is_only_said(job, monkeypatch):
    job.watch(PS)
    chief = job.ledger(CHIEF)
    first = chief.peer(PS)['beat']
    job.until(lambda: chief.peer(PS)['beat'] > first + 2)

    def fail(path, text):
        raise OSError('no space')

    monkeypatch.setattr(job.files, 'write', fail)
    job.until(lambda: 'cannot write the heartbeat: no space' in job.said)


def test_who_sees_another_process_that_is_the_same_task_and_began_before_ends(job):
    other = Ledger('M/run', PS, 'r1', job.files, ())  # starts first, writes later
    job.watch(PS)
    other.begin()
    message, code = job.aborted()
    assert (message.startswith('error: model_dir is in use: ps:0 is process '), code) == (True, 2)
    assert json.loads(job.files['M/run/ps-0.json'])['incarnation'] == other.own()['incarnation']


def test_a_silent_peer_is_lost(job):
    job.settings(peer_timeout=0.1, restart_exit_code=75)
    job.watch(WORKER)
    job.ledger(CHIEF).write(host='node-1')
    message, code = job.aborted()
    assert message.startswith('lost chief:0 on node-1: no heartbeat for ')
    assert code == 75


def test_a_peer_that_sends_heartbeats_is_not_lost(job):
    job.settings(peer_timeout=1)
    job.watch(WORKER)
    chief = job.ledger(CHIEF)
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        chief.write()
        time.sleep(0.05)
    assert job.aborts.empty()


@pytest.mark.parametrize(
    ('task', 'peer', 'state'),
    [
        (WORKER, CHIEF, DONE),  # Who is done sends no heartbeats.
        (CHIEF, WORKER, TRAINING),  # A chief goes on without a worker.
        (PS, WORKER, FAILED),
        (CHIEF, PS, None),  # Who has not started yet is awaited by wait_for_peers.
    ],
)
def test_whose_silence_is_no_loss(job, task, peer, state):
    job.settings(peer_timeout=0.05)
    job.lifecycle.training = True
    job.watch(task)
    if state:
        job.ledger(peer).write(state=state)
    time.sleep(0.3)
    assert job.aborts.empty()


@pytest.mark.parametrize(('task', 'peer'), [(CHIEF, PS), (WORKER, CHIEF), (WORKER, PS), (PS, CHIEF)])
def test_a_peer_that_failed_ends_the_task_with_its_cause(job, task, peer):
    job.watch(task)
    job.ledger(peer).write(state=FAILED, cause='KeyError: no such column')
    assert job.aborted() == (f'{peer} failed: KeyError: no such column', 138)


def test_who_has_ended_is_not_ended_by_a_peer(job):
    job.watch(PS)
    job.lifecycle.close()
    job.ledger(CHIEF).write(state=FAILED)
    time.sleep(0.1)
    assert job.aborts.empty()


@pytest.mark.parametrize('state', [ENDING, TRAINED, DONE])
@pytest.mark.parametrize('task', [WORKER, PS])
def test_the_end_of_the_chief_stops_a_task_in_good_order(job, task, state):
    job.lifecycle.training = True
    job.watch(task)
    job.ledger(CHIEF).write(state=state)
    job.until(lambda: job.lifecycle.stop is not None)
    assert job.lifecycle.stop == Stop('chief_ended', 0)
    assert not job.lifecycle.signalled
    assert job.aborts.empty()


def test_a_worker_that_is_blocked_when_the_chief_has_ended_is_ended_as_done(job):
    job.settings(grace_period=0.05)
    job.lifecycle.training = True
    job.watch(WORKER)
    chief = job.ledger(CHIEF)
    chief.write(state=ENDING)
    message, code = job.aborted()
    assert message.endswith(': nothing left to do')
    assert code == 0
    record = chief.peer(WORKER)
    assert (record['state'], record['exit']) == (DONE, 0)


def test_a_peer_whose_record_vanishes_is_lost(job):
    job.settings(peer_timeout=0.2)
    job.watch(WORKER)
    chief = job.ledger(CHIEF)
    chief.write(state=TRAINING)
    time.sleep(0.1)
    job.files.clear()
    message, code = job.aborted()
    assert message.startswith('lost chief:0 on ')
    assert code == 138


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
