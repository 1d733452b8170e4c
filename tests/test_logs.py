"""Whose log lines are shown. What a whole run prints is in test_training.py."""

import logging
import os
import sys
import warnings

import pytest

from estimator_trainer import logs


@pytest.fixture
def logging_restored(monkeypatch):
    """Leaves logging, warnings and the environment as they were."""
    # monkeypatch does not restore what was not set when it looked.
    monkeypatch.setenv('TF_CPP_MIN_LOG_LEVEL', '')
    monkeypatch.delenv('TF_CPP_MIN_LOG_LEVEL')
    loggers = [logging.getLogger(name) for name in (None, 'tensorflow', 'absl')]
    before = [(logger.level, list(logger.handlers), list(logger.filters)) for logger in loggers]
    with warnings.catch_warnings():
        yield
    for logger, (level, handlers, filters) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.handlers[:] = handlers
        logger.filters[:] = filters


@pytest.mark.parametrize(
    ('verbosity', 'want_level', 'want_cpp_level'),
    [
        (2, logging.DEBUG, '0'),
        (1, logging.DEBUG, '0'),
        (0, logging.INFO, '0'),
        (-1, logging.WARNING, '1'),
        (-2, logging.ERROR, '2'),
        (-3, logging.CRITICAL, '3'),
        (-4, logging.CRITICAL, '3'),
        (None, logging.WARNING, '3'),
    ],
)
def test_levels(logging_restored, verbosity, want_level, want_cpp_level):
    logs.configure(verbosity)
    assert logging.getLogger('tensorflow').level == want_level
    assert os.environ['TF_CPP_MIN_LOG_LEVEL'] == want_cpp_level


def test_the_callers_environment_wins(logging_restored):
    os.environ['TF_CPP_MIN_LOG_LEVEL'] = '1'
    logs.configure(None)
    assert os.environ['TF_CPP_MIN_LOG_LEVEL'] == '1'


@pytest.mark.parametrize(
    ('path', 'level', 'verbosity', 'want_shown'),
    [
        ('/venv/lib/site-packages/tensorflow/python/x.py', logging.WARNING, None, False),
        ('/venv/lib/site-packages/tensorflow/python/x.py', logging.ERROR, None, True),
        ('/venv/lib/site-packages/tensorflow/python/x.py', logging.WARNING, -1, True),
        ('/venv/lib/site-packages/tensorflow_datasets/x.py', logging.WARNING, None, True),
        ('/home/user/tensorflow/model.py', logging.WARNING, None, True),
        ('/home/user/model.py', logging.INFO, None, False),
    ],
)
def test_warnings_of_dependencies_are_not_shown(logging_restored, caplog, path, level, verbosity, want_shown):
    logs.configure(verbosity)
    logger = logging.getLogger('tensorflow')
    record = logger.makeRecord(logger.name, level, path, 1, 'text', (), None)
    if logger.isEnabledFor(level):
        logger.handle(record)
    assert (record in caplog.records) == want_shown


def write_and_print():
    os.write(2, b'from C++\n')
    print('from Python', file=sys.stderr)


def test_stderr_of_libraries_is_held_back(capfd):
    with logs.stderr_held_back(None):
        write_and_print()
    write_and_print()
    assert capfd.readouterr().err == 'from Python\nfrom C++\nfrom Python\n'


def test_stderr_is_shown_where_a_verbosity_was_given(capfd):
    with logs.stderr_held_back(0):
        write_and_print()
    assert sorted(capfd.readouterr().err.splitlines()) == ['from C++', 'from Python']


def test_stderr_is_shown_when_the_block_fails(capfd):
    with pytest.raises(ImportError), logs.stderr_held_back(None):
        os.write(2, b'libfoo.so is missing\n')
        raise ImportError
    assert capfd.readouterr().err == 'libfoo.so is missing\n'
