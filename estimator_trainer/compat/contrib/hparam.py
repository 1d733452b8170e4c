"""`tf.contrib.training.HParams`: hyperparameters by name, each of which keeps its type."""

import json
import numbers
import re
from collections.abc import Mapping
from typing import Any

_ASSIGNMENT = re.compile(
    r'(?P<name>[a-zA-Z][\w.]*)(?:\[\s*(?P<index>\d+)\s*\])?\s*=\s*(?:\[(?P<list>[^\]]*)\]|(?P<value>[^,\[]*))(?:$|,\s*)'
)
_BOOLS = {'true': True, 'True': True, 'false': False, 'False': False}


class HParams:
    """Hyperparameters, read and set as attributes.

    A value is a bool, a number, a text or a list of one of these. Its type is that of the first value and stays.
    """

    def __init__(self, hparam_def: None = None, model_structure: Any = None, **kwargs: Any):
        if hparam_def is not None:
            raise ValueError('HParams: hparam_def is not supported; give names and values')
        self._hparam_types: dict[str, tuple[type, bool]] = {}
        self._model_structure = model_structure
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds a hyperparameter; raises ValueError for a name that is taken and for an empty list."""
        if getattr(self, name, None) is not None:
            raise ValueError(f'Hyperparameter name is reserved: {name}')
        is_list = isinstance(value, (list, tuple))
        if is_list and not value:
            raise ValueError(f'Multi-valued hyperparameters cannot be empty: {name}')
        self._hparam_types[name] = (type(value[0] if is_list else value), is_list)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Sets a hyperparameter; raises KeyError if there is none, ValueError if the type does not fit."""
        kind, is_list = self._hparam_types[name]
        if isinstance(value, list) != is_list:
            raise ValueError(f'Hyperparameter {name} is {"" if is_list else "not "}a list: {value!r}')
        setattr(self, name, [_cast(name, kind, one) for one in value] if is_list else _cast(name, kind, value))

    def del_hparam(self, name: str) -> None:
        """Removes a hyperparameter if there is one."""
        if self._hparam_types.pop(name, None):
            delattr(self, name)

    def parse(self, values: str) -> 'HParams':
        """Sets hyperparameters from `name=value,other=[value,value]`; returns itself."""
        return self.override_from_dict(parse_values(values, {name: kind for name, (kind, _) in self._types()}))

    def parse_json(self, values_json: str) -> 'HParams':
        """Sets hyperparameters from a JSON object; returns itself."""
        return self.override_from_dict(json.loads(values_json))

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> 'HParams':
        """Sets hyperparameters that there are already; returns itself."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    set_from_map = override_from_dict

    def values(self) -> dict[str, Any]:
        """Returns all names and values."""
        return {name: getattr(self, name) for name in self._hparam_types}

    def to_json(
        self, indent: int | None = None, separators: tuple[str, str] | None = None, sort_keys: bool = False
    ) -> str:
        """Returns all names and values as JSON."""
        return json.dumps(self.values(), indent=indent, separators=separators, sort_keys=sort_keys)

    def get(self, key: str, default: Any = None) -> Any:
        """Returns a value, or `default` where there is no such hyperparameter; its type has to fit in any case."""
        if key not in self._hparam_types:
            return default
        if default is not None:
            kind, is_list = self._hparam_types[key]
            if isinstance(default, list) != is_list:
                raise ValueError(f'Hyperparameter {key} is {"" if is_list else "not "}a list: {default!r}')
            for one in default if is_list else [default]:
                _cast(key, kind, one)
        return getattr(self, key)

    def get_model_structure(self) -> Any:
        """Returns the model structure."""
        return self._model_structure

    def set_model_structure(self, model_structure: Any) -> None:
        """Sets the model structure."""
        self._model_structure = model_structure

    def _types(self):
        return self._hparam_types.items()

    def __contains__(self, key: str) -> bool:
        return key in self._hparam_types

    def __str__(self) -> str:
        return ','.join(f'{name}={value}' for name, value in self.values().items())

    def __repr__(self) -> str:
        return f'{type(self).__name__}({sorted(self.values().items())})'


def parse_values(values: str, type_map: Mapping[str, type], ignore_unknown: bool = False) -> dict[str, Any]:
    """Parses `name=value,other=[value,value],third[0]=value`.

    Args:
        values: The assignments.
        type_map: The type of each name's value, or of its elements.
        ignore_unknown: Whether a name without a type is left out instead of being an error.

    Returns:
        The values by name; what is set by index is a dictionary.

    Raises:
        ValueError: `values` is malformed, sets something twice or has a value that is not of its type.
    """
    result: dict[str, Any] = {}
    position = 0
    while position < len(values):
        found = _ASSIGNMENT.match(values, position)
        if not found:
            raise ValueError(f'Malformed hyperparameter value: {values[position:]}')
        position = found.end()
        name, index, many, value = found.group('name', 'index', 'list', 'value')
        if name not in type_map:
            if ignore_unknown:
                continue
            raise ValueError(f'Unknown hyperparameter type for {name}')
        if many is not None and index is not None:
            raise ValueError(f'Assignment of a list to a list index: {found[0]}')
        elements = [one for one in re.split('[ ,]', many) if one] if many is not None else [value]
        parsed = [_parse(name, type_map[name], one) for one in elements]
        target, key = (result, name) if index is None else (result.setdefault(name, {}), int(index))
        if not isinstance(target, dict) or key in target:
            raise ValueError(f"Multiple assignments to variable '{name}' in {values}")
        target[key] = parsed if many is not None else parsed[0]
    return result


def _parse(name: str, kind: type, text: str) -> Any:
    try:
        if kind is bool:
            return _BOOLS[text] if text in _BOOLS else bool(int(text))
        return kind(text)
    except ValueError:
        raise ValueError(f"Could not parse hparam '{name}' of type '{kind.__name__}' with value '{text}'") from None


def _cast(name: str, kind: type, value: Any) -> Any:
    """Returns a value as its hyperparameter's type, if nothing is lost by it that the type is for."""
    if type(value) is kind or kind is type(None):
        return value
    fits = issubclass(kind, bool) == isinstance(value, bool) and not any(
        issubclass(kind, family) and not isinstance(value, family)
        for family in ((str, bytes), numbers.Integral, numbers.Number)
    )
    if not fits:
        raise ValueError(f"Could not cast hparam '{name}' of type '{kind}' from value {value!r}")
    return kind(value)
