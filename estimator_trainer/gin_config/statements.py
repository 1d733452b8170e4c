"""Gin text as statements that know their place, and values as gin text. Nothing is imported or looked up here."""

import dataclasses
import tokenize
from collections.abc import Iterator
from typing import Any

from gin import config_parser

from estimator_trainer.errors import UserError
from estimator_trainer.gin_config import syntax

# `from __gin__ import dynamic_registration` is no import: from there on names are those of Python.
DYNAMIC_REGISTRATION = '__gin__.dynamic_registration'


@dataclasses.dataclass(frozen=True)
class Reference:
    """A reference (`@scope/name()`) or a macro (`%name`), kept as text: what it names is not known before imports."""

    text: str

    def __repr__(self):
        return self.text

    @property
    def macro(self) -> str | None:
        """The name of the macro or constant, or None for a reference."""
        return self.text[1:] if self.text.startswith('%') else None


class _SyntaxOnly(config_parser.ParserDelegate):
    def configurable_reference(self, scoped_configurable_name, evaluate):
        scope, _, selector = scoped_configurable_name.rpartition('/')
        if scope and evaluate and selector in ('macro', 'gin.macro'):  # %scope as it was once written
            return self.macro(scope)
        return Reference(f'@{scoped_configurable_name}{"()" if evaluate else ""}')

    def macro(self, macro_name):
        return Reference(f'%{macro_name}')


@dataclasses.dataclass(frozen=True, eq=False)
class Origin:
    """One reading of one file, or one `--gin_param`; gin keeps the symbols of each apart.

    Attributes:
        name: what people see: the file's path, or the flag with its number.
        shipped: whether it is one of the configs that ship with the package.
    """

    name: str
    shipped: bool = False


@dataclasses.dataclass(frozen=True)
class Statement:
    """One statement of gin, as `gin.config_parser` has it, and the place where it stands."""

    origin: Origin
    parsed: Any

    @property
    def where(self) -> str:
        """The place, such as `my.gin:7` or `--gin_param #1`."""
        name = self.origin.name
        return name if name.startswith('--') else f'{name}:{self.parsed.location.line_num}'

    @property
    def quoted(self) -> str:
        """The place and the text that stands there."""
        return f'{self.where}: {self.parsed.location.line_content.strip()}'


def parse(text: str, origin: Origin) -> Iterator[Statement]:
    """Yields the statements of a gin text.

    Raises:
        UserError: something in it is not gin.
    """
    lines = text.split('\n')
    parser = None
    try:
        parser = config_parser.ConfigParser(text, _SyntaxOnly())
        for parsed in parser:
            statement = Statement(origin, parsed)
            _check_feature(statement)
            yield statement
    except SyntaxError as error:
        line, message = error.lineno, error.msg
    except tokenize.TokenError as error:
        message, (line, _) = error.args
    except (ValueError, TypeError) as error:  # a literal that Python refuses, such as {[]: 1}
        line, message = parser.current_token.start[0], str(error)
    else:
        return
    line = max(1, min(line or 1, len(lines)))  # Before 3.12 Python names the line after the last.
    while line > 1 and not lines[line - 1].strip():
        line -= 1
    raise UserError(syntax.explain(origin.name, line, lines[line - 1].strip(), message)) from None


def _check_feature(statement: Statement) -> None:
    """Refuses `from __gin__ import` of what gin does not have."""
    module = getattr(statement.parsed, 'module', '')
    if module.startswith('__gin__.') and module != DYNAMIC_REGISTRATION:
        feature = module.partition('.')[2]
        raise UserError(f'{statement.quoted}: gin has no feature {feature!r}; expected dynamic_registration')


def references(value: Any) -> Iterator[Reference]:
    """Yields the references and macros in a parsed value, however deep."""
    if isinstance(value, Reference):
        yield value
    elif isinstance(value, dict):
        for item in value.items():
            yield from references(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from references(item)


def text_of(value: Any, wide: bool = False) -> str:
    """Returns a parsed value as gin text: on one line or, where `wide`, with one line for each item."""
    if isinstance(value, dict):
        items, brackets = [f'{text_of(key)}: {text_of(item)}' for key, item in value.items()], '{}'
    elif isinstance(value, list | tuple):
        items, brackets = [text_of(item) for item in value], '[]' if isinstance(value, list) else '()'
    elif isinstance(value, complex):
        return f'{value.imag!r}j'  # Python writes -1j as (-0-1j), which gin cannot read.
    else:
        text = repr(value)
        return text.replace('inf', '1e999') if isinstance(value, float) else text
    if wide and items:
        return ''.join([brackets[0], '\n', *(f'    {item},\n' for item in items), brackets[1]])
    comma = ',' if isinstance(value, tuple) and len(items) == 1 else ''
    return f'{brackets[0]}{", ".join(items)}{comma}{brackets[1]}'
