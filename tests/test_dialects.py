"""TF_CONFIG as launchers write it, and one-line errors for what is wrong in it."""

import json

import pytest

from estimator_trainer.dialects import from_environment
from estimator_trainer.errors import UserError
from estimator_trainer.topology import Topology

CLUSTER = {'chief': ['a:1'], 'worker': ['b:1', 'b:2'], 'ps': ['c:1']}


def parse(text):
    return from_environment({'TF_CONFIG': text})


def parse_json(cluster=CLUSTER, task=None, **more):
    config = {'cluster': cluster, 'task': {'type': 'ps', 'index': 0} if task is None else task, **more}
    return parse(json.dumps(config))


def test_no_tf_config_is_a_local_process():
    assert from_environment({}) == Topology()


def test_the_environment_is_that_of_the_process(monkeypatch):
    monkeypatch.setenv('TF_CONFIG', json.dumps({'cluster': CLUSTER, 'task': {'type': 'ps', 'index': 0}}))
    assert str(from_environment().task) == 'ps:0'


@pytest.mark.parametrize(
    'text',
    [
        '',
        ' \n',
        '{}',
        '{"cluster": {}}',
        '{"cluster": null, "task": null}',
        '{"task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["b:1"]}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"chief": ["a:1"], "worker": []}, "task": {"type": "chief", "index": 0}}',
        '{"cluster": {"master": ["a:1"]}, "task": {"type": "master", "index": 0}}',
    ],
)
def test_who_has_no_peers_is_a_local_process(text):
    assert parse(text) == Topology()


@pytest.mark.parametrize(
    ('task', 'want_task'),
    [
        ({'type': 'chief', 'index': 0}, 'chief:0'),
        ({'type': 'worker', 'index': 1}, 'worker:1'),
        ({'type': 'worker', 'index': '1'}, 'worker:1'),
        ({'type': 'ps'}, 'ps:0'),
        ({'type': 'ps', 'index': 0, 'trial': '7'}, 'ps:0'),
        ({'type': 'master', 'index': 0}, 'chief:0'),
        ({'type': 'evaluator', 'index': 0}, 'evaluator:0'),
    ],
)
def test_task(task, want_task):
    found = parse_json(task=task)
    assert str(found.task) == want_task
    assert found.cluster == {job: tuple(addresses) for job, addresses in CLUSTER.items()}


def test_master_is_the_chief():
    cluster = {'master': ['a:1'], 'ps': ['c:1']}
    assert parse_json(cluster, {'type': 'master', 'index': 0}).is_chief
    assert parse_json(cluster).cluster == {'chief': ('a:1',), 'ps': ('c:1',)}


def test_ipv6_addresses():
    assert parse_json({'chief': ['[::1]:1'], 'ps': ['[::1]:2']}).cluster['chief'] == ('[::1]:1',)


@pytest.mark.parametrize(('more', 'want_run_id'), [({}, ''), ({'run_id': 'r1'}, 'r1'), ({'run_id': 7}, '7')])
def test_run_id(more, want_run_id):
    assert parse_json(**more).run_id == want_run_id


def test_an_evaluator_outside_the_cluster_does_not_take_the_evaluation_from_the_chief():
    assert not parse_json(task={'type': 'chief', 'index': 0}).has_evaluator
    assert parse_json({**CLUSTER, 'evaluator': ['d:1']}, {'type': 'chief', 'index': 0}).has_evaluator


@pytest.mark.parametrize('cluster', [{'chief': ['a:1']}, {'worker': ['a:1']}])
def test_an_evaluator_beside_a_single_task_does_not_train(cluster):
    # As a local process it would write its own checkpoints over the other's.
    with pytest.raises(UserError, match='the cluster needs'):
        parse_json(cluster, {'type': 'evaluator', 'index': 0})


@pytest.mark.parametrize(
    ('text', 'want_texts'),
    [
        ('{cluster: }', ['TF_CONFIG is not JSON', 'line 1 column 2', "starts with '{cluster: }'"]),
        ("{'cluster': {}}", ['TF_CONFIG is not JSON']),
        ('[1]', ['expected a JSON object with "cluster" and "task"', "'[1]'"]),
        ('"chief"', ['expected a JSON object']),
        ('null', ['expected a JSON object']),
    ],
)
def test_what_is_no_tf_config(text, want_texts):
    with pytest.raises(UserError) as caught:
        parse(text)
    for want_text in want_texts:
        assert want_text in str(caught.value)


@pytest.mark.parametrize(
    ('cluster', 'want_texts'),
    [
        ([1], ['"cluster": expected job names', '[1]']),
        ({**CLUSTER, 'wroker': ['b:1']}, ["unknown job 'wroker'", "did you mean 'worker'?"]),
        ({**CLUSTER, 'ps': 'c:1'}, ["'ps': expected a list", "'c:1'"]),
        ({**CLUSTER, 'ps': [1]}, ["'ps': expected a list", '[1]']),
        ({**CLUSTER, 'ps': ['c']}, ['\'ps\': expected "host:port"', "'c'"]),
        ({**CLUSTER, 'ps': [':1']}, ["':1'"]),
        ({**CLUSTER, 'ps': ['c:']}, ["'c:'"]),
        ({**CLUSTER, 'ps': ['c:http']}, ["'c:http'"]),
        ({'chief': ['a:1'], 'worker': ['b:1']}, ['needs at least one ps']),
        ({**CLUSTER, 'master': ['m:1'], 'chief': []}, None),
        ({**CLUSTER, 'master': ['m:1']}, ["'master'", "'chief'"]),
    ],
)
def test_clusters(cluster, want_texts):
    if want_texts is None:
        assert parse_json(cluster).cluster['chief'] == ('m:1',)
        return
    with pytest.raises(UserError) as caught:
        parse_json(cluster, {'type': 'chief', 'index': 0})
    for want_text in want_texts:
        assert want_text in str(caught.value)


@pytest.mark.parametrize(
    ('task', 'want_texts'),
    [
        ('', ['"task": expected {"type": .., "index": ..}', 'found ""']),
        ([], ['found []']),
        ({'index': 0}, ['found {"index": 0}']),
        ({'type': 'wroker', 'index': 0}, ['"type": \'wroker\' is not in "cluster"', 'expected chief, worker, ps']),
        ({'type': None, 'index': 0}, ['"type": None is not in "cluster"']),
        ({'type': 'worker', 'index': 2}, ['worker 2 does not exist', 'worker 0 to 1']),
        ({'type': 'evaluator', 'index': 1}, ['evaluator 1 does not exist']),
        ({'type': 'worker', 'index': -1}, ['"index": expected a number from 0, found -1']),
        ({'type': 'worker', 'index': '-1'}, ["found '-1'"]),
        ({'type': 'worker', 'index': 'one'}, ["found 'one'"]),
        ({'type': 'worker', 'index': 1.0}, ['found 1.0']),
        ({'type': 'worker', 'index': True}, ['found True']),
        ({'type': 'worker', 'index': None}, ['found None']),
    ],
)
def test_what_is_no_task(task, want_texts):
    with pytest.raises(UserError) as caught:
        parse_json(task=task)
    for want_text in want_texts:
        assert want_text in str(caught.value)


def test_a_cluster_without_a_task_is_refused():
    with pytest.raises(UserError, match=r'"task": expected .*, found null'):
        parse(json.dumps({'cluster': CLUSTER}))
