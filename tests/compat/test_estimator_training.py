"""Estimators train, evaluate and export under each strategy, as on TensorFlow 2.15."""

import importlib
import json
import socket
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from estimator_trainer.compat import tf
from tests.compat import fresh

CASES = str(Path(__file__).with_name('strategy_cases.py'))
STRATEGIES = ('none', 'one_device', 'mirrored', 'central_storage')


def w_after(steps):
    return 3 * (1 - 0.8**steps)


def loss_after(steps):
    return (w_after(steps) - 3) ** 2 * sum(x * x for x in range(1, 9)) / 8


def results(*names, **environment):
    return json.loads(fresh.last_line(fresh.start(CASES, *names, **environment)))


@pytest.fixture(scope='module')
def under():
    # Two processes at once, for there are two cores at least, and building the graphs takes one.
    started = [fresh.start(CASES, *(f'{kind}:{strategy}' for strategy in STRATEGIES)) for kind in ('custom', 'canned')]
    return {name: result for process in started for name, result in json.loads(fresh.last_line(process)).items()}


@pytest.mark.parametrize('strategy', STRATEGIES)
def test_a_model_fn_of_ones_own(under, strategy):
    found = under[f'custom:{strategy}']
    want_metrics = {'examples': 8, 'x': 4.5}
    assert found['w'] == pytest.approx([w_after(10), w_after(20)], rel=1e-5)
    assert found['evaluate'] == pytest.approx({**want_metrics, 'global_step': 10, 'loss': loss_after(10)}, rel=1e-4)
    assert found['train_and_evaluate'] == pytest.approx(
        {**want_metrics, 'global_step': 20, 'loss': loss_after(20)}, rel=1e-4
    )
    assert found['called'] == pytest.approx([w_after(20), -2 * w_after(20)], rel=1e-5)


@pytest.mark.parametrize('strategy', STRATEGIES)
def test_a_canned_model(under, strategy):
    found = under[f'canned:{strategy}']
    assert found['global_step'] == 20
    assert found['label/mean'] == 0.5
    assert found['accuracy'] == 1
    assert found['average_loss'] < 0.69  # log(2), where it knows nothing


def free_address():
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        return f'127.0.0.1:{taken.getsockname()[1]}'


def test_a_cluster_with_a_strategy_is_run_by_the_coordinator():
    cluster = {'chief': [free_address()]}
    tf_config = json.dumps({'cluster': cluster, 'task': {'type': 'chief', 'index': 0}})
    found = results('coordinator', TF_CONFIG=tf_config)['coordinator']
    # Until the coordinator runs it, a task looks like a worker on its own.
    assert found['described'] == ['worker', '', cluster]
    assert found['returned'] is None
    assert (found['step'], found['w']) == (20, pytest.approx(w_after(20), rel=1e-5))


def test_a_cluster_without_a_strategy(tmp_path):
    cluster = {'chief': [free_address()], 'ps': [free_address()]}
    chief, ps = (
        fresh.start(
            CASES,
            'task',
            TF_CONFIG=json.dumps({'cluster': cluster, 'task': {'type': job, 'index': 0}}),
            MODEL_DIR=str(tmp_path),
        )
        for job in ('chief', 'ps')
    )
    try:
        found = json.loads(fresh.last_line(chief))['task']
        assert ps.poll() is None  # it serves until it is killed
    finally:
        ps.kill()
        ps.communicate()
    assert found == {'w': pytest.approx(w_after(20), rel=1e-5), 'ps': 1, 'chief': True}


def test_a_client_trains_in_a_remote_cluster():
    cluster = {'chief': [free_address()], 'ps': [free_address()]}
    servers = [fresh.start(CASES, 'server', CLUSTER=json.dumps(cluster), JOB=job) for job in cluster]
    try:
        found = results('client', CLUSTER=json.dumps(cluster))['client']
    finally:
        for process in servers:
            process.kill()
            process.communicate()
    assert (found['described'], found['returned']) == (['worker', cluster], None)
    assert found['w'] == pytest.approx(w_after(20), rel=1e-5)
    assert 'ParameterServerStrategyV1' in found['refused']  # what several tasks have done cannot be returned


def test_two_clusters_are_refused(monkeypatch):
    given = make_distribute_config(train_distribute=ONE, remote_cluster={'chief': ['h:1']})
    with pytest.raises(ValueError, match='remote_cluster'):
        make_config(monkeypatch, CLUSTER, ('chief', 0), experimental_distribute=given)


class Strategy:
    """As much of a strategy as RunConfig looks at."""


ONE, OTHER = Strategy(), Strategy()
CLUSTER = {'chief': ['h:1'], 'worker': ['h:2', 'h:3'], 'ps': ['h:4']}
WITH_MASTER = {'master': ['h:1'], 'worker': ['h:2']}
ALONE = ('worker', 0, True, '', 0, 1, 0)
COORDINATED = 'independent_worker'


@pytest.mark.parametrize(
    'cluster, task, want_mode, want_task',
    [
        # A strategy for training; what RunConfig says of the task before the coordinator runs it.
        ({}, None, None, ALONE),
        (CLUSTER, ('chief', 0), COORDINATED, ALONE),
        (CLUSTER, ('worker', 1), COORDINATED, ALONE),
        (CLUSTER, ('ps', 0), COORDINATED, ALONE),
        (CLUSTER, ('evaluator', 0), COORDINATED, ALONE),
        ({'worker': ['h:2', 'h:3']}, ('worker', 1), COORDINATED, ALONE),
        (WITH_MASTER, ('master', 0), None, ('master', 0, True, 'grpc://h:1', 0, 2, 0)),
    ],
)
def test_run_config_with_a_strategy_for_training(monkeypatch, cluster, task, want_mode, want_task):
    config = make_config(monkeypatch, cluster, task, train_distribute=ONE)
    assert (config._distribute_coordinator_mode, described(config)) == (want_mode, want_task)
    assert config.cluster_spec.as_dict() == cluster
    assert (config.train_distribute, config.eval_distribute) == (ONE, None)


@pytest.mark.parametrize(
    'task, want_task',
    [
        (('chief', 0), ('chief', 0, True, 'grpc://h:1', 1, 3, 0)),
        (('worker', 1), ('worker', 1, False, 'grpc://h:3', 1, 3, 2)),
        (('ps', 0), ('ps', 0, False, 'grpc://h:4', 1, 3, 3)),
        (('evaluator', 0), ('evaluator', 0, False, '', 0, 0, None)),
    ],
)
def test_run_config_with_a_strategy_for_evaluation_only(monkeypatch, task, want_task):
    config = make_config(monkeypatch, CLUSTER, task, eval_distribute=OTHER)
    assert (config._distribute_coordinator_mode, described(config)) == (None, want_task)
    assert (config.train_distribute, config.eval_distribute) == (None, OTHER)


@pytest.mark.parametrize(
    'arguments, experimental, want_train, want_eval',
    [
        ({}, {'train_distribute': ONE}, ONE, None),
        ({}, {'train_distribute': ONE, 'eval_distribute': OTHER}, ONE, OTHER),
        ({'train_distribute': ONE}, {'eval_distribute': OTHER}, ONE, OTHER),
        ({'train_distribute': ONE}, {'train_distribute': OTHER}, ValueError, None),
        ({'eval_distribute': ONE}, {'eval_distribute': OTHER}, ValueError, None),
    ],
)
def test_experimental_distribute(monkeypatch, arguments, experimental, want_train, want_eval):
    given = make_distribute_config(**experimental)
    if want_train is ValueError:
        with pytest.raises(ValueError, match=r'experimental_distribute\.(train|eval)_distribute'):
            make_config(monkeypatch, {}, None, experimental_distribute=given, **arguments)
    else:
        config = make_config(monkeypatch, {}, None, experimental_distribute=given, **arguments)
        assert (config.train_distribute, config.eval_distribute) == (want_train, want_eval)


@pytest.mark.parametrize(
    'config, want',
    [
        (SimpleNamespace(), False),
        (SimpleNamespace(_distribute_coordinator_mode=None), False),
        (SimpleNamespace(_distribute_coordinator_mode=''), False),
        (SimpleNamespace(_distribute_coordinator_mode='no mode'), False),
        (SimpleNamespace(_distribute_coordinator_mode=COORDINATED, cluster_spec=CLUSTER), True),
        (Mock(), False),
    ],
)
def test_who_runs_train_and_evaluate(config, want):
    training = importlib.import_module('tensorflow.python.distribute.estimator_training')
    assert training.should_run_distribute_coordinator(config) is want


def make_distribute_config(**fields):
    from tensorflow.python.distribute.distribute_config import DistributeConfig

    return DistributeConfig(**fields)


def make_config(monkeypatch, cluster, task, **arguments):
    tf_config = {'cluster': cluster, 'task': {'type': task[0], 'index': task[1]}} if task else {}
    monkeypatch.setenv('TF_CONFIG', json.dumps(tf_config))
    return tf.estimator.RunConfig('unused', **arguments)


def described(config):
    return (
        config.task_type,
        config.task_id,
        config.is_chief,
        config.master,
        config.num_ps_replicas,
        config.num_worker_replicas,
        config.global_id_in_cluster,
    )
