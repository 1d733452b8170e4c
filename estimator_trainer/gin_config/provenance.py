"""Where each binding comes from, and what it won over."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gin
from gin import config_parser

from estimator_trainer.gin_config.registry import short_name
from estimator_trainer.gin_config.sources import Config
from estimator_trainer.gin_config.statements import Origin, Statement, text_of

_MACRO = 'gin.macro'
# What errors begin with that tell a place: a file and a line, or a flag.
_PLACE = re.compile(r'(?:\S+|[^:]+):\d+: |--\w')
_BOUND_NAME = re.compile(r'(?P<scope>(?:[A-Za-z_][\w.]*/)*)(?P<selector>[A-Za-z_][\w.]*)\.(?P<parameter>\w+)')


@dataclasses.dataclass(frozen=True)
class Binding:
    """What one parameter of one configurable is bound to in one scope, or what a macro is.

    Attributes:
        scope: `train` or `a/b`; '' for none; of a macro its name.
        selector: the configurable's complete name in gin; `gin.macro` for a macro.
        parameter: the parameter's name; `value` for a macro.
        value: gin text of the value, on one line, with references and macros as they were written.
        where: `my.gin:7`, `--gin_param #1` or `--max_steps`.
        overridden: (value, where) of the statements that it won over, nearest first.
        parsed: the value, with `statements.Reference` for references and macros.
    """

    scope: str
    selector: str
    parameter: str
    value: str
    where: str
    overridden: tuple[tuple[str, str], ...] = ()
    parsed: Any = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def is_macro(self) -> bool:
        """Whether this defines a macro."""
        return self.selector == _MACRO and bool(self.scope)

    @property
    def name(self) -> str:
        """The shortest text that can stand left of `=`: `train/csv_input_fn.batch_size`, or the macro's name."""
        if self.is_macro:
            return self.scope
        return f'{self.scope}{"/" if self.scope else ""}{short_name(self.selector)}.{self.parameter}'


def in_context(config: Config, do: Callable[[Statement], None]) -> None:
    """Calls `do` with each statement, while gin resolves names by the imports of the file in which it stands.

    Only files with `from __gin__ import dynamic_registration` need that: their names are those of Python.
    """
    contexts: dict[Origin, Any] = {}
    for statement in config.statements:
        context = contexts.setdefault(statement.origin, gin.config.ParseContext())
        gin.config._PARSE_CONTEXTS.append(context)
        try:
            do(statement)
        finally:
            gin.config._PARSE_CONTEXTS.pop()


def key_of(bound: config_parser.BindingStatement) -> Any:
    """Returns gin's key of what a statement binds: scope, complete selector, parameter.

    Raises:
        ValueError, KeyError, NameError, AttributeError: there is no such configurable or parameter.
    """
    if bound.arg_name:
        return gin.config.ParsedBindingKey.parse((bound.scope, bound.selector, bound.arg_name))
    macro = f'{bound.scope}/{bound.selector}' if bound.scope else bound.selector
    return gin.config.ParsedBindingKey.parse((macro, _MACRO, 'value'))


def bindings(config: Config, overrides: Mapping[str, tuple[str, Any]]) -> list[Binding]:
    """Returns what is bound, each parameter once in each scope, in the order in which they first occur.

    To be called after `apply`, with the same arguments.
    """
    found: dict[tuple[str, str, str], list[tuple[Any, str]]] = {}

    def add(key: Any, value: Any, where: str) -> None:
        found.setdefault(key.scope_selector_arg, []).append((value, where))

    def add_statement(statement: Statement) -> None:
        parsed = statement.parsed
        if isinstance(parsed, config_parser.ImportStatement):
            gin.config._PARSE_CONTEXTS[-1].process_import(parsed)
        elif isinstance(parsed, config_parser.BindingStatement):
            add(key_of(parsed), parsed.value, statement.where)

    in_context(config, add_statement)
    for binding, (flag, value) in overrides.items():
        add(gin.config.ParsedBindingKey.parse(binding), value, flag)
    result = []
    for key, ((value, where), *others) in ((key, reversed(values)) for key, values in found.items()):
        overridden = tuple((text_of(other), there) for other, there in others)
        result.append(Binding(*key, text_of(value), where, overridden, value))
    return result


def locate(message: str, bindings: Sequence[Binding]) -> str:
    """Returns a message with the place in front of it where a binding that it names stands.

    Args:
        message: an error's text, such as `experiment.max_steps: expected ...`; scopes may be left out.
        bindings: what `bindings` returned.

    Returns:
        `my.gin:7: experiment.max_steps: expected ...`; the message itself if it begins with a place already, or names
        no binding or one that stands in several places.
    """
    if _PLACE.match(message):
        return message
    for named in _BOUND_NAME.finditer(message):
        scope = named['scope'].rstrip('/')
        candidates = named_so(bindings, named['selector'], named['parameter'])
        found = holding(candidates, scope)
        if found is None and len(candidates) == 1 and not scope:
            found = candidates[0]
        if found is not None:
            return f'{found.where}: {message}'
    return message


def named_so(bindings: Sequence[Binding], selector: str, parameter: str) -> list[Binding]:
    """Returns the bindings of a parameter, in whatever scope; the selector may lack modules."""
    return [
        binding
        for binding in bindings
        if binding.parameter == parameter and f'.{binding.selector}'.endswith(f'.{selector}')
    ]


def holding(bindings: Sequence[Binding], scope: str) -> Binding | None:
    """Returns that of a parameter's bindings which holds in a scope: the one in the innermost scope around it."""
    around = [binding for binding in bindings if not binding.scope or f'{scope}/'.startswith(f'{binding.scope}/')]
    return max(around, key=lambda binding: len(binding.scope), default=None)
