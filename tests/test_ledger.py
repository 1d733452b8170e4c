"""What a task sees of its peers' records: those of this run, whole ones, and nothing else."""

import json
import os
import socket
import threading

import pytest

from estimator_trainer import ledger as ledger_lib
from estimator_trainer.ledger import DONE, ENDING, FAILED, STARTING, TRAINING, Ledger
from estimator_trainer.topology import LOCAL, Task
from tests.memory_files import MemoryFiles

CHIEF, PS = Task('chief', 0), Task('ps', 0)


def ledger(files, task, run_id=''):
    made = Ledger('M/run', task, run_id, files, (CHIEF, PS))
    made.begin()
    return made


@pytest.fixture
def files():
    return MemoryFiles()


def test_a_task_writes_its_own_file_only(files):
    ledger(files, CHIEF).write(state=TRAINING, step=3)
    assert list(files) == ['M/run/chief-0.json']
    record = json.loads(files['M/run/chief-0.json'])
    assert (record['task'], record['state'], record['step']) == ('chief:0', TRAINING, 3)


def test_each_write_keeps_the_fields_and_is_a_heartbeat(files):
    chief, ps = ledger(files, CHIEF), ledger(files, PS)
    chief.write(state=TRAINING, step=3)
    first = ps.peer(CHIEF)
    chief.write()
    second = ps.peer(CHIEF)
    assert second['beat'] == first['beat'] + 1
    assert (second['state'], second['step']) == (TRAINING, 3)
    assert second['incarnation'] == first['incarnation']


@pytest.mark.parametrize('run_id', ['', 'r1'])
def test_a_peer_is_seen_whoever_starts_first(files, run_id):
    first = ledger(files, PS, run_id)
    assert first.peer(CHIEF) == {}
    second = ledger(files, CHIEF, run_id)
    assert first.peer(CHIEF)['state'] == STARTING
    first.write()  # Without a run id, the heartbeat tells the record of a living peer from one of an earlier run.
    assert second.peer(PS)['state'] == STARTING


@pytest.mark.parametrize(
    ('earlier_id', 'run_id'), [('', ''), ('r1', 'r2'), ('', 'r2'), ('r1', '')], ids=lambda run_id: run_id or 'none'
)
def test_the_record_of_an_earlier_run_is_not_seen(files, earlier_id, run_id):
    ledger(files, CHIEF, earlier_id).write(state=FAILED, cause='lost')
    ps = ledger(files, PS, run_id)
    assert ps.peer(CHIEF) == {}
    ledger(files, CHIEF, run_id)
    assert ps.peer(CHIEF)['state'] == STARTING
    assert 'cause' not in ps.peer(CHIEF)


@pytest.mark.parametrize('text', ['', '{"task": "chief:0", "sta', '[]', 'null', '"chief"'])
def test_what_is_no_record_is_no_news(files, text):
    ps = ledger(files, PS)
    ledger(files, CHIEF)
    before = ps.peer(CHIEF)
    assert before
    files['M/run/chief-0.json'] = text
    assert ps.peer(CHIEF) == before


def test_a_broken_old_record_does_not_hide_the_new_one(files):
    files['M/run/chief-0.json'] = '{"task": "chief:0", "sta'
    ps = ledger(files, PS)
    ledger(files, CHIEF)
    assert ps.peer(CHIEF)['state'] == STARTING


def test_half_a_record_is_no_news():
    files = MemoryFiles()
    chief, ps = ledger(files, CHIEF), ledger(files, PS)
    ps.write(state=DONE, examples=320)
    assert chief.peer(PS)['examples'] == 320
    files['M/run/ps-0.json'] = files['M/run/ps-0.json'][:20]
    assert chief.peer(PS)['examples'] == 320
    files['M/run/ps-0.json'] = ''
    assert chief.peer(PS)['state'] == DONE
    del files['M/run/ps-0.json']
    assert chief.peer(PS) == {}


@pytest.mark.parametrize(('state', 'want_took_over'), [(TRAINING, True), (DONE, False), (FAILED, False)])
def test_a_task_that_was_killed_while_it_trained_has_lost_its_count(state, want_took_over):
    files = MemoryFiles()
    chief = ledger(files, CHIEF)
    ledger(files, PS).write(state=state, examples=320)
    ledger(files, PS)
    took_over = chief.peer(PS).get('took_over')
    assert (took_over is not None and took_over > chief.started) == want_took_over


# Another process that is this task.


def unbegun(files, task=CHIEF):
    return Ledger('M/run', task, '', files, (CHIEF, PS))


def record_of(state, **fields):
    record = {'task': 'chief:0', 'host': 'elsewhere', 'pid': 1, 'incarnation': 'x', 'beat': 3, 'state': state}
    return record | {'time': 0.0, 'started': 0.0} | fields


@pytest.mark.parametrize('state', [STARTING, TRAINING, ENDING])
@pytest.mark.parametrize(('beats', 'want'), [(True, True), (False, False)])
def test_only_a_heartbeat_tells_that_a_task_on_another_host_lives(files, monkeypatch, state, beats, want):
    monkeypatch.setattr(ledger_lib, '_SECONDS_TO_SEE_A_HEARTBEAT', 1.0)
    files['M/run/chief-0.json'] = json.dumps(record_of(state))
    made, said = unbegun(files), []
    later = json.dumps(record_of(state, beat=4))
    if beats:
        threading.Timer(0.2, lambda: files.write('M/run/chief-0.json', later)).start()
    assert bool(made.occupied(said.append)) == want
    assert said == ['looking for 1 s whether chief:0 on elsewhere still uses M/run']


@pytest.mark.parametrize(
    'record',
    [
        {},
        record_of(DONE),
        record_of(FAILED),
        record_of(TRAINING, host=socket.gethostname(), pid=os.getpid()),  # the first process of a container
        record_of(TRAINING, host=socket.gethostname(), pid=2**22 + 1),  # no process has such an id
    ],
)
def test_who_has_ended_is_not_waited_for(files, record):
    files['M/run/chief-0.json'] = json.dumps(record)
    assert unbegun(files).occupied(pytest.fail) == {}


def test_of_two_that_started_at_once_the_first_stays(files):
    first, second = unbegun(files), unbegun(files)
    second.begin()
    first.begin()
    assert first.rival() == {}
    assert second.rival()['incarnation'] == first.own()['incarnation']
    second.retire()
    second.write(state=FAILED)
    assert json.loads(files['M/run/chief-0.json'])['incarnation'] == first.own()['incarnation']


def test_a_record_left_by_an_earlier_process_is_no_rival(files):
    unbegun(files).begin()
    made = unbegun(files)
    assert made.rival() == {}
    made.begin()
    assert made.rival() == {}


def test_nothing_is_written_before_the_beginning(files):
    made = unbegun(files)
    made.write(state=TRAINING)
    assert files == {}
    made.begin()
    assert json.loads(files['M/run/chief-0.json'])['state'] == TRAINING


def test_who_trains_alone_is_the_chief_for_others(files):
    Ledger('M/run', LOCAL, '', files, ()).begin()
    assert json.loads(files['M/run/chief-0.json'])['task'] == 'local:0'


def test_the_record_of_an_earlier_run_can_be_accepted(files):
    ledger(files, CHIEF).write(state=DONE)
    ps = ledger(files, PS)
    assert (ps.peer(CHIEF), ps.old(CHIEF)['state']) == ({}, DONE)
    ps.accept(CHIEF)
    assert (ps.peer(CHIEF)['state'], ps.old(CHIEF)) == (DONE, {})
