"""One-line errors for what goes wrong when gin calls a configurable."""

import re
from collections.abc import Sequence

from estimator_trainer.errors import UserError, nearest
from estimator_trainer.gin_config.provenance import Binding, holding, named_so
from estimator_trainer.gin_config.registry import parameters_of

_UNEXPECTED = re.compile(
    r"unexpected keyword argument(?: passed to \w+)?:? '?(?P<name>\w+)|"
    r"eyword arguments? not understood:'?,? \W*(?P<of_keras>\w+)"
)
_NO_GRAPH = re.compile('not (compatible|supported) .*eager execution')
# What Estimator gives to a model_fn or an input_fn, and the trainer to a function that makes a hook.
_GIVEN = ('features', 'labels', 'mode', 'params', 'config', 'input_context', 'estimator')
_CALL = re.compile(r"In call to configurable '(?P<name>.+?)' \(.*?\)(?: in scope '(?P<scope>.+?)')?(?=\n|$)")


def first_line(error: BaseException) -> str:
    """Returns an exception's message without the call stack of configurables that gin appends to it."""
    return re.split(r'\n  (?:In call to configurable|In file|In bindings string)', str(error))[0].strip()


def missing_binding(error: BaseException) -> UserError | None:
    """Returns the one-line error for a parameter that neither gin nor the caller gave, or None for another error.

    Such a parameter may be one that Estimator gives: gin calls what is written with (). It may also show in a
    placeholder that the function makes, outside of any graph.
    """
    message = str(error)
    required = re.match(r'Required bindings for `(.+?)` not provided in config: \[(.*?)\]', message)
    unbound = re.search(
        r"No values supplied by Gin or caller for arguments: \[(.*?)\].*In call to configurable '(.+?)'",
        message,
        re.DOTALL,
    )
    if isinstance(error, RuntimeError) and _NO_GRAPH.search(message) and (call := _CALL.search(message)):
        return _called_too_early(call['name'])
    if isinstance(error, RuntimeError) and required:
        called, names = required.groups()
    elif isinstance(error, TypeError) and unbound:
        names, called = unbound.groups()
    else:
        return None
    name = names.split(',')[0].strip("' ")
    if name in _GIVEN:
        return _called_too_early(called)
    hint = nearest(name, _GIVEN).replace('did you mean', 'of what Estimator gives, did you mean')
    return UserError(f'{called}.{name} has no value: bind it, e.g. --gin_param="{called}.{name} = ..."{hint}')


def _called_too_early(name: str) -> UserError:
    return UserError(f'{name} is called by gin; a function that Estimator calls is written without (): @{name}')


def unexpected_argument(error: BaseException, bindings: Sequence[Binding]) -> UserError | None:
    """Returns the one-line error for a binding that a configurable handed on to something that does not take it.

    gin lets any name be bound where there is a **kwargs, and it shows only in the call that the name is wrong.

    Args:
        error: what a call of a configurable raised.
        bindings: what `bindings` returned.

    Returns:
        The error with the binding's place, or None if `error` is another one or no binding is at fault.
    """
    unexpected = _UNEXPECTED.search(first_line(error))
    if not isinstance(error, TypeError) or not unexpected:
        return None
    name = unexpected['name'] or unexpected['of_keras']
    for call in _CALL.finditer(str(error)):  # the innermost first
        binding = holding(named_so(bindings, call['name'], name), call['scope'] or '')
        if binding is not None:
            known = parameters_of(binding.selector)
            if name in known:
                return None  # A parameter of its own: what its code calls with it is the code's mistake.
            what = f'{call["name"]} takes no {name!r}{nearest(name, known)}'
            return UserError(f'{binding.where}: {binding.name} = {binding.value}: {what}')
    return None
