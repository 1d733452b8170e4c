"""What is installed decides what is done, and what does not fit is said with its remedy."""

import importlib.util
import sys
from types import SimpleNamespace

import pytest

from estimator_trainer.compat import requirements
from estimator_trainer.errors import UserError

FITS = {'tensorflow': '2.21.0', 'keras': '3.15.1', 'tf-keras': '2.21.0', 'tensorflow-estimator': '2.15.0'}
OF_215 = {'tensorflow': '2.15.1', 'keras': '2.15.0', 'tensorflow-estimator': '2.15.0'}


@pytest.fixture
def installed(monkeypatch):
    """Returns a function that replaces what is installed."""
    monkeypatch.delenv(requirements.LEGACY_KERAS, raising=False)
    monkeypatch.delitem(sys.modules, 'tensorflow', raising=False)
    find_spec = importlib.util.find_spec

    def replace(versions):
        monkeypatch.setattr(requirements, '_version', lambda name: versions.get(name))
        found = versions.get('tensorflow-estimator')
        monkeypatch.setattr(
            importlib.util, 'find_spec', lambda name: found if name == 'tensorflow_estimator' else find_spec(name)
        )

    return replace


@pytest.mark.parametrize(
    'versions, want_bridge, want_legacy_keras',
    [
        (OF_215, False, False),
        ({**OF_215, 'keras': '3.0.5', 'tf-keras': '2.15.1'}, False, True),
        ({**FITS, 'tensorflow': '2.16.2', 'tf-keras': '2.16.0'}, True, True),
        ({**FITS, 'tensorflow': None, 'tensorflow-cpu': '2.18.1', 'tf-keras': '2.18.0'}, True, True),
        ({**FITS, 'keras': None}, True, True),
        (FITS, True, True),
        ({**FITS, 'protobuf': '7.36.2'}, True, True),
        ({**FITS, 'tensorflow': '2.20.0', 'tf-keras': '2.20.1', 'protobuf': '6.33.0'}, True, True),
    ],
)
def test_needs(installed, versions, want_bridge, want_legacy_keras):
    installed(versions)
    assert requirements.check() == (want_bridge, want_legacy_keras)


@pytest.mark.parametrize(
    'changes, want_words',
    [
        ({'tensorflow': '2.14.1'}, ['2.14.1', '2.15 to 2.21']),
        ({'tensorflow': '2.22.0.dev20260101'}, ['2.22.0.dev20260101', '2.15 to 2.21']),
        ({'tensorflow': None}, ['not installed', 'pip install "tensorflow==2.21.*"']),
        (
            {'tensorflow': '2.20.0', 'tf-keras': '2.20.1', 'protobuf': '7.36.2'},
            ['TensorFlow 2.20.0 cannot write graphs with protobuf 7.36.2', 'pip install "protobuf<7"'],
        ),
        ({'tf-keras': None}, ['2.21.0', 'none', 'pip install "tf-keras==2.21.*"']),
        ({'tf-keras': '2.20.1'}, ['2.21.0', '2.20.1', 'pip install "tf-keras==2.21.*"']),
        ({'tensorflow-estimator': None}, ['2.21.0', 'pip install "tensorflow-estimator==2.15.0"']),
        ({'tensorflow-estimator': '2.14.0'}, ['2.14.0', 'pip install "tensorflow-estimator==2.15.0"']),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(installed, changes, want_words):
    installed({**FITS, **changes})
    with pytest.raises(UserError) as error:
        requirements.check()
    message = str(error.value)
    assert [word for word in want_words if word not in message] == []
    assert '\n' not in message


@pytest.mark.parametrize(
    'value, want_error', [('', False), ('1', False), ('true', False), ('True', False), ('0', True), ('TRUE', True)]
)
def test_values_of_tf_use_legacy_keras(installed, monkeypatch, value, want_error):
    installed(FITS)
    monkeypatch.setenv(requirements.LEGACY_KERAS, value)
    if want_error:
        with pytest.raises(UserError, match=f"TF_USE_LEGACY_KERAS is '{value}'.*unset it or set it to 1"):
            requirements.check()
    else:
        assert requirements.check().legacy_keras


def test_an_imported_tensorflow_is_the_one_that_counts(installed, monkeypatch):
    installed(FITS)
    monkeypatch.setitem(sys.modules, 'tensorflow', SimpleNamespace(__version__='2.14.0'))
    with pytest.raises(UserError, match=r'TensorFlow 2\.14\.0 found'):
        requirements.check()
