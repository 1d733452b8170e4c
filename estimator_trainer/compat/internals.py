"""The private symbols of TensorFlow that the framework needs: `internals.<name>` is the symbol.

Each is in `SYMBOLS` and has a test on every TensorFlow supported, so that the day TensorFlow drops one it is missed by
name. Nothing is imported before it is asked for.
"""

import importlib
from typing import Any, NamedTuple

from estimator_trainer.errors import TrainerError


class Symbol(NamedTuple):
    """Where a private symbol is."""

    module: str
    attribute: str | None
    """None: the module itself."""
    why: str


SYMBOLS = {
    'tf_export': Symbol(
        'tensorflow.python.util.tf_export', None, 'knows the API names that exporting is allowed under'
    ),
    'LazyLoader': Symbol('tensorflow.python.util.lazy_loader', 'LazyLoader', 'tf.estimator is loaded when it is used'),
    'run_distribute_coordinator': Symbol(
        'tensorflow.python.distribute.distribute_coordinator',
        'run_distribute_coordinator',
        'runs the task of a cluster under a strategy',
    ),
    'CoordinatorMode': Symbol(
        'tensorflow.python.distribute.distribute_coordinator', 'CoordinatorMode', 'how the coordinator runs'
    ),
    'get_current_worker_context': Symbol(
        'tensorflow.python.distribute.distribute_coordinator_context',
        'get_current_worker_context',
        'the task that the coordinator runs in this thread',
    ),
    'tpu_system_metadata': Symbol(
        'tensorflow.python.tpu.tpu_system_metadata', None, "has the deadline of the wait for a TPU's master"
    ),
}


def __getattr__(name: str) -> Any:
    if name not in SYMBOLS:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    symbol = SYMBOLS[name]
    try:
        module = importlib.import_module(symbol.module)
        value = getattr(module, symbol.attribute) if symbol.attribute else module
    except (ImportError, AttributeError) as error:
        raise TrainerError(f'this TensorFlow has no {symbol.module}:{symbol.attribute} ({symbol.why})') from error
    globals()[name] = value
    return value
