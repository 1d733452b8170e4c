"""Stands in for TPU modules that TensorFlow no longer has: they can be imported, what is in them cannot be used."""

import importlib.abc
from types import ModuleType

from estimator_trainer.errors import UserError

# Module: the last TensorFlow that had it. `tensorflow_estimator` imports all of them when it is imported itself.
MODULES = {
    'tensorflow.python.tpu.session_support': '2.15',
    'tensorflow.python.tpu.tpu_embedding': '2.15',
    'tensorflow.python.tpu.tpu_embedding_gradient': '2.15',
}


class _Gone(type):
    """The type of the stand-ins: classes, because TPUEstimator asks `isinstance` about them."""

    def __call__(cls, *args, **kwargs):
        raise cls._error()

    def __instancecheck__(cls, instance):
        # Nothing can be one of them, so what was given is refused for a reason that does not help.
        raise cls._error()

    def _error(cls) -> UserError:
        return UserError(
            f'{cls.__module__}.{cls.__name__} is gone: TensorFlow {MODULES[cls.__module__]} was the last with it'
        )


class Loader(importlib.abc.Loader):
    """Fills a module with stand-ins: whatever is asked of it is a class that raises a `UserError` when it is called."""

    def exec_module(self, module: ModuleType) -> None:
        """Lets `module` make up its public attributes."""

        def stand_in(name: str) -> _Gone:
            if name.startswith('__'):  # the import system and `inspect` ask for these to learn whether they exist
                raise AttributeError(f'module {module.__name__!r} has no attribute {name!r}')
            made = _Gone(name, (), {'__module__': module.__name__})
            setattr(module, name, made)
            return made

        module.__getattr__ = stand_in
