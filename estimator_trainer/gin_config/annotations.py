"""Whether the literals in a configuration are what the annotations of our own configurables ask for."""

import collections.abc
import inspect
import pathlib
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from estimator_trainer.errors import UserError
from estimator_trainer.gin_config.provenance import Binding
from estimator_trainer.gin_config.registry import configurable, constructor_of, registered_names
from estimator_trainer.gin_config.sources import INSTALL_ROOT
from estimator_trainer.gin_config.statements import Reference

_PACKAGES = ('estimator_trainer', 'model_fns', 'input_fns')
_LISTS = (list, tuple, collections.abc.Sequence, collections.abc.Collection, collections.abc.Iterable)
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
# type -> what a value of it is called, and several.
_NAMES = {
    bool: ('True or False', 'True or False'),
    int: ('a whole number', 'whole numbers'),
    float: ('a number', 'numbers'),
    complex: ('a complex number', 'complex numbers'),
    str: ('a string', 'strings'),
    bytes: ('bytes', 'bytes'),
    type(None): ('None', 'None'),
    dict: ('a dict', 'dicts'),
    list: ('a list', 'lists'),
    tuple: ('a tuple', 'tuples'),
    collections.abc.Callable: ('a reference to a function (@name)', 'references to functions'),
    Any: ('anything', 'anything'),
}
_FITS = object()


def check_types(bindings: Sequence[Binding]) -> None:
    """Compares the literals bound to parameters of the packages that ship with the parameters' annotations.

    References fit everything: what they return is not known before they are called. Macros are followed.

    Args:
        bindings: what `bindings` returned.

    Raises:
        UserError: a value of another type.
    """
    macros = {binding.scope: binding.parsed for binding in bindings if binding.is_macro}
    for binding in bindings:
        hint = _hints(binding.selector).get(binding.parameter, Any)
        value = _followed(binding.parsed, macros)
        misfit = _misfit(value, hint, macros)
        if misfit is not _FITS:
            found = _found(misfit) + (' in it' if misfit is not value else '')
            meant = f'; did you mean @{misfit}?' if misfit in registered_names() else ''
            raise UserError(
                f'{binding.where}: {binding.name} = {binding.value}: expected {_expected(hint)}, found {found}{meant}'
            )


def _hints(selector: str) -> Mapping[str, Any]:
    """Returns the annotations of a configurable; none of one that is not ours."""
    target = configurable(selector).wrapped
    try:
        path = pathlib.Path(inspect.getfile(inspect.unwrap(target))).resolve()
        if path.relative_to(INSTALL_ROOT).parts[0] not in _PACKAGES:
            return {}
        return typing.get_type_hints(constructor_of(target) if inspect.isclass(target) else target)
    except (TypeError, ValueError, NameError, AttributeError):
        return {}


def _followed(value: Any, macros: Mapping[str, Any]) -> Any:
    """Returns what a macro stands for in the end; what is no literal then comes back as a reference."""
    for _ in macros:  # A macro that leads back to itself leads nowhere.
        if isinstance(value, Reference) and value.macro in macros:
            value = macros[value.macro]
    return value


def _misfit(value: Any, hint: Any, macros: Mapping[str, Any]) -> Any:
    """Returns the innermost part of a value that its annotation does not allow, or _FITS."""
    value = _followed(value, macros)
    origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    if isinstance(value, Reference) or hint is Any:
        return _FITS
    if origin in (typing.Union, types.UnionType):
        misfits = [_misfit(value, arg, macros) for arg in args]
        if _FITS in misfits:
            return _FITS
        return next((misfit for misfit in misfits if misfit is not value), value)
    if origin is typing.Literal:
        return _FITS if value in args else value
    if origin is collections.abc.Callable:
        return value
    if origin in (type(None), bool, int, float, str, bytes):
        fits = type(value) is origin or (origin is float and type(value) is int)
        return _FITS if fits else value
    if origin in _LISTS or origin in _DICTS:
        return _misfit_in_container(value, origin, args, macros)
    return _FITS  # a type of which there is no literal


def _misfit_in_container(value: Any, origin: Any, args: tuple, macros: Mapping[str, Any]) -> Any:
    if isinstance(value, dict) and origin in (*_DICTS, collections.abc.Iterable):
        pairs = [(key, arg) for arg in args[:1] for key in value]
        pairs += [(item, arg) for arg in args[1:2] for item in value.values()]
    elif not isinstance(value, list | tuple) or origin in _DICTS:
        return value
    elif _is_record(origin, args):
        if len(value) != len(args):
            return value
        pairs = list(zip(value, args, strict=True))
    else:
        pairs = [(item, arg) for arg in args[:1] for item in value]
    misfits = (_misfit(item, arg, macros) for item, arg in pairs)
    return next((misfit for misfit in misfits if misfit is not _FITS), _FITS)


def _is_record(origin: Any, args: tuple) -> bool:
    """Returns whether an annotation is that of a tuple with a type for each place."""
    return origin is tuple and bool(args) and args[-1] is not Ellipsis


def _found(value: Any) -> str:
    return repr(value) if isinstance(value, bool) else _NAMES[type(value)][0]


def _expected(hint: Any, several: bool = False) -> str:
    """Returns in words what an annotation allows."""
    origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return ' or '.join(dict.fromkeys(_expected(arg, several) for arg in args))
    if origin is typing.Literal:
        return ' or '.join(map(repr, args))
    if _is_record(origin, args):
        return f'{"lists" if several else "a list"} ({", ".join(_expected(arg) for arg in args)})'
    of = ' to '.join(_expected(arg, True) for arg in args if arg is not Ellipsis)
    if origin in _DICTS or origin in _LISTS:
        return f'{_NAMES[dict if origin in _DICTS else list][several]}{f" of {of}" if of else ""}'
    return _NAMES.get(origin, (getattr(origin, '__name__', str(origin)),) * 2)[several]
