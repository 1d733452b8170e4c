"""Hands a configuration to gin, and tells in one line what gin has against it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import gin
from gin import config_parser

from estimator_trainer.errors import UserError, nearest
from estimator_trainer.gin_config.call_errors import first_line
from estimator_trainer.gin_config.provenance import Binding, bindings, in_context, key_of, locate
from estimator_trainer.gin_config.registry import configurable, known_parameters, parameters_of, registered_names
from estimator_trainer.gin_config.sources import Config
from estimator_trainer.gin_config.statements import Reference, Statement, references

# What gin raises for a statement it has something against.
_REFUSALS = (ValueError, SyntaxError, KeyError, NameError, AttributeError, ImportError, TypeError)


def apply(config: Config, overrides: Mapping[str, tuple[str, Any]]) -> None:
    """Gives the configuration to gin, then `overrides` (binding -> the flag's name and its value), which win.

    Raises:
        UserError: an unknown configurable, parameter, reference or macro.
    """
    in_context(config, _give)
    for binding, (flag, value) in overrides.items():
        try:
            _bind(gin.config.ParsedBindingKey.parse(binding), value)
        except _REFUSALS as error:
            raise UserError(f'{flag}: {_explain(error)}') from None
    bound = bindings(config, overrides)
    _check_macros(bound)
    try:
        gin.finalize()
    except ValueError as error:
        raise UserError(locate(first_line(error).partition('\n')[0], bound)) from None


def _give(statement: Statement) -> None:
    try:
        _give_parsed(statement.parsed)
    except _REFUSALS as error:
        raise UserError(f'{statement.quoted}: {_explain(error)}') from None


def _give_parsed(parsed: Any) -> None:
    if isinstance(parsed, config_parser.ImportStatement):
        gin.config._PARSE_CONTEXTS[-1].process_import(parsed)
        gin.config._IMPORTS.add(parsed)  # for gin's own operative_config_str
    elif isinstance(parsed, config_parser.BlockDeclaration):
        if gin.config._PARSE_CONTEXTS[-1].get_configurable(parsed.selector) is None:
            raise ValueError(f'No configurable matching {parsed.selector!r}')
    else:
        _bind(key_of(parsed), _for_gin(parsed.value))


def _bind(key: Any, value: Any) -> None:
    names, is_open = known_parameters(configurable(key.complete_selector))
    if key.arg_name not in names and not is_open:  # gin takes any name where there is a **kwargs
        raise ValueError(f"Configurable '{key.given_selector}' doesn't have a parameter named '{key.arg_name}'")
    gin.bind_parameter(key, value)


def _for_gin(value: Any) -> Any:
    """Returns a parsed value with references that gin can resolve."""
    if isinstance(value, Reference):
        delegate = gin.config.ParserDelegate()
        if value.macro:
            return delegate.macro(value.macro)
        return delegate.configurable_reference(value.text[1:].removesuffix('()'), value.text.endswith('()'))
    if isinstance(value, dict):
        return {_for_gin(key): _for_gin(item) for key, item in value.items()}
    return type(value)(map(_for_gin, value)) if isinstance(value, list | tuple) else value


def _check_macros(bound: list[Binding]) -> None:
    """Refuses macros that are not defined, or that gin would not use: it says nothing, or not where."""
    macros = {binding.name: binding for binding in bound if binding.is_macro}
    constants = [name for name, _ in gin.config._CONSTANTS.items()]
    for binding in bound:
        where = f'{binding.where}: {binding.name} = {binding.value}'
        for macro in _macros(binding):
            if macro not in macros and not gin.config._CONSTANTS.matching_selectors(macro):
                hint = nearest(macro, [*macros, *constants, *(name.rpartition('.')[2] for name in constants)])
                raise UserError(f'{where}: macro %{macro} is not defined{hint}')
        if binding.is_macro and gin.config._CONSTANTS.matching_selectors(binding.name):
            raise UserError(f'{where}: %{binding.name} is a constant of the code already; choose another name')
        if binding.is_macro and _leads_to_itself(binding.name, macros):
            raise UserError(f'{where}: macro %{binding.name} leads back to itself')


def _leads_to_itself(name: str, macros: Mapping[str, Binding]) -> bool:
    reached = set()
    waiting = [name]
    while waiting:
        new = set(_macros(macros[waiting.pop()])) & macros.keys() - reached
        reached |= new
        waiting += new
    return name in reached


def _macros(binding: Binding) -> Iterator[str]:
    return (reference.macro for reference in references(binding.parsed) if reference.macro)


def _explain(error: Exception) -> str:
    """Returns gin's error as one line: what is wrong, nearest valid names."""
    # The text of a KeyError is in quotes, that of a SyntaxError has a place of its own.
    what = error.args[0] if isinstance(error, KeyError | SyntaxError) else first_line(error)
    what = str(what).partition('\n')[0]
    unknown = re.match(r"No configurable matching (?:reference )?'@?(.+?)(?:\(\))?'", what)
    parameter = re.match(r"Configurable '(.+?)' doesn't have a parameter named '(.+?)'", what)
    hint = ''
    if unknown:
        # Both, for among the many names that are registered one is often near.
        module = unknown[1].rpartition('.')[0] or '<module>'
        hint = nearest(unknown[1], registered_names()) + (
            f'; a configurable is known once its module is imported: add `import {module}` at the top of the gin file '
            f'or --import_module={module}'
        )
    elif parameter and configurable(parameter[1]) is not None:
        names = parameters_of(parameter[1])
        hint = nearest(parameter[2], names) or (f'; it has {", ".join(names)}' if names else '; it has none')
    return f'{what.rstrip(".")}{hint}'
