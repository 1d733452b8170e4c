"""Fixtures for the tests of gin_config."""

import sys

import pytest


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch, clean_gin):
    """Every test runs in a directory of its own, from which modules can be imported, and with gin empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.fixture
def without_model_fns(monkeypatch):
    """Nobody has imported model_fns yet, and what the test imports under this name is forgotten after it."""
    forget = [name for name in sys.modules if name.partition('.')[0] == 'model_fns'] or ['model_fns']
    for name in forget:
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(sys.modules, name)
