"""Lets tf-keras draw seeds on Python 3.12 and later.

tf-keras 2.16 to 2.18 asks for a random integer up to 1e9, a float, and these Pythons take integers only: after
`tf.keras.utils.set_random_seed` no layer could be built.
"""

import importlib.abc
import importlib.machinery
import random
import sys
from types import ModuleType, SimpleNamespace

MODULE = 'tf_keras.src.utils.tf_utils'


class _Random(random.Random):
    def randint(self, a, b):
        return super().randint(int(a), int(b))


def mend(module: ModuleType) -> None:
    """Gives tf-keras's module, which draws all seeds, a `random` that takes whole floats as older Pythons did."""
    module.random = SimpleNamespace(
        seed=random.seed, Random=_Random, randint=lambda a, b: random.randint(int(a), int(b))
    )


class _Loader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module):
        super().exec_module(module)
        mend(module)


class Finder(importlib.abc.MetaPathFinder):
    """Mends the module when somebody imports it."""

    def find_spec(self, fullname, path=None, target=None):
        """Returns the spec of tf-keras's module, or None for any other name."""
        spec = importlib.machinery.PathFinder.find_spec(fullname, path) if fullname == MODULE else None
        if spec:
            spec.loader = _Loader(fullname, spec.origin)
        return spec


def install() -> None:
    """Mends the module, now or when it is imported."""
    if MODULE in sys.modules:
        mend(sys.modules[MODULE])
    else:
        sys.meta_path.insert(0, Finder())
