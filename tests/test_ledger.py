"""What a task sees of its peers' records: those of this run, whole ones, and nothing else."""

import json

import pytest

from estimator_trainer.ledger import DONE, FAILED, STARTING, TRAINING, Ledger
from estimator_trainer.topology import Task
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
