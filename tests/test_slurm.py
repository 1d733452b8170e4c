"""Node lists and numbers of tasks as SLURM writes them."""

import pytest

from estimator_trainer import slurm
from estimator_trainer.errors import UserError

STEP = {'SLURM_PROCID': '1', 'SLURM_STEP_NUM_TASKS': '3', 'SLURM_STEP_NODELIST': 'a,b'}


@pytest.mark.parametrize(
    ('nodes', 'want'),
    [
        ('a', 'a'),
        ('a,b', 'a b'),
        ('gpu[1-3]', 'gpu1 gpu2 gpu3'),
        ('gpu[08-10,12]', 'gpu08 gpu09 gpu10 gpu12'),
        ('gpu[1-2],login,cpu-[7]', 'gpu1 gpu2 login cpu-7'),
        ('r[1-2]n[1-2]', 'r1n1 r1n2 r2n1 r2n2'),
        ('n[1-2].cluster.org', 'n1.cluster.org n2.cluster.org'),
    ],
)
def test_expand(nodes, want):
    assert slurm.expand(nodes) == want.split()


@pytest.mark.parametrize('nodes', ['', 'gpu[1-', 'gpu[2-1]', 'gpu[a-b]', 'gpu]1', 'a b'])
def test_what_is_no_node_list(nodes):
    with pytest.raises(UserError, match='expected nodes such as'):
        slurm.expand(nodes)


@pytest.mark.parametrize(
    ('more', 'want'),
    [
        ({}, 'a:8888 a:8889 b:8888'),  # dealt out evenly, the first nodes first
        ({'SLURM_STEP_TASKS_PER_NODE': '1,2'}, 'a:8888 b:8888 b:8889'),
        ({'SLURM_STEP_NUM_TASKS': '4', 'SLURM_STEP_TASKS_PER_NODE': '2(x2)'}, 'a:8888 a:8889 b:8888 b:8889'),
    ],
)
def test_addresses(more, want):
    assert slurm.tasks(STEP | more).addresses == want.split()


@pytest.mark.parametrize(
    ('more', 'want_text'),
    [
        ({'SLURM_STEP_TASKS_PER_NODE': '1(x3)'}, '3 tasks, but'),
        ({'SLURM_STEP_TASKS_PER_NODE': 'two'}, 'SLURM_STEP_TASKS_PER_NODE: expected numbers of tasks'),
        ({'SLURM_PROCID': '3'}, 'SLURM_PROCID=3 is outside 0 to 2'),
        ({'SLURM_PROCID': 'x'}, "SLURM_PROCID: expected a number, found 'x'"),
    ],
)
def test_contradictions(more, want_text):
    with pytest.raises(UserError) as caught:
        slurm.tasks(STEP | more)
    assert want_text in str(caught.value)
