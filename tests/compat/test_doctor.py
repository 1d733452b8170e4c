"""The doctor tells what is installed, and for what does not fit the pip command that mends it."""

import importlib.metadata
import importlib.util
import sys

import pytest

from estimator_trainer.compat import doctor, requirements

pytestmark = pytest.mark.xdist_group('doctor')

OF_221 = {
    'tensorflow': '2.21.0',
    'tensorflow-estimator': '2.15.0',
    'tf-keras': '2.21.0',
    'keras': '3.15.1',
    'tensorboard': '2.20.0',
    'protobuf': '7.36.0',
    'numpy': '2.5.0',
    'absl-py': '2.5.0',
    'gin-config': '0.5.0',
}
REQUIRES = {
    'tensorflow': ['protobuf<8.0.0,>=6.31.1', 'numpy>=1.26.0', 'nvidia-cuda-nvcc-cu12<13; extra == "and-cuda"', 'six'],
    'tf-keras': ['tensorflow<2.22,>=2.21'],
}


@pytest.fixture
def installed(monkeypatch):
    """Returns a function that replaces what is installed."""
    monkeypatch.delenv(requirements.LEGACY_KERAS, raising=False)
    monkeypatch.delitem(sys.modules, 'tensorflow', raising=False)

    def replace(versions):
        def version(name):
            if versions.get(name) is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return versions[name]

        monkeypatch.setattr(importlib.metadata, 'version', version)
        monkeypatch.setattr(importlib.metadata, 'requires', lambda name: REQUIRES.get(name))
        estimator = versions.get('tensorflow-estimator')
        monkeypatch.setattr(importlib.util, 'find_spec', lambda name: estimator)

    return replace


@pytest.mark.parametrize(
    ('changes', 'want_problems'),
    [
        ({}, []),
        ({'tf-keras': None}, ['TensorFlow 2.21.0 needs tf-keras 2.21, none found: pip install "tf-keras==2.21.*"']),
        (
            {'tf-keras': '2.20.1'},
            ['TensorFlow 2.21.0 needs tf-keras 2.21, 2.20.1 found: pip install "tf-keras==2.21.*"'],
        ),
        ({'tensorboard': None}, ['TensorBoard is not installed, and tf.summary needs it: pip install tensorboard']),
        (
            {'protobuf': '4.25.3'},
            ['tensorflow 2.21.0 needs protobuf<8.0.0,>=6.31.1, 4.25.3 found: pip install "protobuf<8.0.0,>=6.31.1"'],
        ),
        ({'numpy': '1.24.0'}, ['tensorflow 2.21.0 needs numpy>=1.26.0, 1.24.0 found: pip install "numpy>=1.26.0"']),
        (
            {'tensorflow-estimator': None, 'tensorboard': None},
            [
                'TensorFlow 2.21.0 found without tensorflow-estimator: pip install "tensorflow-estimator==2.15.0"',
                'TensorBoard is not installed, and tf.summary needs it: pip install tensorboard',
            ],
        ),
        (
            {'tensorflow': None, 'tf-keras': None},
            ['TensorFlow (not installed) found, 2.15 to 2.21 supported: pip install "tensorflow==2.21.*"'],
        ),
    ],
)
def test_problems(installed, capsys, changes, want_problems):
    installed({**OF_221, **changes})
    assert doctor.main() == bool(want_problems)
    lines = capsys.readouterr().out.splitlines()
    assert [line.removeprefix('PROBLEM: ') for line in lines if line.startswith('PROBLEM: ')] == want_problems
    assert ('no problems found' in lines) == (not want_problems)
    for name in doctor.PACKAGES:
        (line,) = [line for line in lines if line.split()[0] == name]
        assert line.split(maxsplit=1)[1] == ({**OF_221, **changes}[name] or 'not installed')


def test_legacy_keras_set_to_no(installed, capsys, monkeypatch):
    installed(OF_221)
    monkeypatch.setenv(requirements.LEGACY_KERAS, '0')
    assert doctor.main() == 1
    assert "TF_USE_LEGACY_KERAS is '0', but Estimator code needs tf-keras: unset it or set it to 1" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ('versions', 'want_estimator'),
    [
        (OF_221, 'bridged'),
        ({**OF_221, 'tensorflow': '2.15.1', 'keras': '2.15.0', 'tf-keras': None}, 'TensorFlow has it'),
    ],
)
def test_what_is_bridged(installed, capsys, versions, want_estimator):
    installed(versions)
    doctor.main()
    assert f'tf.estimator          {want_estimator}' in capsys.readouterr().out.splitlines()
