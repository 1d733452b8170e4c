"""What gin knows of the configurables that are registered: their names and parameters."""

import ast
import inspect
import textwrap
from typing import Any

import gin


def registered_names() -> list[str]:
    """Returns the names of all configurables, with and without their modules."""
    # gin has no public list of them.
    selectors = [selector for selector, _ in gin.config._REGISTRY.items()]
    return sorted({selector.rpartition('.')[2] for selector in selectors} | set(selectors))


def parameters_of(selector: str) -> list[str]:
    """Returns the names of the parameters that can be bound for a registered configurable, as far as they are known."""
    return known_parameters(configurable(selector))[0]


def configurable(selector: str) -> Any:
    """Returns gin's record of a configurable, or None; `wrapped` is the function or class itself.

    Raises:
        KeyError: several match.
    """
    return gin.config._REGISTRY.get_match(selector)


def short_name(selector: str) -> str:
    """Returns the shortest name of a configurable that gin understands."""
    return gin.config.ImportManager(()).minimal_selector(configurable(selector))


def known_parameters(record: Any) -> tuple[list[str], bool]:
    """Returns the names of the parameters that can be bound, and whether there may be others.

    A class that hands its **kwargs to the constructor of its base takes the base's parameters too.
    """
    names, is_open = _class_parameters(record.wrapped) if inspect.isclass(record.wrapped) else _named(record.wrapped)
    allowed = record.allowlist or names
    return [name for name in names if name in allowed and name not in (record.denylist or ())], is_open


def _class_parameters(cls: type) -> tuple[list[str], bool]:
    names = []
    for base in inspect.getmro(cls)[:-1]:  # The last is object, which takes none.
        construct = vars(base).get('__init__') or vars(base).get('__new__')
        if construct is None:
            continue
        more, is_open = _named(construct)
        names += [name for name in more if name not in names]
        if not is_open or not _only_hands_on(construct, base):
            return names, is_open
    return names, False


def constructor_of(cls: type) -> Any:
    """Returns the constructor of which gin binds the parameters."""
    return gin.config._find_class_construction_fn(cls)


def _named(function: Any) -> tuple[list[str], bool]:
    """Returns the parameters that can be given by name, and whether any other name is taken too."""
    try:
        parameters = inspect.signature(getattr(function, '__func__', function)).parameters.values()
    except (TypeError, ValueError):  # Some of C have no signature.
        return [], True
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names = [parameter.name for parameter in parameters if parameter.kind in by_name]
    is_open = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)
    return [name for name in names if name not in ('self', 'cls')], is_open


def _only_hands_on(construct: Any, cls: type) -> bool:
    """Returns whether all that an __init__ does with its **kwargs is to pass them to that of the next class."""
    construct = inspect.unwrap(construct)
    try:
        nodes = list(ast.walk(ast.parse(textwrap.dedent(inspect.getsource(construct)))))
        kwargs = inspect.getfullargspec(construct).varkw
    except (OSError, TypeError, SyntaxError):
        return False
    of_next = ('super().__init__', f'super({cls.__name__}, self).__init__')
    calls = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) in of_next]
    handed = [keyword.value for call in calls for keyword in call.keywords if keyword.arg is None]
    used = [node for node in nodes if isinstance(node, ast.Name) and node.id == kwargs]
    return bool(used) and all(node in handed for node in used)
