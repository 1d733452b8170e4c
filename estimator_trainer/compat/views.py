"""What a program sees of TensorFlow, numpy and Python: the real modules, plus names that these have no longer.

The import statement of everybody but TensorFlow, its companions and Python's own library goes through `Views`. Where
a name below a module has moved, they get a *view* of that module: attributes are those of the real module, and those
that it lacks are looked up in a table. So the real modules stay as they are, for themselves and for each other.
"""

import builtins
import contextlib
import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

# Who gets the real modules: those that the names are about, and those that belong to them.
_INSIDERS = frozenset(sys.stdlib_module_names) | {
    'estimator_trainer',
    'keras',
    'numpy',
    'tensorboard',
    'tensorflow',
    'tensorflow_estimator',
    'tf_keras',
}


class Gone(NamedTuple):
    """A name that nothing replaces."""

    last: str
    """The last version that had it."""
    instead: str
    """What to do."""


class View:
    """A module's attributes, and those of the table. Setting an attribute sets the real module's."""

    # No subclass of ModuleType: an attribute that such a one lacks costs ten times as much to find.
    __slots__ = ('_view',)
    __class__ = property(lambda self: ModuleType)  # what isinstance and inspect see

    def __init__(self, views: 'Views', path: str, real: ModuleType):
        object.__setattr__(self, '_view', (views, path, real, views.viewed_in(path)))

    def __getattr__(self, name: str) -> Any:
        views, path, real, viewed = self._view
        try:
            value = getattr(real, name)
        except (AttributeError, ModuleNotFoundError) as error:  # a lazy module may not find what it stands for
            return views.missing(path, real, name, error)
        return views.view(f'{path}.{name}', value) if name in viewed else value

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._view[2], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._view[2], name)

    def __dir__(self) -> Iterable[str]:
        # Not those of the table: who goes through all that a module has is to find what it has.
        return dir(self._view[2])

    def __repr__(self) -> str:
        return repr(self._view[2])

    def __reduce__(self) -> tuple:
        return pkgutil.resolve_name, (self.__name__,)


# Else the class's own would be found.
View.__doc__ = property(lambda self: self._view[2].__doc__)


class Views:
    """The tables, and the views made by them.

    Args:
        moved: Name: where it is now. A moved module's submodules and attributes have moved with it.
        gone: Name: what is known of it. It holds for what is below the name, too.
        stand_ins: Name: makes what stands for any name below it that the other tables do not have.
        first: Package: the one whose modules and attributes come before its own.
    """

    def __init__(
        self,
        moved: Mapping[str, str],
        gone: Mapping[str, Gone],
        stand_ins: Mapping[str, Callable[[str], Any]] | None = None,
        first: Mapping[str, str] | None = None,
    ):
        self._moved, self._gone, self._stand_ins, self._first = moved, gone, stand_ins or {}, first or {}
        self._parents = {parent for name in (*moved, *gone) for parent in _parents(name)}
        self._roots = {name.partition('.')[0] for name in (*moved, *gone)}
        self._views: dict[str, View] = {}
        self._found: dict[str, Any] = {}
        self._import, self._import_module = builtins.__import__, importlib.import_module

    def install(self) -> None:
        """Makes the import statement and `importlib.import_module` give views, to programs."""
        builtins.__import__, importlib.import_module = self._import_for, self._import_module_for

    def module(self, path: str) -> Any:
        """Imports a module, and returns what a program is to get."""
        if path in self._views and path in sys.modules:
            return self._views[path]
        package, _, rest = path.partition('.')
        first = self._first.get(package, '')
        # Who names the one that comes first, or one beside it, means that one.
        named = path.startswith(first.rpartition('.')[0])
        for name in (path,) if named else (f'{first}.{rest}'.rstrip('.'), path):
            try:
                return self.view(path, self._import_module(name))
            except ModuleNotFoundError as missing:
                # Any other name: the module is there, and it is its own import that fails.
                if not f'{name}.'.startswith(f'{missing.name}.'):
                    raise
                error = missing
        return self.view(path, self._elsewhere(path, error))

    def view(self, path: str, real: Any) -> Any:
        """Returns the view of a module if names below it have moved, else the module itself."""
        if path not in self._parents:
            return real
        view = self._views.get(path)
        if view is None or view._view[2] is not real:
            view = self._views[path] = View(self, path, real)
        return view

    def missing(self, path: str, real: ModuleType, name: str, error: Exception) -> Any:
        """Returns an attribute that the module `real`, which is seen as `path`, does not have; else raises `error`."""
        if name == '__all__':  # without it, `import *` would look into the view's own dictionary
            return [public for public in dir(real) if not public.startswith('_')]
        full = f'{path}.{name}'
        if full not in self._found:
            # A submodule that nobody has imported yet comes before the name that it has elsewhere.
            known = full in self._parents or full in self._moved or full in sys.modules
            self._found[full] = self.module(full) if known else self._elsewhere(full, error)
        return self._found[full]

    def viewed_in(self, path: str) -> set[str]:
        """Returns the names of the modules in a module that are given as views."""
        return {name.rpartition('.')[2] for name in self._parents if name.rpartition('.')[0] == path}

    def _elsewhere(self, path: str, error: Exception) -> Any:
        """Returns what the tables have for a name that is not where it was; raises `error` if they have nothing."""
        name, rest = path, ''
        while name:
            if name in self._moved:
                with contextlib.suppress(ImportError, AttributeError):
                    return pkgutil.resolve_name(self._moved[name] + rest)
            if name in self._gone:
                raise self._gone_error(path, name, type(error)) from None
            if name in self._parents and not rest:
                return ModuleType(path)  # nothing is left of it but the names that have moved
            if name in self._stand_ins:
                return self._stand_ins[name](path)
            name, _, last = name.rpartition('.')
            rest = f'.{last}{rest}'
        raise error.with_traceback(None)  # the rest of it is how it was looked for

    def _gone_error(self, path: str, name: str, kind: type[Exception]) -> Exception:
        last, instead = self._gone[name]
        return kind(f'{path} is gone: {last} was the last with it; {instead}', name=path)

    def _import_for(self, name, globals=None, locals=None, fromlist=(), level=0):
        # Who calls `__import__` by name may give no globals.
        importer = sys._getframe(1).f_globals if globals is None else globals
        if level or not self._is_for(name, importer):
            return self._import(name, globals, locals, fromlist, level)
        module = self.module(name)
        if not fromlist:
            return self.module(name.partition('.')[0])
        for item in fromlist:
            if item == '*' or hasattr(module, item):
                continue
            path = f'{name}.{item}'
            try:
                self.module(path)
            except ModuleNotFoundError:  # Python goes on to say that the name cannot be imported
                if path in self._gone:
                    raise self._gone_error(path, path, ImportError) from None
        return module

    def _import_module_for(self, name, package=None):
        if self._is_for(name, sys._getframe(1).f_globals):
            return self.module(name)
        return self._import_module(name, package)

    def _is_for(self, name: str, importer: Mapping[str, Any] | None) -> bool:
        if name.partition('.')[0] not in self._roots or not importer:
            return False
        # Without a name it is C code that imports.
        return str(importer.get('__name__', 'builtins')).partition('.')[0] not in _INSIDERS


def _parents(name: str) -> Iterable[str]:
    parent = name.rpartition('.')[0]
    while parent:
        yield parent
        parent = parent.rpartition('.')[0]
