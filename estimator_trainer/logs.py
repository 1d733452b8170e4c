"""Keeps the dependencies' own log lines away from people who did not ask for them. No TensorFlow.

absl's `--verbosity` brings everything back: 1 debug, 0 info, -1 warnings (deprecations among them), -2 errors.
"""

import contextlib
import logging
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator

import absl.logging

_DEPENDENCIES = ('tensorflow', 'tensorflow_estimator', 'keras', 'tf_keras', 'tensorboard', 'gin', 'absl', 'numpy')
_DEPENDENCY_FILE = re.compile(rf'[/\\]site-packages[/\\]({"|".join(_DEPENDENCIES)})[/\\]')
# Keras warns of its v1 layers in the caller's name, so that these look like the user's own.
_DEPRECATIONS = r'`tf\.(layers|compat\.v1\.layers|nn)\.|`layer\.(apply|add_\w+)`|`Model\.state_updates`'


def configure(verbosity: int | None) -> None:
    """Sets up logging before TensorFlow is imported; `verbosity` is absl's, None when the caller gave none."""
    # One handler, on the root logger: TensorFlow then adds none of its own and a later logging.basicConfig() does
    # nothing, so that each line appears once.
    absl.logging.use_absl_handler()
    logger = logging.getLogger('tensorflow')
    logger.handlers.clear()
    if verbosity is not None:
        os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', str(min(max(-verbosity, 0), 3)))
        # absl counts 1 (debug) to -3 (fatal), logging 10 (debug) to 50.
        logger.setLevel(min(max(logging.INFO - 10 * verbosity, logging.DEBUG), logging.CRITICAL))
        return
    # TensorFlow's C++ writes "ERROR" lines about absent GPU plug-ins on every start; real errors become exceptions.
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
    logger.setLevel(logging.WARNING)
    for name in ('tensorflow', 'absl'):
        logging.getLogger(name).addFilter(_not_a_dependency_s_warning)
    for name in _DEPENDENCIES:
        warnings.filterwarnings('ignore', module=rf'{name}(\.|$)')
    warnings.filterwarnings('ignore', message=_DEPRECATIONS)


def _not_a_dependency_s_warning(record: logging.LogRecord) -> bool:
    # gin says as an error that an included file is not in a Python package, before it looks in the search paths.
    if record.pathname.endswith(os.path.join('gin', 'resource_reader.py')):
        return False
    return record.levelno >= logging.ERROR or not _DEPENDENCY_FILE.search(record.pathname)


@contextlib.contextmanager
def stderr_held_back(verbosity: int | None) -> Iterator[None]:
    """Drops what C++ writes to stderr in the block, unless it fails or the caller gave a verbosity.

    For `import tensorflow`: since 2.16 its C++ libraries write there before TF_CPP_MIN_LOG_LEVEL is heeded.
    """
    if verbosity is not None:
        yield
        return
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held, open(os.dup(2), 'w') as stderr:
        os.dup2(held.fileno(), 2)
        try:
            with contextlib.redirect_stderr(stderr):  # Python's own, our error messages among them, goes on.
                yield
        except BaseException:
            held.seek(0)
            stderr.write(held.read().decode(errors='replace'))
            raise
        finally:
            stderr.flush()
            os.dup2(stderr.fileno(), 2)
