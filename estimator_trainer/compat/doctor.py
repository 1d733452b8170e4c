"""`python -m estimator_trainer.compat --doctor`: what is installed and bridged, what does not fit, what mends it."""

import importlib.metadata
import platform
from collections.abc import Iterator

# TensorFlow requires it, so it is there wherever there is a requirement to check.
from packaging.requirements import Requirement

from estimator_trainer.compat import requirements
from estimator_trainer.compat.requirements import Problem

# What Estimator code runs on, in the order in which it is told.
PACKAGES = (
    *('tensorflow', 'tensorflow-estimator', 'tf-keras', 'keras', 'tensorboard', 'protobuf', 'numpy', 'absl-py'),
    'gin-config',
)


def main() -> int:
    """Prints the report; returns 0 if all is well, else 1."""
    print(f'python                {platform.python_version()}')
    for name in PACKAGES:
        print(f'{name:<21} {_version(name) or "not installed"}')
    found = list(problems())
    if not any(problem.what.startswith('TensorFlow ') and 'supported' in problem.what for problem in found):
        needs = requirements.needs()
        print(f'tf.estimator          {"bridged" if needs.bridge else "TensorFlow has it"}')
        print(
            f'tf.keras              {"tf-keras, by " + requirements.LEGACY_KERAS if needs.legacy_keras else "Keras 2"}'
        )
    for problem in found:
        print(f'PROBLEM: {problem.what}: {problem.mend}')
    if not found:
        print('no problems found')
    return 1 if found else 0


def problems() -> Iterator[Problem]:
    """Yields what keeps Estimator code from running, and what of TensorFlow's requirements is not fulfilled."""
    yield from requirements.problems()
    if _version('tensorboard') is None:  # TensorFlow 2.21 no longer requires it.
        yield Problem('TensorBoard is not installed, and tf.summary needs it', 'pip install tensorboard')
    for name in PACKAGES:
        for text in importlib.metadata.requires(name) or () if _version(name) else ():
            required = Requirement(text)
            # Those that the report names; the others are pip's business.
            if required.name not in PACKAGES or (required.marker and not required.marker.evaluate({'extra': ''})):
                continue
            found = _version(required.name)
            if found is None or not required.specifier.contains(found, prereleases=True):
                what = f'{name} {_version(name)} needs {required.name}{required.specifier}, {found or "none"} found'
                yield Problem(what, f'pip install "{required.name}{required.specifier}"')


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
