"""What makes a cluster, and what each of its tasks knows of the others."""

import pytest

from estimator_trainer.errors import UserError
from estimator_trainer.topology import LOCAL, Task, Topology

CLUSTER = {'chief': ('a:1',), 'worker': ('b:1', 'b:2'), 'ps': ('c:1', 'c:2'), 'evaluator': ('d:1',)}


def topology(task, cluster=CLUSTER):
    job, _, index = task.partition(':')
    return Topology(cluster, Task(job, int(index)))


@pytest.mark.parametrize(
    ('cluster', 'want_error'),
    [
        ({'ps': ['c:1']}, 'exactly one chief; found ps:1'),
        ({'chief': [], 'worker': ['b:1'], 'ps': ['c:1']}, 'exactly one chief; found worker:1, ps:1'),
        ({'chief': ['a:1', 'a:2'], 'ps': ['c:1']}, 'exactly one chief; found chief:2, ps:1'),
        ({'chief': [''], 'ps': ['c:1']}, 'exactly one chief'),
        ({'chief': ['a:1'], 'ps': ['c:1'], 'evaluator': ['d:1', 'd:2']}, 'one evaluator; found chief:1, ps:1, eval'),
        ({'chief': ['a:1'], 'ps': ['a:1']}, 'two tasks the same address a:1'),
        ({'chief': ['a:1'], 'ps': ['c:1', 'c:1']}, 'the same address c:1'),
        ({'chief': ['a:1'], 'ps': ['c:1'], 'evaluator': ['c:1']}, 'the same address c:1'),
        ({'chief': ['a:1'], 'ps': ['a:2']}, None),
        ({'chief': ['a:1'], 'evaluator': ['b:1']}, None),
        ({'chief': ['a:1'], 'worker': [], 'ps': ['b:1'], 'evaluator': []}, None),
    ],
)
def test_what_makes_a_cluster(cluster, want_error):
    if want_error is None:
        assert topology('chief:0', cluster).is_chief
        return
    with pytest.raises(UserError) as caught:
        topology('chief:0', cluster)
    assert want_error in str(caught.value)


# What each task waits for; those whose server must answer; (number of input pipelines, its own).
PS = ('ps:0', 'ps:1')


@pytest.mark.parametrize(
    ('task', 'want_needs', 'want_connects_to', 'want_input_shard'),
    [
        ('chief:0', PS, PS, (3, 0)),
        # A worker asks the ledger about the chief, not its server.
        ('worker:0', ('chief:0', *PS), PS, (3, 1)),
        ('worker:1', ('chief:0', *PS), PS, (3, 2)),
        ('ps:1', ('chief:0',), (), (3, 0)),
        ('evaluator:0', ('chief:0',), (), (3, 0)),
    ],
)
def test_each_task(task, want_needs, want_connects_to, want_input_shard):
    found = topology(task)
    assert tuple(map(str, found.needs)) == want_needs
    assert tuple(map(str, found.connects_to)) == want_connects_to
    assert found.input_shard == want_input_shard
    assert found.is_chief == (task == 'chief:0')
    assert not found.is_local
    assert found.has_evaluator


@pytest.mark.parametrize(
    ('task', 'want_needs', 'want_connects'),
    [
        ('chief:0', ['worker:0', 'worker:1'], True),
        ('worker:1', ['chief:0', 'worker:0'], True),
        ('evaluator:0', ['chief:0'], False),
    ],
)
def test_tasks_that_step_together_need_each_other(task, want_needs, want_connects):
    found = topology(task, {'chief': ('a:1',), 'worker': ('b:1', 'b:2'), 'evaluator': ('d:1',)})
    assert found.is_collective
    assert [str(task) for task in found.needs] == want_needs
    assert found.connects_to == (found.needs if want_connects else ())


def test_every_task_has_an_address():
    found = topology('ps:0')
    want = {
        'chief:0': 'a:1',
        'worker:0': 'b:1',
        'worker:1': 'b:2',
        'ps:0': 'c:1',
        'ps:1': 'c:2',
        'evaluator:0': 'd:1',
    }
    assert {str(task): found.address(task) for task in found.tasks} == want


def test_a_local_process_is_its_own_chief_without_peers():
    local = Topology()
    assert (local.task, local.is_local, local.is_chief, local.has_evaluator) == (LOCAL, True, True, False)
    assert local.tasks == local.needs == local.connects_to == ()
    assert local.training_tasks == (LOCAL,)
    assert local.input_shard == (1, 0)
    assert local.tf_config() is None


def test_a_chief_with_an_evaluator_trains_alone():
    cluster = {'chief': ('a:1',), 'evaluator': ('b:1',)}
    chief, evaluator = topology('chief:0', cluster), topology('evaluator:0', cluster)
    assert (chief.is_local, chief.is_distributed, chief.has_evaluator, chief.needs) == (False, False, True, ())
    assert chief.tf_config() is None
    assert evaluator.needs == (Task('chief', 0),)
    assert evaluator.tf_config() == {'cluster': {'chief': ['a:1']}, 'task': {'type': 'evaluator', 'index': 0}}


def test_tasks_of_which_the_launcher_tells_no_address():
    found = topology('worker:1', {'chief': ('a:1',), 'worker': ('', 'b:2'), 'ps': ('c:1',)})
    assert found.input_shard == (3, 2)
    assert [str(task) for task in found.tasks] == ['chief:0', 'worker:1', 'ps:0']
    assert found.tf_config()['cluster']['worker'] == {'1': 'b:2'}


TRAINING_CLUSTER = {'chief': ['a:1'], 'worker': ['b:1', 'b:2'], 'ps': ['c:1', 'c:2']}


@pytest.mark.parametrize('task', ['chief:0', 'worker:1', 'ps:0', 'evaluator:0'])
def test_tf_config_never_shows_the_evaluator_to_the_cluster(task):
    # TensorFlow's servers would wait for it.
    job, _, index = task.partition(':')
    want = {'cluster': TRAINING_CLUSTER, 'task': {'type': job, 'index': int(index)}}
    assert topology(task).tf_config() == want
    assert topology('chief:0').tf_config(Task(job, int(index))) == want
