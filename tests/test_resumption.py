"""Where an interrupted run goes on in its input: nothing is lost, and little comes twice."""

import dataclasses
import itertools
import json
import signal

import pytest

from estimator_trainer import resumption
from estimator_trainer.resumption import InputPosition
from estimator_trainer.topology import Task, Topology
from tests import program, resuming_module

pytestmark = pytest.mark.once('oldest')

CLUSTER = {'chief': ('a:1',), 'worker': ('b:1',), 'ps': ('c:1',)}


@pytest.mark.parametrize(
    ('fields', 'step', 'want'),
    [
        # The only one that trains: a step, so many batches.
        ({'first_step': 0, 'per_step': 1}, 7, 7),
        ({'first_step': 20, 'skipped': 20, 'per_step': 1}, 50, 50),
        ({'first_step': 20, 'skipped': 0, 'per_step': 2}, 50, 60),
        ({'first_step': 20, 'skipped': 20, 'per_step': 1}, 0, 0),
        # One of several.
        ({'pairs': [(0, 0), (10, 3), (20, 8)]}, 9, 0),
        ({'pairs': [(0, 0), (10, 3), (20, 8)]}, 10, 3),
        ({'pairs': [(0, 0), (10, 3), (20, 8)], 'skipped': 5}, 1000, 13),
        ({'pairs': []}, 10, 0),
    ],
)
def test_batches_at(fields, step, want):
    assert InputPosition('k', 1, **fields).batches_at(step) == want


def test_pairs_are_kept_from_the_last_checkpoint_on():
    position = InputPosition('k', 1)
    for step, batches, saved in [(0, 0, 0), (5, 2, 0), (9, 4, 0), (9, 4, 0), (14, 6, 10), (21, 9, 20)]:
        position.note(step, batches, saved)
    assert position.pairs == [(14, 6), (21, 9)]
    assert (position.batches_at(20), position.latest) == (6, 9)


@pytest.mark.parametrize(('key', 'want'), [('k', True), ('x', False)])
def test_interrupted(key, want):
    position = InputPosition('k', 7, 10, 10, 1, [(12, 2)])
    found = resumption.interrupted({'state': 'training', 'input': dataclasses.asdict(position)}, key)
    assert found == (position if want else None)


@pytest.mark.parametrize('record', [{}, {'input': None}, {'input': {}}, {'input': {'key': 'k', 'sead': 1}}])
def test_a_record_without_a_position(record):
    assert resumption.interrupted(record, 'k') is None


@pytest.mark.parametrize(
    ('name', 'want_same'),
    [
        ('my_input_fn.batch_size', False),
        ('experiment.train_input_fn', False),
        ('experiment.max_steps', True),
        ('RunConfig.model_dir', True),
        ('trainer.grace_period', True),
        ('eval/my_input_fn.batch_size', True),
    ],
)
def test_the_key_is_that_of_the_input(name, want_same):
    topology = Topology(CLUSTER, Task('worker', 0))
    keys = [resumption.key_of({name: value, 'a.b': '1'}, topology) for value in ('1', '2')]
    assert (keys[0] == keys[1]) == want_same


def test_the_key_is_that_of_the_shard():
    tasks = [Topology(CLUSTER, Task('worker', 0)), Topology(CLUSTER, Task('chief', 0)), Topology()]
    assert len({resumption.key_of({}, topology) for topology in tasks}) == 3


@pytest.fixture
def project(user_project):
    (user_project / 'resuming_module.py').write_text((program.TESTS / 'resuming_module.py').read_text())
    (user_project / 'my.gin').write_text(resuming_module.GIN)
    return user_project


def trained_on(project):
    """Returns the numbers of the examples in each batch that was trained on, in order."""
    return [[int(number) for number in line.split()] for line in (project / 'local-0.txt').read_text().splitlines()]


def test_a_killed_run_goes_on_in_its_input(project):
    arguments = ['--gin_file=my.gin', '--model_dir=M']
    program.run(*arguments, cwd=project, KILL_AT='7').check(-signal.SIGKILL)
    assert len(trained_on(project)) == 7
    plan = json.loads(program.run(*arguments, '--mode=plan', '--plan_format=json', cwd=project).check().out)
    assert (plan['first_step'], plan['final_step'], plan['stopped_because']) == (4, 12, 'end_of_input')
    result = program.run(*arguments, cwd=project).check()
    assert 'input      goes on after the 4 batches that an interrupted run has trained on' in result.out
    batches = trained_on(project)
    # Without a seed of the user's, and yet in the same order: the steps after the checkpoint of step 4 once more.
    assert batches[4:7] == batches[7:10]
    assert sorted(itertools.chain(*batches[:4], *batches[7:])) == list(range(48))
    assert program.summary(project / 'M')['final_step'] == 12
    # It has ended: once more is another epoch.
    result = program.run(*arguments, cwd=project).check()
    assert 'input      starts again from its beginning' in result.out
    assert sorted(itertools.chain(*trained_on(project)[15:])) == list(range(48))


@pytest.mark.parametrize(
    ('changed', 'want_batches'),
    [('--gin_param=trainer.resume_input = False', 12), ('--gin_param=numbers_input_fn.batch_size = 8', 6)],
)
def test_an_input_that_starts_again(project, changed, want_batches):
    arguments = ['--gin_file=my.gin', '--model_dir=M']
    program.run(*arguments, cwd=project, KILL_AT='7').check(-signal.SIGKILL)
    result = program.run(*arguments, changed, cwd=project).check()
    assert 'input      starts again from its beginning' in result.out
    assert len(trained_on(project)) == 7 + want_batches
