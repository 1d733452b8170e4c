"""Gives modules that a TensorFlow no longer has their names back, each made only when somebody imports it."""

import importlib
import importlib.abc
import importlib.machinery
import sys
from types import ModuleType

from estimator_trainer.compat import gone

API_V1 = 'tensorflow_estimator.python.estimator.api._v1.estimator'
API_V2 = 'tensorflow_estimator.python.estimator.api._v2.estimator'
_ESTIMATOR = 'tensorflow_estimator.python.estimator'

# TensorFlow's API modules, under the names that users import and those that `import tensorflow` loads: the API that is
# the `estimator` of each. Both APIs hold both of them once more.
APIS = {'tensorflow': API_V2} | {
    f'{top}.{path}.{version}': api
    for top in ('tensorflow', 'tensorflow._api.v2')
    for path in ('compat', 'compat.v1.compat', 'compat.v2.compat')
    for version, api in (('v1', API_V1), ('v2', API_V2))
}

# Name that TensorFlow 2.15 has: the module that answers to it. A submodule of the left is that of the right.
ALIASES = {f'{module}.estimator': api for module, api in APIS.items()} | {
    'tensorflow.python.estimator': _ESTIMATOR,
    'tensorflow.python.distribute.estimator_training': 'estimator_trainer.compat.estimator_training',
    'tensorflow.python.tpu.error_handling': f'{_ESTIMATOR}.tpu.error_handling',
    'tensorflow.python.tpu.tpu_context': f'{_ESTIMATOR}.tpu.tpu_context',
}

# Where TF_USE_LEGACY_KERAS is set, TensorFlow's import adds tf_keras to its search paths. These are for a TensorFlow
# that was imported before.
KERAS_ALIASES = {
    'tensorflow.keras': 'tf_keras.api._v2.keras',
    'tensorflow.compat.v1.keras': 'tf_keras.api._v1.keras',
    'tensorflow.compat.v2.keras': 'tf_keras.api._v2.keras',
}


class _Alias(importlib.abc.Loader):
    """Puts another module in `sys.modules` under the name that is imported."""

    def __init__(self, target: str):
        self._target = target

    def exec_module(self, module: ModuleType) -> None:
        # The import system takes what it finds under the name afterwards. Had `create_module` returned the target, it
        # would have rewritten the target's own __spec__.
        sys.modules[module.__name__] = importlib.import_module(self._target)


class Finder(importlib.abc.MetaPathFinder):
    """Answers for the names in `aliases` and their submodules, and for the modules in `gone.MODULES`."""

    def __init__(self, aliases: dict[str, str]):
        self._aliases = aliases

    def find_spec(self, fullname, path=None, target=None):
        """Returns the spec of a name this finder answers for, or None."""
        if not fullname.startswith('tensorflow.'):
            return None
        if fullname in gone.MODULES:
            return importlib.machinery.ModuleSpec(fullname, gone.Loader())
        real_name = self._real_name(fullname)
        return importlib.machinery.ModuleSpec(fullname, _Alias(real_name)) if real_name else None

    def _real_name(self, fullname: str) -> str | None:
        name, submodule = fullname, ''
        while name:
            if name in self._aliases:
                return self._aliases[name] + submodule
            name, _, last = name.rpartition('.')
            submodule = f'.{last}{submodule}'
        return None


def install(aliases: dict[str, str]) -> None:
    """Makes the names in `aliases` and `gone.MODULES` importable."""
    # First, since the search path of a target's package would find its submodules too, and load them a second time.
    sys.meta_path.insert(0, Finder(aliases))
