"""The names of the strategies, where each may run, and what Estimator gets for it."""

import json
import os

import pytest

from estimator_trainer import gin_config, strategies
from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from estimator_trainer.topology import Task, Topology
from tests.compat import fresh

LOCAL = Topology()
CLUSTER = Topology({'chief': ('a:1',), 'ps': ('b:1',)}, Task('chief', 0))
WORKERS = Topology({'chief': ('a:1',), 'worker': ('b:1',)}, Task('chief', 0), source='TF_CONFIG')
WORKERS_AND_PS = Topology({'chief': ('a:1',), 'worker': ('b:1',), 'ps': ('c:1',)}, Task('chief', 0))
CHIEF_AND_EVALUATOR = Topology({'chief': ('a:1',), 'evaluator': ('b:1',)}, Task('chief', 0))


@pytest.mark.parametrize(
    ('value', 'topology', 'want_name'),
    [
        (None, LOCAL, 'auto'),  # until the devices are known
        (None, CLUSTER, 'parameter_server'),
        (None, WORKERS, 'multi_worker_mirrored'),
        ('auto', LOCAL, 'auto'),
        ('auto', CLUSTER, 'parameter_server'),
        ('auto', WORKERS_AND_PS, 'parameter_server'),
        ('multi_worker_mirrored', WORKERS, 'multi_worker_mirrored'),
        ('multi_worker_mirrored', CHIEF_AND_EVALUATOR, 'auto'),
        ('mirrored', CHIEF_AND_EVALUATOR, 'mirrored'),
        *((name, LOCAL, name) for name in strategies.LOCAL_STRATEGIES),
        ('parameter_server', CLUSTER, 'parameter_server'),
    ],
)
def test_choose(value, topology, want_name):
    assert strategies.choose(value, topology, '--strategy') == want_name


def test_an_object_for_one_process_is_refused_in_a_cluster():
    with pytest.raises(UserError, match="'OneDeviceStrategy' is for one process, but the cluster has chief:1, ps:1"):
        strategies.make(tf.distribute.OneDeviceStrategy('/cpu:0'), CLUSTER, 'RunConfig.train_distribute')


def test_tasks_that_step_together_need_all_addresses():
    topology = Topology({'chief': ('a:1',), 'worker': ('', 'b:1')}, Task('worker', 1), source='TF_CONFIG')
    with pytest.raises(UserError, match='TF_CONFIG: the cluster does not tell the addresses of all workers'):
        strategies.choose('auto', topology, '--strategy')


def test_communications():
    with pytest.raises(UserError, match=r"multi_worker_mirrored\.communication: .*auto, ring, nccl, found 'rings'"):
        strategies.multi_worker_mirrored('rings')


def test_objects_and_clusters():
    v1 = tf.compat.v1.distribute.experimental.ParameterServerStrategy()
    with pytest.raises(
        UserError, match="'parameter_server' needs a ps, but TF_CONFIG: the cluster has chief:1, worker:1"
    ):
        strategies.make(v1, WORKERS, 'RunConfig.train_distribute')
    assert strategies.make(v1, CLUSTER, 'RunConfig.train_distribute') is v1


def test_an_object_is_left_to_make():
    strategy = object()
    assert strategies.choose(strategy, LOCAL, '--strategy') is strategy
    assert strategies.choose(strategy, CLUSTER, '--strategy') is strategy


@pytest.mark.parametrize(
    ('value', 'topology', 'want_texts'),
    [
        ('miror', LOCAL, ["unknown strategy 'miror'", 'auto, none, one_device', "did you mean 'mirrored'?"]),
        ('', LOCAL, ["unknown strategy ''"]),
        ('MirroredStrategy', CLUSTER, ["unknown strategy 'MirroredStrategy'"]),
        ('parameter_server', LOCAL, ["'parameter_server' needs a cluster", 'set TF_CONFIG', '--local_cluster=']),
        *(
            (name, CLUSTER, [f'{name!r} is for one process', 'the cluster has chief:1, ps:1', "'parameter_server'"])
            for name in strategies.LOCAL_STRATEGIES
        ),
        *((name, WORKERS, [f'{name!r} is for one', "'multi_worker_mirrored'"]) for name in strategies.LOCAL_STRATEGIES),
        ('multi_worker_mirrored', LOCAL, ['needs a cluster;', '--local_cluster=chief:1,worker:1']),
        ('multi_worker_mirrored', WORKERS_AND_PS, ['works without a ps, but', "expected 'parameter_server'"]),
        ('parameter_server', WORKERS, ['needs a ps, but TF_CONFIG: the cluster has chief:1, worker:1']),
        ('parameter_server', CHIEF_AND_EVALUATOR, ['needs a cluster with a ps']),
    ],
)
def test_what_cannot_be_chosen(value, topology, want_texts):
    with pytest.raises(UserError) as caught:
        strategies.choose(value, topology, '--strategy')
    assert str(caught.value).startswith('--strategy: ')
    for want_text in want_texts:
        assert want_text in str(caught.value)


@pytest.mark.parametrize('value', [3, object(), ['mirrored'], type])
def test_what_is_no_strategy(value):
    with pytest.raises(UserError, match=r'RunConfig\.train_distribute: expected a strategy or one of auto, none'):
        strategies.make(value, LOCAL, 'RunConfig.train_distribute')


@pytest.mark.parametrize('value', ['none', 'parameter_server'])
def test_estimator_needs_no_strategy_object(value):
    assert strategies.make(value, LOCAL, '--strategy') is None
    assert strategies.cpu_count(None) == 0


@pytest.mark.parametrize('value', ['0', '-1', '2.0', "'two'", 'True', 'None', '@two()'])
def test_numbers_of_replicas(value):
    config = gin_config.read([], [f'mirrored.cpu_replicas = {value}'], [])
    with pytest.raises(UserError, match=r'mirrored\.cpu_replicas: expected a number of at least 1, found '):
        strategies.set_up_devices('mirrored', config, LOCAL)


@pytest.mark.parametrize('topology', [LOCAL, CLUSTER])
def test_tf_config_is_what_the_topology_says(monkeypatch, topology):
    monkeypatch.setenv('TF_CONFIG', 'old')
    strategies.export_tf_config(topology)
    if topology.is_local:
        assert 'TF_CONFIG' not in os.environ
    else:
        assert json.loads(os.environ['TF_CONFIG']) == topology.tf_config()


# In a process of its own, for TensorFlow's devices cannot be divided once they have been used.
MAKE_ALL = """
import json
from estimator_trainer import gin_config, strategies
from estimator_trainer.compat import tf
from estimator_trainer.topology import Topology

strategies.set_up_devices('mirrored', gin_config.read([], ['mirrored.cpu_replicas = 3'], []), Topology())
made = {name: strategies.make(name, Topology(), 'test') for name in strategies.LOCAL_STRATEGIES if name != 'tpu'}
made['three'] = strategies.mirrored(cpu_replicas=3)
made['itself'] = strategies.make(made['one_device'], Topology(), 'test')
facts = {name: (type(of).__name__, strategies.cpu_count(of)) for name, of in made.items()}
print(json.dumps([facts, made['itself'] is made['one_device']]))
"""


def test_make():
    facts, itself = json.loads(fresh.last_line(fresh.start('-c', MAKE_ALL, CUDA_VISIBLE_DEVICES='')))
    assert {name: tuple(fact) for name, fact in facts.items()} == {
        'none': ('NoneType', 0),
        'one_device': ('OneDeviceStrategy', 1),
        'mirrored': ('MirroredStrategy', 2),
        'central_storage': ('CentralStorageStrategy', 1),
        'three': ('MirroredStrategy', 3),
        'itself': ('OneDeviceStrategy', 1),
    }
    assert itself
