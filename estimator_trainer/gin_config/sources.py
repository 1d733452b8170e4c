"""Where a gin file is found, and all that the caller configured."""

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gin import config_parser

from estimator_trainer.errors import UserError, nearest
from estimator_trainer.gin_config.statements import Origin, Reference, Statement, parse

# The packages that ship beside this one: model_fns, input_fns and configs.
INSTALL_ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGS = INSTALL_ROOT / 'configs'


@dataclasses.dataclass(frozen=True)
class Source:
    """One gin file, or one `--gin_param`, and the statements in it, with those of an included file in its place."""

    name: str
    path: str | None
    text: str
    statements: tuple[Statement, ...]


@dataclasses.dataclass(frozen=True)
class Config:
    """All that the caller configured, in order of precedence: a later statement overrides an earlier one."""

    sources: tuple[Source, ...]
    search_paths: tuple[str, ...]

    @property
    def statements(self) -> Iterable[Statement]:
        """The statements of all sources, in order."""
        return (statement for source in self.sources for statement in source.statements)

    def literal(self, binding: str, default: Any = None) -> Any:
        """Returns the value last bound to `configurable.parameter` outside any scope, as written in the source.

        A macro is followed to its value. What only gin can tell, a reference (`@name()`) or a macro that is not
        defined, comes back as an object that is no string.
        """
        value, _ = self._last(*binding.rpartition('.')[::2], default)
        followed = set()
        while isinstance(value, Reference) and value.macro and value not in followed:
            followed.add(value)
            value, _ = self._last(value.macro, '', value)
        return value

    def place(self, binding: str) -> str:
        """Returns where `configurable.parameter` was last bound and its name, `my.gin:7: a.b`; else the name alone."""
        _, statement = self._last(*binding.rpartition('.')[::2], None)
        return binding if statement is None else f'{statement.where}: {binding}'

    def _last(self, selector: str, parameter: str, default: Any) -> tuple[Any, Statement | None]:
        """Returns what was last bound to a parameter, or to a macro, which gin parses as one with an empty name.

        And the statement that does.
        """
        last = None
        for statement in self.statements:
            bound = statement.parsed
            if not isinstance(bound, config_parser.BindingStatement) or bound.arg_name != parameter:
                continue
            name = f'{bound.scope}/{bound.selector}' if bound.scope else bound.selector
            if name == selector or (parameter and not bound.scope and name.endswith(f'.{selector}')):
                default, last = bound.value, statement
        return default, last


def shipped_configs() -> list[str]:
    """Returns the names of the .gin files that ship with the package."""
    return sorted(path.name for path in CONFIGS.glob('*.gin'))


def read(gin_files: Sequence[str], gin_params: Sequence[str], search_paths: Sequence[str]) -> Config:
    """Finds and parses the gin files and bindings, without importing what they name.

    TensorFlow is imported only when a file has to be looked for in a file system other than the local one.

    Args:
        gin_files: paths, with any scheme that tf.io.gfile knows; looked for as given, in the search paths and among
            the installed configs.
        gin_params: gin statements.
        search_paths: directories, with any such scheme.

    Raises:
        UserError: a file is missing, or a statement is not gin.
    """
    return Config(tuple(_Reader(search_paths).sources(gin_files, gin_params)), tuple(search_paths))


def needs_tensorflow(gin_files: Sequence[str], search_paths: Sequence[str], gin_params: Sequence[str] = ()) -> bool:
    """Returns whether `read` will import TensorFlow: it does for files, included ones too, that are not local.

    Raises:
        UserError: as `read` does, for what comes before the first such file.
    """
    try:
        list(_Reader(search_paths, local_only=True).sources(gin_files, gin_params))
    except _NotLocal:
        return True
    return False


class _NotLocal(Exception):
    """A reader of local files has come to another one."""


@dataclasses.dataclass(frozen=True)
class _Reader:
    search_paths: Sequence[str]
    local_only: bool = False

    def sources(self, gin_files: Sequence[str], gin_params: Sequence[str]) -> Iterator[Source]:
        """Yields the sources, in order."""
        for name in gin_files:
            yield self.file(name, f'--gin_file={name}')
        for number, text in enumerate(gin_params, 1):
            origin = Origin(f'--gin_param #{number}')
            yield Source(origin.name, None, text, tuple(self.statements(text, origin)))

    def file(self, name: str, where: str, including: tuple[str, ...] = (), by_shipped: bool = False) -> Source:
        """Reads a file and what it includes; `including` are the files on the way to it."""
        path = self._find(name, where, by_shipped)
        remote = '://' in path
        identity = path if remote else os.path.realpath(path)
        if identity in including:
            raise UserError(f'{where}: {name} includes itself')
        with _told(where, path):
            # Editors on Windows begin a file with a byte order mark.
            text = _gfile_text(path) if remote else pathlib.Path(path).read_text(encoding='utf-8')
        text = text.removeprefix('\ufeff')
        shipped = not remote and pathlib.Path(identity).is_relative_to(CONFIGS)
        shown = os.path.relpath(identity, INSTALL_ROOT) if shipped else path
        statements = self.statements(text, Origin(shown, shipped), (*including, identity))
        return Source(name, path if remote else os.path.abspath(path), text, tuple(statements))

    def statements(self, text: str, origin: Origin, including: tuple[str, ...] = ()) -> Iterator[Statement]:
        """Yields the statements of a text, and those of an included file where it is included."""
        for statement in parse(text, origin):
            if isinstance(statement.parsed, config_parser.IncludeStatement):
                name = statement.parsed.filename
                yield from self.file(name, statement.quoted, including, origin.shipped).statements
            else:
                yield statement

    def _find(self, name: str, where: str, by_shipped: bool) -> str:
        installed = [str(CONFIGS), str(INSTALL_ROOT)]
        # A config that ships includes others that do, whatever the current directory holds.
        prefixes = installed if by_shipped else ['', *self.search_paths, *installed]
        for prefix in [''] if '://' in name or os.path.isabs(name) else prefixes:
            path = os.path.join(prefix, name)
            if self._is_file(path, where):
                return path
        beside = [str(path) for path in pathlib.Path().glob('*.gin')]
        hint = nearest(name, [*shipped_configs(), *beside, *(f'configs/{config}' for config in shipped_configs())])
        if ',' in name:
            hint = '; repeat --gin_file for several files'
        looked = ', '.join(prefix or 'the current directory' for prefix in prefixes[:-1])
        what = 'is a directory' if os.path.isdir(name) else 'no such file'
        raise UserError(f'{where}: {what}; looked in {looked}{hint}')

    def _is_file(self, path: str, where: str) -> bool:
        if '://' not in path:
            return os.path.isfile(path)
        if path.lower().startswith(('http://', 'https://')):
            raise UserError(f'{where}: cannot read {path} over the web; fetch it first')
        if self.local_only:
            raise _NotLocal
        with _told(where, path):
            from estimator_trainer.compat import tf

            return tf.io.gfile.exists(path) and not tf.io.gfile.isdir(path)


def _gfile_text(path: str) -> str:
    from estimator_trainer import files

    return files.read(path)


@contextlib.contextmanager
def _told(where: str, path: str) -> Iterator[None]:
    """Tells as the caller's mistake that a file cannot be read."""
    try:
        yield
    except Exception as error:  # OSError, UnicodeDecodeError; tf.errors.OpError, which local files must not import
        reason = str(getattr(error, 'message', error))
        raise UserError(f'{where}: cannot read {path}: {" ".join(reason.split())}') from None
