"""TF_CONFIG as launchers write it, and one-line errors for what is wrong in it."""

import json
import pathlib

import pytest

from estimator_trainer.dialects import Flags, read
from estimator_trainer.errors import UserError
from estimator_trainer.topology import Topology

CLUSTER = {'chief': ['a:1'], 'worker': ['b:1', 'b:2'], 'ps': ['c:1']}


def parse(text):
    return read(environ={'TF_CONFIG': text})


def parse_json(cluster=CLUSTER, task=None, **more):
    config = {'cluster': cluster, 'task': {'type': 'ps', 'index': 0} if task is None else task, **more}
    return parse(json.dumps(config))


def test_no_tf_config_is_a_local_process():
    assert read(environ={}) == Topology()


def test_the_environment_is_that_of_the_process(monkeypatch):
    monkeypatch.setenv('TF_CONFIG', json.dumps({'cluster': CLUSTER, 'task': {'type': 'ps', 'index': 0}}))
    assert str(read().task) == 'ps:0'


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
    found = parse_json(cluster, {'type': 'evaluator', 'index': 0})
    assert (str(found.task), [str(task) for task in found.needs]) == ('evaluator:0', ['chief:0'])


def test_a_single_task_of_a_wrong_type_is_no_local_process():
    with pytest.raises(UserError, match='is not in "cluster"'):
        parse_json({'worker': ['b:1']}, {'type': 'wroker', 'index': 0})


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
        ({'workerpool0': ['a:1']}, ["unknown job 'workerpool0'", 'expected chief, worker, ps, evaluator']),
        ({**CLUSTER, 'wroker': ['b:1']}, ["unknown job 'wroker'", "did you mean 'worker'?"]),
        ({**CLUSTER, 'ps': 'c:1'}, ["'ps': expected a list", "'c:1'"]),
        ({**CLUSTER, 'ps': [1]}, ["'ps': expected a list", '[1]']),
        ({**CLUSTER, 'ps': ['c']}, ['\'ps\': expected "host:port"', "'c'"]),
        ({**CLUSTER, 'ps': [':1']}, ["':1'"]),
        ({**CLUSTER, 'ps': ['c:']}, ["'c:'"]),
        ({**CLUSTER, 'ps': ['c:http']}, ["'c:http'"]),
        ({**CLUSTER, 'ps': {'one': 'c:1'}}, ["'ps': expected", "found index 'one'"]),
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
        (
            {'type': 'wroker', 'index': 0},
            ['"type": \'wroker\' is not in "cluster" (jobs present: chief[1], worker[2], ps[1])', "mean 'worker'?"],
        ),
        ({'type': None, 'index': 0}, ['"type": None is not in "cluster"']),
        ({'type': 'worker', 'index': 2}, ['worker 2 does not exist', 'worker 0 to 1']),
        ({'type': 'evaluator', 'index': 1}, ['evaluator 1 does not exist']),
        ({'type': 'worker', 'index': -1}, ['"index": expected a number from 0, found -1']),
        ({'type': 'worker', 'index': '-1'}, ["found '-1'"]),
        ({'type': 'worker', 'index': 'one'}, ["found 'one'"]),
        ({'type': 'worker', 'index': 1.0}, ['found 1.0']),
        ({'type': 'worker', 'index': True}, ['found True']),
        ({'type': 'worker', 'index': None}, ['"index": missing; expected which worker']),
        ({'type': 'ps'}, ['"index": missing']),
        ({'type': 'ps', 'index': 0, 'trial': '../x'}, ['"trial"', "'../x'"]),
    ],
)
def test_what_is_no_task(task, want_texts):
    with pytest.raises(UserError) as caught:
        parse_json(task=task)
    for want_text in want_texts:
        assert want_text in str(caught.value)


def test_a_cluster_without_chief_and_workers_is_refused():
    with pytest.raises(UserError, match='TF_CONFIG: the cluster needs exactly one chief; found ps:2'):
        parse_json({'ps': ['c:1', 'c:2']})


def test_a_cluster_without_a_task_is_refused():
    with pytest.raises(UserError, match=r'"task": expected .*, found null'):
        parse(json.dumps({'cluster': CLUSTER}))


def golden():
    for path in sorted((pathlib.Path(__file__).parent / 'dialects').glob('*.json')):
        for case in json.loads(path.read_text()):
            yield pytest.param(case, id=f'{path.stem}-{case["name"]}')


@pytest.mark.parametrize('case', list(golden()))
def test_what_launchers_write(case):
    environ = {name: value if isinstance(value, str) else json.dumps(value) for name, value in case['environ'].items()}
    flags = Flags(**case.get('flags', {}))
    if 'want_error' in case:
        with pytest.raises(UserError) as caught:
            read(flags, environ)
        assert case['want_error'] in str(caught.value)
        return
    found = read(flags, environ)
    assert {
        'task': str(found.task),
        'cluster': {job: list(addresses) for job, addresses in found.cluster.items()},
        **{name: getattr(found, name) for name in ('trial', 'run_id') if getattr(found, name)},
        **({'launched_as': str(found.launched_as)} if found.launched_as else {}),
    } == case['want']


@pytest.mark.parametrize(
    ('flags', 'want_text'),
    [
        ({'cluster': 'chief=a:1;ps=c:1'}, '--cluster needs --task_type and --task_index'),
        ({'cluster': 'chief=a:1;ps=c:1', 'task_type': 'ps'}, '--cluster needs --task_type and --task_index'),
        ({'cluster': 'chief=a:1;ps=c:1', 'task_type': 'sp', 'task_index': 0}, "--task_type 'sp' is not in"),
        ({'cluster': 'chief=a:1;ps=c:1', 'task_type': 'ps', 'task_index': 1}, '--task_index ps 1 does not exist'),
        ({'cluster': '', 'task_type': 'chief', 'task_index': 0}, '--cluster: names no task'),
        ({'cluster': 'chief=a:1;chief=a:2', 'task_type': 'chief', 'task_index': 0}, '--cluster: chief is given twice'),
        ({'ps_hosts': 'c:1', 'worker_hosts': '', 'job_name': 'ps', 'task_index': 0}, '--worker_hosts is not given'),
        ({'cluster': 'chief:a:1', 'task_type': 'chief', 'task_index': 0}, 'expected job=host:port'),
        ({'cluster': 'chief=a', 'task_type': 'chief', 'task_index': 0}, '--cluster: \'chief\': expected "host:port"'),
        ({'cluster': 'cheif=a:1', 'task_type': 'chief', 'task_index': 0}, "did you mean 'chief'?"),
        ({'task_type': 'ps', 'task_index': 0}, '--task_type is for --cluster'),
        ({'task_index': 0}, '--ps_hosts is not given'),
        ({'ps_hosts': 'c:1', 'job_name': 'ps', 'task_index': 0}, '--worker_hosts is not given'),
        ({'ps_hosts': 'c:1', 'worker_hosts': 'b:1', 'job_name': 'ps'}, 'needs --job_name and --task_index'),
        ({'cluster': 'chief=a:1;ps=c:1', 'ps_hosts': 'c:1'}, '--cluster and --ps_hosts both describe'),
        (
            {'ps_hosts': 'c', 'worker_hosts': 'b:1', 'job_name': 'ps', 'task_index': 0},
            '--ps_hosts: expected "host:port"',
        ),
    ],
)
def test_cluster_flags_that_contradict_each_other(flags, want_text):
    with pytest.raises(UserError) as caught:
        read(Flags(**flags), {})
    assert want_text in str(caught.value)
