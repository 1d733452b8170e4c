"""Checkpoints, SavedModels and numbers cross from one TensorFlow to another.

On each TensorFlow: the numbers that 2.15 has got (crossing_numbers.json), and the checkpoints and SavedModels that 2.15
and 2.21 have written (crossing_2.*.tar.xz). What is written here is read there only where there are two of them:

    ESTIMATOR_TRAINER_PYTHONS=one/bin/python:other/bin/python pytest tests/compat/test_crossing.py

trains with both, in turns, and compares bit for bit what the same kernels have computed. tests/matrix.sh does so.
"""

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.compat import crossing

PYTHONS = os.environ.get('ESTIMATOR_TRAINER_PYTHONS', '').split(os.pathsep)
WRITERS = ('2.15', '2.21')
NUMBERS = json.loads(crossing.NUMBERS.read_text())
WANT = NUMBERS['2.15']
# Those that train with kernels that give the same bits on 2.15 and on 2.21; in the others tanh or sigmoid does not.
SAME_KERNELS = ('dense', 'conv', 'canned_v1', 'canned_v2')
# Of the optimizer, which has a slot or two for each variable, a part of the names.
WANT_SLOTS = {
    'dense': ('Adam', 'Adam_1'),
    'conv': ('Momentum',),
    'embedding': ('Adagrad',),
    'lstm': ('RMSProp', 'RMSProp_1'),
    'canned_v1': ('Adagrad', 'Ftrl', 'Ftrl_1'),
    'canned_v2': ('m', 'v'),
    'keras': ('m', 'v'),
}


def near(want, kind=''):
    """Returns what equals numbers to 1e-5; those that the same kernels have computed it wants bit for bit."""
    if kind in SAME_KERNELS:
        return want
    if isinstance(want, list) and isinstance(want[0], list):
        return [near(row) for row in want]
    return pytest.approx(want, rel=1e-5)


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    """The losses of each kind, from a process of its own: other tests leave their traces in Keras."""
    return run(sys.executable, tmp_path_factory.mktemp('trained'), 'train:5')


@pytest.fixture(scope='module', params=WRITERS)
def resumed(request, tmp_path_factory):
    """(who has written, what a process makes of it)."""
    directory = tmp_path_factory.mktemp(request.param)
    shutil.unpack_archive(crossing.archive(request.param), directory)
    actions = ('checkpoint:5', 'evaluate:5', 'serve:first', 'train:10', 'checkpoint:10')
    return request.param, run(sys.executable, directory, *actions)


@pytest.mark.parametrize('kind', crossing.KINDS)
def test_training_gives_the_numbers_of_tensorflow_2_15(kind, trained):
    assert trained[kind]['train:5'] == near(WANT[kind]['train:5'])


@pytest.mark.parametrize('kind', crossing.KINDS)
def test_what_another_tensorflow_has_written(resumed, kind):
    writer, found = resumed[0], resumed[1][kind]
    written = NUMBERS[writer][kind]
    assert found['checkpoint:5'] == written['checkpoint:5']
    for action in ('evaluate:5', 'serve:first'):
        assert found[action] == near(written[action])
    # Slots too are restored: from others the losses would be others.
    assert found['train:10'] == near(WANT[kind]['train:10'])
    assert found['checkpoint:10'].keys() == written['checkpoint:5'].keys()


@pytest.mark.parametrize('writer', WRITERS)
@pytest.mark.parametrize('kind', crossing.KINDS)
def test_what_is_recorded_says_what_it_should(writer, kind):
    recorded = NUMBERS[writer][kind]
    variables = recorded['checkpoint:5']
    assert [value for name, value in variables.items() if 'global_step' in name] == [5]
    parts = {part for name in variables for part in name.split('/')}
    assert set(WANT_SLOTS[kind]) <= parts
    assert recorded['evaluate:5']['global_step'] == 5
    assert recorded['serve:first'] == near(recorded['predict:5'])
    assert recorded['predict:5'] == near(WANT[kind]['predict:5'])
    assert [len(recorded[action]) for action in ('train:5', 'train:10')] == [5, 5]
    assert recorded['train:10'][-1] < recorded['train:5'][0]


@pytest.mark.skipif(len(PYTHONS) != 2, reason='set ESTIMATOR_TRAINER_PYTHONS=A:B, Pythons with a TensorFlow each')
class TestLive:
    """One TensorFlow trains alone to step 15; then to 5, the other to 10 and the first to 15."""

    @pytest.fixture(scope='class')
    def results(self, tmp_path_factory):
        alone, other, crossed = (tmp_path_factory.mktemp(name) for name in ('alone', 'other', 'crossed'))
        every = [f'{verb}:{step}' for step in (5, 10, 15) for verb in ('checkpoint', 'evaluate', 'predict')]
        one_python, other_python = PYTHONS
        with ThreadPoolExecutor() as pool:
            runs = {
                'alone': pool.submit(run, one_python, alone, 'train:5', 'train:10', 'train:15', *every),
                'other': pool.submit(run, other_python, other, 'train:5', 'checkpoint:5'),
            }
            first = run(one_python, crossed, 'train:5', 'export:first')
            then = run(other_python, crossed, *every[:3], 'serve:first', 'train:10', *every[3:6], 'export:second')
            last = run(one_python, crossed, *every[3:6], 'serve:second', 'train:15', *every[6:])
            return {'first': first, 'then': then, 'last': last} | {name: one.result() for name, one in runs.items()}

    @pytest.mark.timeout(1200)
    @pytest.mark.parametrize('kind', crossing.KINDS)
    def test_numbers_cross(self, results, kind):
        alone, other, first, then, last = (results[name][kind] for name in ('alone', 'other', 'first', 'then', 'last'))
        # From the seeds: initial values, dropout, losses.
        assert first['train:5'] == alone['train:5']
        assert other['train:5'] == near(alone['train:5'], kind)
        # What is written by the one is read by the other.
        assert then['checkpoint:5'] == alone['checkpoint:5']
        assert last['checkpoint:10'] == then['checkpoint:10']
        for reader, writer, actions in (
            (then, alone, ('evaluate:5', 'train:10')),
            (last, then, ('evaluate:10',)),
            (last, alone, ('train:15', 'evaluate:15')),
        ):
            for action in actions:
                assert reader[action] == near(writer[action], kind), action
        # Softmax has another kernel, so these are not the same bits for any kind.
        for reader, writer, found, want in (
            (then, alone, 'serve:first', 'predict:5'),
            (last, then, 'serve:second', 'predict:10'),
            (last, alone, 'predict:15', 'predict:15'),
        ):
            assert reader[found] == near(writer[want])
        if kind in SAME_KERNELS:
            assert other['checkpoint:5'] == alone['checkpoint:5']
            assert [then['checkpoint:10'], last['checkpoint:15']] == [alone['checkpoint:10'], alone['checkpoint:15']]


def run(python, directory, *actions):
    """Runs crossing.py with a Python that has the project and a TensorFlow."""
    environment = {name: value for name, value in os.environ.items() if name != 'TF_USE_LEGACY_KERAS'}
    command = [python, str(Path(crossing.__file__)), str(directory), *actions]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
    return json.loads(ran.stdout.splitlines()[-1])
