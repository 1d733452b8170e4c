"""Imports the modules that a configuration names: that is how configurables come to be known."""

import importlib
import importlib.util
import os
import pathlib
import sys
from collections.abc import Sequence

from gin import config_parser

from estimator_trainer.errors import UserError, nearest
from estimator_trainer.gin_config.sources import INSTALL_ROOT, Config
from estimator_trainer.gin_config.statements import Statement

_SHIPPED_PACKAGES = ('estimator_trainer', 'model_fns', 'input_fns')


def import_statements(config: Config) -> list[Statement]:
    """Returns the statements that import a module; `from __gin__ import ...` only switches a feature of gin on."""
    statements = [item for item in config.statements if isinstance(item.parsed, config_parser.ImportStatement)]
    return [item for item in statements if not item.parsed.module.startswith('__gin__')]


def user_modules(config: Config, modules: Sequence[str]) -> list[str]:
    """Returns those of the modules to be imported that do not ship with the package."""
    names = [*modules, *(statement.parsed.module for statement in import_statements(config))]
    return [name for name in names if not _ships(name)]


def _ships(name: str) -> bool:
    path = INSTALL_ROOT.joinpath(*name.split('.'))
    there = path.with_suffix('.py').is_file() or path.joinpath('__init__.py').is_file()
    return there and name.partition('.')[0] in _SHIPPED_PACKAGES


def import_modules(config: Config, modules: Sequence[str]) -> None:
    """Imports what `--import_module` and the gin files name.

    Raises:
        UserError: there is no such module, or a config that ships would get another one than it was written for. What
            a module itself raises is left as it is.
    """
    for name in modules:
        _import_module(name, f'--import_module={name}')
    for statement in import_statements(config):
        name = statement.parsed.module
        if statement.origin.shipped and _ships(name):
            _import_shipped(name, statement.quoted)
        else:
            _import_module(name, statement.quoted)


def _import_shipped(name: str, where: str) -> None:
    sys.path.insert(0, str(INSTALL_ROOT))  # before the current directory, which may have a package of that name
    try:
        _import_module(name, where)
    finally:
        sys.path.remove(str(INSTALL_ROOT))
    _refuse_hidden(name.partition('.')[0], where)


def _import_module(name: str, where: str) -> None:
    if not all(part.isidentifier() for part in name.split('.')):
        raise UserError(f'{where}: expected the name of a module, such as my_package.my_model, found {name!r}')
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name and not name.startswith(f'{error.name}.'):
            raise  # The module is there; something that it imports is not.
        package = name.partition('.')[0]
        if package in _SHIPPED_PACKAGES:
            _refuse_hidden(package, where)
        raise UserError(
            f'{where}: no module named {error.name!r} in the current directory ({os.getcwd()}) or on PYTHONPATH'
            f'{_hint(name)}'
        ) from None


def _hint(name: str) -> str:
    parent, _, last = name.rpartition('.')
    if hasattr(sys.modules.get(parent), last):
        return f'; {last} is something in a module, so import that: import {parent}'
    found = [path.stem for path in pathlib.Path().glob('*.py')]
    for package in _SHIPPED_PACKAGES:
        found += [f'{package}.{path.stem}' for path in (INSTALL_ROOT / package).glob('[!_]*.py')]
    return nearest(name, found)


def _refuse_hidden(package: str, where: str) -> None:
    """Refuses a package of the user's that Python finds in the place of the one that ships."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        return
    found = pathlib.Path(next(iter(spec.submodule_search_locations or [spec.origin]))).resolve().parent
    if found != INSTALL_ROOT:
        raise UserError(
            f'{where}: the package {package!r} in {found} hides the one that ships with estimator_trainer; rename it, '
            f'or start from another directory'
        )
