"""Peers of a task that are lost, failed or finished, by their records alone. Real processes are in tests/cluster/."""

import json
import time

import pytest

from estimator_trainer import lifecycle
from estimator_trainer.ledger import DONE, ENDING, FAILED, TRAINED, TRAINING, Ledger
from estimator_trainer.lifecycle import Stop
from tests.lifecycle_job import CHIEF, PS, WORKER


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


# Tasks that make each step together.


def test_who_is_started_anew_is_lost_to_those_who_step_with_it(job):
    del job.cluster['ps']
    job.lifecycle.training = True
    job.watch(CHIEF)
    job.ledger(WORKER)
    job.until(lambda: job.own.peer(WORKER))
    time.sleep(0.2)  # so that it has been seen
    assert job.aborts.empty()
    job.ledger(WORKER)
    assert job.aborted() == ('worker:0 was started anew, and each step needs what it was before', 138)


def test_no_step_is_told_and_has_an_end(job, monkeypatch):
    monkeypatch.setattr(lifecycle, '_SECONDS_BETWEEN_STEPS', 0.1)
    job.settings(step_timeout=0.5)
    job.lifecycle.steps_together = True
    steps = iter(range(30))
    job.watch(CHIEF, lambda: {'steps': next(steps, 29)})  # a step with each heartbeat, then no more
    message, code = job.aborted()
    assert next(steps, None) is None
    assert message.startswith('no step for ')
    assert 'after 29 steps, although no task is lost: gave up after 0.5 s (trainer.step_timeout)' in message
    assert code == 138
    assert any(line.endswith(' of 0.5 s)') for line in job.said)


def test_who_ends_by_itself_is_lost_to_those_who_step_with_it(job, monkeypatch):
    monkeypatch.setattr(lifecycle, '_SECONDS_FOR_THE_SAME_STEP', 0.2)
    del job.cluster['ps']
    job.watch(CHIEF)
    job.ledger(WORKER).write(state=DONE)
    time.sleep(0.5)
    assert job.aborts.empty()  # when the last step is over that is as it should be
    job.lifecycle.steps_together = True
    assert job.aborted() == ('worker:0 has ended its training, and this task waits for it in a step', 138)
