"""Lists the public names that Estimator code uses, with their kinds.

`public_names.txt` is what TensorFlow 2.15 has. Made there, without the bridge, by

    python -m tests.compat.public_names > tests/compat/public_names.txt
"""

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

MODULES = (
    'estimator',
    'compat.v1.estimator',
    'keras.estimator',
    'compat.v1.keras.estimator',
    'feature_column',
    'compat.v1.feature_column',
    'compat.v1.layers',
)


def members(module: ModuleType, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yields the public members of a module and of those below it: the name after `prefix`, and the object."""
    for name in sorted(dir(module)):
        if not name.startswith('_'):
            value = getattr(module, name)
            yield f'{prefix}.{name}', value
            if isinstance(value, ModuleType):
                yield from members(value, f'{prefix}.{name}')


def kind(value: Any) -> str:
    """Returns class, function, module, or the name of another type."""
    kinds = {'module': ModuleType, 'class': type}
    found = (name for name, of in kinds.items() if isinstance(value, of))
    return next(found, 'function' if inspect.isroutine(value) else type(value).__name__)


def resolve(top: Any, path: str) -> Any:
    """Returns what `path`, such as 'compat.v1', is below `top`."""
    for name in path.split('.') if path else ():
        top = getattr(top, name)
    return top


if __name__ == '__main__':
    import tensorflow

    for path in MODULES:
        for name, value in members(resolve(tensorflow, path), f'tf.{path}'):
            print(name, kind(value))
