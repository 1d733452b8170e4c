"""setup.py installs every file of the packages, and nothing else."""

import importlib.metadata
import os
from pathlib import Path

import pytest

import estimator_trainer

ROOT = Path(__file__).parents[1]
PACKAGES = ('estimator_trainer', 'model_fns', 'input_fns', 'configs')


@pytest.fixture
def distribution():
    imported = Path(estimator_trainer.__file__)
    if imported.parent == ROOT / 'estimator_trainer':
        assert not os.environ.get('CI'), f'CI has to test the installed package, and imported {imported}'
        pytest.skip('the packages under test are the checkout, not an installation')
    return importlib.metadata.distribution('estimator_trainer')


def test_every_file_is_installed(distribution):
    installed = {file.as_posix() for file in distribution.files if file.parts[0] in PACKAGES and file.suffix != '.pyc'}
    files = [file for package in PACKAGES for file in (ROOT / package).rglob('*')]
    assert installed == {
        file.relative_to(ROOT).as_posix() for file in files if file.is_file() and file.suffix != '.pyc'
    }


def test_nothing_else_is_installed(distribution):
    assert sorted(distribution.read_text('top_level.txt').split()) == sorted(PACKAGES)


def test_console_script_exists(distribution):
    (script,) = distribution.entry_points.select(group='console_scripts')
    assert script.name == 'estimator_trainer'
    assert callable(script.load())
