"""Calls a function with a module: now where it is loaded, else when somebody imports it."""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Mapping
from types import ModuleType


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, spec: importlib.machinery.ModuleSpec, function: Callable[[ModuleType], None]):
        super().__init__(spec.name, spec.origin)
        self._function = function

    def exec_module(self, module):
        super().exec_module(module)
        self._function(module)


class Finder(importlib.abc.MetaPathFinder):
    """Finds those modules for which there is a function, where Python would find them."""

    def __init__(self, functions: Mapping[str, Callable[[ModuleType], None]]):
        self._functions = functions

    def find_spec(self, fullname, path=None, target=None):
        """Returns the spec of such a module, or None for any other name."""
        function = self._functions.get(fullname)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path) if function else None
        if spec:
            spec.loader = _Loader(spec, function)
        return spec


def call(functions: Mapping[str, Callable[[ModuleType], None]]) -> None:
    """Calls `functions[name]` with the module of that name, which is Python source, now or when it is imported."""
    for name in functions.keys() & sys.modules.keys():
        functions[name](sys.modules[name])
    if later := {name: function for name, function in functions.items() if name not in sys.modules}:
        sys.meta_path.insert(0, Finder(later))
