"""Reads gin files and bindings: where a file is found, what it says, and one-line errors for what is wrong in it.

Reading has two passes. `read` needs no TensorFlow and no user module: it finds the files and checks their syntax, so
that a mistake there is told at once, and what has to be known before TensorFlow starts (imports, the strategy) is
known. `apply` runs when the modules are imported and hands the same files to gin.
"""

import dataclasses
import importlib
import importlib.util  # gin reads importlib.util without importing it when a file is missing (gin-config 0.5.0).
import inspect
import io
import os
import pathlib
import re
import sys
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gin
from gin import config_parser

from estimator_trainer.errors import UserError, nearest

# The packages that ship beside this one: model_fns, input_fns and configs.
INSTALL_ROOT = pathlib.Path(__file__).resolve().parent.parent
CONFIGS = INSTALL_ROOT / 'configs'
_SHIPPED_PACKAGES = ('model_fns', 'input_fns')

# gin appends this to the text of an exception: once for each file on the way to the statement, innermost first.
_GIN_LOCATION = re.compile(r'\n  In (?:file "(?P<file>.*)",|bindings string) line (?P<line>\d+)\n\s*(?P<text>.*)')


@dataclasses.dataclass(frozen=True)
class Source:
    """One gin file, or one `--gin_param`, and the statements in it (those of included files come first)."""

    name: str
    path: str | None
    text: str
    statements: tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Config:
    """All that the caller configured, in order of precedence: a later statement overrides an earlier one."""

    sources: tuple[Source, ...]
    search_paths: tuple[str, ...]

    @property
    def statements(self) -> Iterable[Any]:
        """The statements of all sources, in order."""
        return (statement for source in self.sources for statement in source.statements)

    def literal(self, binding: str, default: Any = None) -> Any:
        """Returns the value last bound to `configurable.parameter` outside any scope, as written in the source.

        A macro is followed to its value. What only gin can tell, a reference (`@name()`) or a macro that is not
        defined, comes back as an object that is no string.
        """
        value = self._last(*binding.rpartition('.')[::2], default)
        followed = set()
        while isinstance(value, _Reference) and value.text.startswith('%') and value not in followed:
            followed.add(value)
            value = self._last(value.text[1:], '', value)
        return value

    def _last(self, selector: str, parameter: str, default: Any) -> Any:
        """Returns what was last bound to a parameter, or to a macro, which gin parses as one with an empty name."""
        for statement in self.statements:
            if not isinstance(statement, config_parser.BindingStatement) or statement.arg_name != parameter:
                continue
            name = f'{statement.scope}/{statement.selector}' if statement.scope else statement.selector
            if name == selector or (parameter and not statement.scope and name.endswith(f'.{selector}')):
                default = statement.value
        return default


@dataclasses.dataclass(frozen=True)
class _Reference:
    """A gin reference or macro in a value, kept as text: what it names is not known before modules are imported."""

    text: str

    def __repr__(self):
        return repr(self.text)


class _SyntaxOnly(config_parser.ParserDelegate):
    def configurable_reference(self, scoped_configurable_name, evaluate):
        return _Reference(f'@{scoped_configurable_name}{"()" if evaluate else ""}')

    def macro(self, macro_name):
        return _Reference(f'%{macro_name}')


def shipped_configs() -> list[str]:
    """Returns the names of the .gin files that ship with the package."""
    return sorted(path.name for path in CONFIGS.glob('*.gin'))


def read(gin_files: Sequence[str], gin_params: Sequence[str], search_paths: Sequence[str]) -> Config:
    """Finds and parses the gin files and bindings, without importing anything.

    Raises:
        UserError: a file is missing, or a statement is not gin.
    """
    sources = [_read_file(name, search_paths, f'--gin_file={name}') for name in gin_files]
    for number, text in enumerate(gin_params, 1):
        name = f'--gin_param #{number}'
        sources.append(Source(name, None, text, tuple(_parse(text, name, search_paths))))
    return Config(tuple(sources), tuple(search_paths))


def _prefixes(search_paths: Sequence[str]) -> list[str]:
    """Where a relative gin file is looked for, in order: as given, the search paths, the installed configs."""
    return ['', *search_paths, str(CONFIGS), str(INSTALL_ROOT)]


def _read_file(name: str, search_paths: Sequence[str], where: str, including: tuple[str, ...] = ()) -> Source:
    for prefix in _prefixes(search_paths):
        path = os.path.join(prefix, name)
        if os.path.isfile(path):
            break
    else:
        beside = [str(path) for path in pathlib.Path().glob('*.gin')]
        hint = nearest(name, [*shipped_configs(), *beside, *(f'configs/{config}' for config in shipped_configs())])
        if ',' in name:
            hint = '; repeat --gin_file for several files'
        looked = ', '.join(prefix or 'the current directory' for prefix in _prefixes(search_paths)[:-1])
        what = 'is a directory' if os.path.isdir(name) else 'no such file'
        raise UserError(f'{where}: {what}; looked in {looked}{hint}')
    if os.path.realpath(path) in including:
        raise UserError(f'{where}: {name} includes itself')
    try:
        text = pathlib.Path(path).read_text(encoding='utf-8-sig')  # editors on Windows begin a file with a BOM
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f'{where}: cannot read {path}: {error}') from None
    statements = _parse(text, path, search_paths, (*including, os.path.realpath(path)))
    # A user module may change the current directory before gin reads the file.
    return Source(name, os.path.abspath(path), text, tuple(statements))


def _parse(text: str, name: str, search_paths: Sequence[str], including: tuple[str, ...] = ()) -> list[Any]:
    statements = []
    try:
        for statement in config_parser.ConfigParser(text, _SyntaxOnly()):
            if isinstance(statement, config_parser.IncludeStatement):
                where = f'{name}:{statement.location.line_num}: include {statement.filename!r}'
                statements.extend(_read_file(statement.filename, search_paths, where, including).statements)
            else:
                statements.append(
                    statement._replace(location=statement.location._replace(filename=name)),
                )
    except SyntaxError as error:
        raise UserError(_syntax_message(name, error.lineno, error.text or text, error.msg)) from None
    except tokenize.TokenError as error:
        message, (line, _) = error.args
        lines = text.splitlines() or ['']
        line = min(line, len(lines))  # Before 3.12 Python names the line after the last.
        raise UserError(_syntax_message(name, line, lines[line - 1], message)) from None
    except (ValueError, TypeError) as error:  # a literal that Python refuses, such as {[]: 1}
        raise UserError(f'{name}: {first_line(error)}') from None
    return statements


def _syntax_message(name: str, line: int | None, text: str, message: str) -> str:
    text = text.strip().splitlines()[0] if text.strip() else ''
    where = f'{name}: {text}' if name.startswith('--') else f'{name}:{line}: {text}'
    key, _, value = (part.strip() for part in text.partition('='))
    python_names = {'true': 'True', 'false': 'False', 'null': 'None', 'none': 'None'}
    if value.lower() in python_names:
        return f'{where}: not a Python value; did you mean {key} = {python_names[value.lower()]}?'
    if re.fullmatch(r'[A-Za-z_./~][\w./:~*-]*', value):
        return f'{where}: strings need quotes: {key} = {value!r}'
    message = message.splitlines()[-1].strip().rstrip('.')  # gin puts what it tells of the token last.
    return f"{where}: {message}; expected gin's configurable.parameter = value"


def _imports(config: Config) -> list[Any]:
    # `from __gin__ import ...` switches a feature of gin on; there is nothing to import.
    imports = [statement for statement in config.statements if isinstance(statement, config_parser.ImportStatement)]
    return [statement for statement in imports if not statement.module.startswith('__gin__')]


def user_modules(config: Config, modules: Sequence[str]) -> list[str]:
    """Returns those of the modules to be imported that do not ship with the package."""
    names = [*modules, *(statement.module for statement in _imports(config))]
    return [name for name in names if name.partition('.')[0] not in _SHIPPED_PACKAGES]


def import_modules(config: Config, modules: Sequence[str]) -> None:
    """Imports what `--import_module` and the gin files name: that is how configurables come to be known.

    Raises:
        UserError: there is no such module. What a module itself raises is left as it is.
    """
    for name in modules:
        _import_module(name, f'--import_module={name}')
    for statement in _imports(config):
        _import_module(statement.module, _location(statement))


def _import_module(name: str, where: str) -> None:
    if not all(part.isidentifier() for part in name.split('.')):
        raise UserError(f'{where}: expected the name of a module, such as my_package.my_model, found {name!r}')
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name and not name.startswith(f'{error.name}.'):
            raise  # The module is there; something that it imports is not.
        package = sys.modules.get(name.partition('.')[0])
        if package is not None and package.__name__ in _SHIPPED_PACKAGES and getattr(package, '__path__', None):
            found = pathlib.Path(next(iter(package.__path__))).resolve()
            if found.parent != INSTALL_ROOT:
                raise UserError(
                    f'{where}: the package {package.__name__!r} in {found.parent} hides the one that ships with '
                    f'estimator_trainer; rename it, or start from another directory'
                ) from None
        found = [path.stem for path in pathlib.Path().glob('*.py')]
        found += [f'{package}.{path.stem}' for package in _SHIPPED_PACKAGES for path in _modules_of(package)]
        raise UserError(
            f'{where}: no module named {error.name!r} in the current directory ({os.getcwd()}) or on PYTHONPATH'
            f'{nearest(name, found)}'
        ) from None


def _modules_of(package: str) -> Iterable[pathlib.Path]:
    return (INSTALL_ROOT / package).glob('[!_]*.py')


def _location(statement: Any) -> str:
    location = statement.location
    text = location.line_content.strip()
    return (
        f'{location.filename}: {text}'
        if location.filename.startswith('--')
        else (f'{location.filename}:{location.line_num}: {text}')
    )


def apply(config: Config, overrides: Mapping[str, tuple[str, Any]]) -> None:
    """Gives the configuration to gin, then `overrides` (binding -> the flag's name and its value), which win.

    Raises:
        UserError: an unknown configurable, parameter, reference or macro.
    """
    for prefix in _prefixes(config.search_paths)[1:]:
        gin.add_config_file_search_path(prefix)
    for source in config.sources:
        try:
            text = io.StringIO(source.text)
            text.name = source.path  # gin names it in its errors
            gin.parse_config(text)
        except (ValueError, SyntaxError, OSError, NameError, AttributeError, ImportError, TypeError) as error:
            raise UserError(_explain(error, source)) from None
    for binding, (flag, value) in overrides.items():
        try:
            gin.bind_parameter(binding, value)
        except ValueError as error:
            raise UserError(f'{flag}: {first_line(error)}') from None
    try:
        gin.finalize()
    except ValueError as error:
        raise UserError(_explain_macro(error, config) or first_line(error)) from None


def _explain_macro(error: ValueError, config: Config) -> str | None:
    """Returns gin's error about an undefined macro with its place, or None for another error."""
    found = re.match(r"No bindings specified for '(.+?)/gin\.macro'", str(error))
    if not found:
        return None
    bindings = [statement for statement in config.statements if isinstance(statement, config_parser.BindingStatement)]
    macros = [f'{binding.scope}/{binding.selector}'.lstrip('/') for binding in bindings if not binding.arg_name]
    where = next(
        (_location(binding) for binding in bindings if f"'%{found[1]}'" in repr([binding.value])),
        config.sources[-1].name,
    )
    return f'{where}: macro %{found[1]} is not defined{nearest(found[1], macros)}'


def _explain(error: Exception, source: Source) -> str:
    """Returns gin's error as one line: place, statement, what is wrong, nearest valid names."""
    message = str(error)
    found = _GIN_LOCATION.search(message)
    what = message[: found.start()] if found else first_line(error)
    where = source.name
    if found and source.path is None:
        where = f'{source.name}: {found["text"]}'
    elif found:
        where = f'{found["file"] or source.path}:{found["line"]}: {found["text"]}'
    unknown = re.match(r"No configurable matching (?:reference )?'@?(.+?)(?:\(\))?'", what)
    parameter = re.match(r"Configurable '(.+?)' doesn't have a parameter named '(.+?)'", what)
    hint = ''
    if unknown:
        hint = nearest(unknown[1], registered_names()) or (
            '; a configurable is known once its module is imported: add `import <module>` at the top of the gin file '
            'or --import_module=<module>'
        )
    elif parameter:
        names = parameters_of(parameter[1])
        hint = nearest(parameter[2], names) or f'; it has {", ".join(names)}'
    return f'{where}: {what.rstrip(".")}{hint}'


def registered_names() -> list[str]:
    """Returns the names of all configurables, with and without their modules."""
    # gin has no public list of them.
    selectors = [selector for selector, _ in gin.config._REGISTRY.items()]
    return sorted({selector.rpartition('.')[2] for selector in selectors} | set(selectors))


def parameters_of(selector: str) -> list[str]:
    """Returns the names of the parameters that can be bound for a registered configurable."""
    parameters = inspect.signature(gin.get_configurable(selector)).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
    return [name for name in names if name != 'self']


def first_line(error: BaseException) -> str:
    """Returns an exception's message without the call stack of configurables that gin appends to it."""
    return re.split(r'\n  (?:In call to configurable|In file|In bindings string)', str(error))[0].strip()


def missing_binding(error: BaseException) -> UserError | None:
    """Returns the one-line error for a parameter that neither gin nor the caller gave, or None for another error."""
    message = str(error)
    required = re.match(r'Required bindings for `(.+?)` not provided in config: \[(.*?)\]', message)
    unbound = re.search(
        r"No values supplied by Gin or caller for arguments: \[(.*?)\].*In call to configurable '(.+?)'",
        message,
        re.DOTALL,
    )
    if isinstance(error, RuntimeError) and required:
        called, names = required.groups()
    elif isinstance(error, TypeError) and unbound:
        names, called = unbound.groups()
    else:
        return None
    name = names.split(',')[0].strip("' ")
    if name in ('features', 'labels', 'mode', 'params', 'config'):
        return UserError(f'{called} is called by gin; a function that Estimator calls is written without (): @{called}')
    return UserError(f'{called}.{name} has no value: bind it, e.g. --gin_param="{called}.{name} = ..."')
