"""What is installed, read from package metadata: nothing here imports TensorFlow or Keras."""

import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterator
from typing import NamedTuple

from estimator_trainer.errors import UserError

FIRST, LAST = (2, 15), (2, 21)  # the TensorFlow versions supported, both included
LAST_WITH_ESTIMATOR = (2, 15)
_PROTOBUF_7_BREAKS = (2, 20)  # those before it do not allow protobuf 7
LEGACY_KERAS = 'TF_USE_LEGACY_KERAS'

# One build of TensorFlow each, all of which install the same `tensorflow` package.
_TENSORFLOW = ('tensorflow', 'tensorflow-cpu', 'tensorflow-macos', 'tensorflow-rocm', 'tf-nightly')


class Needs(NamedTuple):
    """What the installed TensorFlow needs before it runs Estimator code."""

    bridge: bool
    """It has no `tf.estimator` of its own."""
    legacy_keras: bool
    """Its `tf.keras` would be Keras 3, whose layers do not build in the graphs that Estimator makes."""


class Problem(NamedTuple):
    """Something that is installed, or set, and does not fit."""

    what: str
    mend: str
    """What to do, such as a pip command."""


def check() -> Needs:
    """Returns what the installed packages need.

    Raises:
        UserError: A package is missing or has a version that does not fit; says what was found and how to mend it.
    """
    for problem in problems():
        raise UserError(f'{problem.what}: {problem.mend}')
    return needs()


def needs() -> Needs:
    """Returns what the installed TensorFlow, which must be a supported one, needs."""
    keras = _version('keras')
    return Needs(
        bridge=_minor(_tensorflow_version()) > LAST_WITH_ESTIMATOR,
        legacy_keras=keras is None or int(keras.split('.')[0]) >= 3,
    )


def problems() -> Iterator[Problem]:
    """Yields what keeps Estimator code from running here, the most fundamental first."""
    found = _tensorflow_version()
    minor = _minor(found) if found else None
    if minor is None or not FIRST <= minor <= LAST:
        what = f'TensorFlow {found or "(not installed)"} found, {_dotted(FIRST)} to {_dotted(LAST)} supported'
        yield Problem(what, f'pip install "tensorflow=={_dotted(LAST)}.*"')
        return
    mend = 'pip install "tensorflow-estimator==2.15.0"'
    estimator = _version('tensorflow-estimator')
    if importlib.util.find_spec('tensorflow_estimator') is None:
        yield Problem(f'TensorFlow {found} found without tensorflow-estimator', mend)
    elif estimator and _minor(estimator) != LAST_WITH_ESTIMATOR:
        yield Problem(f'tensorflow-estimator {estimator} found, 2.15.0 expected', mend)
    protobuf = _version('protobuf')
    if minor == _PROTOBUF_7_BREAKS and protobuf and _minor(protobuf)[0] >= 7:
        yield Problem(f'TensorFlow {found} cannot write graphs with protobuf {protobuf}', 'pip install "protobuf<7"')
    if not needs().legacy_keras:
        return
    keras = _version('tf-keras')
    if keras is None or _minor(keras) != minor:
        what = f'TensorFlow {found} needs tf-keras {_dotted(minor)}, {keras or "none"} found'
        yield Problem(what, f'pip install "tf-keras=={_dotted(minor)}.*"')
    value = os.environ.get(LEGACY_KERAS, '')
    if value not in ('', '1', 'true', 'True'):  # the values that TensorFlow takes for yes
        yield Problem(f'{LEGACY_KERAS} is {value!r}, but Estimator code needs tf-keras', 'unset it or set it to 1')


def _tensorflow_version() -> str | None:
    if 'tensorflow' in sys.modules:
        return sys.modules['tensorflow'].__version__
    return next(filter(None, map(_version, _TENSORFLOW)), None)


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _minor(version: str) -> tuple[int, int]:
    major, minor = version.split('.')[:2]
    return int(major), int(minor)


def _dotted(version: tuple[int, int]) -> str:
    return '.'.join(map(str, version))
