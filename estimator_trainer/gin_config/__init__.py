"""Reads gin files and bindings: where a file is found, what it says, and one-line errors for what is wrong in it.

Reading has two passes. `read` needs no TensorFlow and no user module: it finds the files and checks their syntax, so
that a mistake there is told at once, and what has to be known before TensorFlow starts (imports, the strategy) is
known. `apply` runs when the modules are imported and binds, statement by statement, what was read: gin itself reads no
file. From then on `bindings` tells where each value comes from; the other checks work on what it returns.
"""

from estimator_trainer.gin_config.annotations import check_types
from estimator_trainer.gin_config.application import apply
from estimator_trainer.gin_config.call_errors import first_line, missing_binding, unexpected_argument
from estimator_trainer.gin_config.modules import import_modules, user_modules
from estimator_trainer.gin_config.provenance import Binding, bindings, locate
from estimator_trainer.gin_config.registry import parameters_of, registered_names
from estimator_trainer.gin_config.resolution import resolved
from estimator_trainer.gin_config.sources import (
    CONFIGS,
    INSTALL_ROOT,
    Config,
    Source,
    needs_tensorflow,
    read,
    shipped_configs,
)
from estimator_trainer.gin_config.usage import unused

__all__ = [
    'CONFIGS',
    'INSTALL_ROOT',
    'Binding',
    'Config',
    'Source',
    'apply',
    'bindings',
    'check_types',
    'first_line',
    'import_modules',
    'locate',
    'missing_binding',
    'needs_tensorflow',
    'parameters_of',
    'read',
    'registered_names',
    'resolved',
    'shipped_configs',
    'unexpected_argument',
    'unused',
    'user_modules',
]
