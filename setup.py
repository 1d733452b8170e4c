import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
PACKAGES = ['estimator_trainer', 'model_fns', 'input_fns', 'configs']


def read_version() -> str:
    # Read, not imported: a build environment has none of the requirements.
    text = (HERE / 'estimator_trainer' / '__init__.py').read_text(encoding='utf-8')
    return re.search(r"^__version__ = '([^']+)'$", text, re.MULTILINE).group(1)


setup(
    name='estimator_trainer',
    version=read_version(),
    description='Trains, evaluates and serves TensorFlow Estimator code on every TensorFlow from 2.15 to 2.21',
    long_description=(HERE / 'README.md').read_text(encoding='utf-8'),
    long_description_content_type='text/markdown',
    license='Apache-2.0',
    packages=find_packages(include=[name for package in PACKAGES for name in (package, f'{package}.*')]),
    package_data={
        'configs': ['**/*.gin'],
        'input_fns': ['data/*/*.*'],
    },
    python_requires='>=3.10,<3.14',
    install_requires=[
        # 2.15 is the last with tf.estimator and 2.21 the newest that estimator_trainer.compat is tested on.
        'tensorflow>=2.15,<2.22',
        # The last release, and the one that compat makes importable on TensorFlow 2.16 and later.
        'tensorflow-estimator==2.15.0',
        # Keras 3 layers do not build in an Estimator's graph. Each tf-keras requires TensorFlow of its own minor
        # version, so pip picks the one that fits.
        'tf-keras>=2.15,<2.22',
        # tf.summary needs it, and TensorFlow 2.21 no longer brings it.
        'tensorboard>=2.15',
        # TensorFlow 2.20 allows protobuf 7 and cannot write a graph with it; each has a lower bound of its own.
        'protobuf<7',
        # Flags and logging of the command line.
        'absl-py>=1.4',
        # The registry of model_fns and input_fns and their configuration; 0.5.0 is the one whose parser is relied on.
        'gin-config>=0.5.0',
        # Progress bars.
        'tqdm>=4.60',
    ],
    extras_require={
        'test': [
            # Runs the tests; pyproject.toml's import mode needs a recent one.
            'pytest>=8.4',
            # Uses both cores.
            'pytest-xdist>=3.6',
            # A job that hangs fails its test instead of stopping the run.
            'pytest-timeout>=2.3',
            # Data frames for memory_input_fn.
            'pandas>=2',
            # The accuracy that the example configs are compared with.
            'scikit-learn>=1.3',
            # Lint and format, in CI too: bounded, for each minor version may format differently.
            'ruff>=0.17,<0.18',
        ],
    },
    entry_points={'console_scripts': ['estimator_trainer = estimator_trainer.cli:console_main']},
    classifiers=[
        'Programming Language :: Python :: 3.10',
        'Programming Language :: Python :: 3.11',
        'Programming Language :: Python :: 3.12',
        'Programming Language :: Python :: 3.13',
        'Topic :: Scientific/Engineering :: Artificial Intelligence',
    ],
)
