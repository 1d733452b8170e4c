"""What tasks must have in common, and how the first difference is named."""

import json

import pytest

from estimator_trainer.agreement import difference, terms
from estimator_trainer.topology import Task, Topology

CLUSTER = {'chief': ('a:1',), 'worker': ('b:1', 'b:2'), 'ps': ('c:1',)}
BINDINGS = {'experiment.max_steps': '200', 'RunConfig.model_dir': "'M'"}


def of(cluster=CLUSTER, bindings=BINDINGS, task=Task('chief', 0)):  # noqa: B008
    return terms(Topology(cluster, task), bindings)


@pytest.mark.parametrize(
    ('theirs', 'want'),
    [
        (of(), None),
        (of(task=Task('ps', 0)), None),
        (of(cluster={**CLUSTER, 'evaluator': ('d:1',)}), None),
        (of(cluster={**CLUSTER, 'worker': ('', 'b:2')}), None),
        (of(bindings={**BINDINGS, 'RunConfig.model_dir': "'/mnt/M'"}), None),
        (of(cluster={**CLUSTER, 'worker': ('b:1',)}), 'the cluster has worker b:1, b:2 here and b:1 there'),
        (of(cluster={'chief': ('a:1',), 'ps': ('c:1',)}), 'the cluster has worker b:1, b:2 here and none there'),
        (of(cluster={**CLUSTER, 'worker': ('', 'b:3')}), 'the cluster has worker b:1, b:2 here and , b:3 there'),
        (of(bindings={'experiment.max_steps': '7'}), 'experiment.max_steps is 200 here and 7 there'),
        (of(bindings={}), 'experiment.max_steps is 200 here and not bound there'),
        (of(bindings={**BINDINGS, 'a.b': '1'}), 'a.b is not bound here and 1 there'),
    ],
)
def test_difference(theirs, want):
    assert difference(of(), json.dumps(theirs)) == want


@pytest.mark.parametrize('text', ['', '{"cluster": {', '[]', '{}', 'null'])
def test_half_a_file_is_no_difference(text):
    assert difference(of(), text) is None
