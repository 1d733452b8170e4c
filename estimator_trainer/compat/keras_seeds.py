"""Lets tf-keras draw seeds on Python 3.12 and later.

tf-keras 2.16 to 2.18 asks for a random integer up to 1e9, a float, and these Pythons take integers only: after
`tf.keras.utils.set_random_seed` no layer could be built.
"""

import random
from types import ModuleType, SimpleNamespace

from estimator_trainer.compat import after_import

MODULE = 'tf_keras.src.utils.tf_utils'


class _Random(random.Random):
    def randint(self, a, b):
        return super().randint(int(a), int(b))


def mend(module: ModuleType) -> None:
    """Gives tf-keras's module, which draws all seeds, a `random` that takes whole floats as older Pythons did."""
    module.random = SimpleNamespace(
        seed=random.seed, Random=_Random, randint=lambda a, b: random.randint(int(a), int(b))
    )


def install() -> None:
    """Mends the module, now or when it is imported."""
    after_import.call({MODULE: mend})
