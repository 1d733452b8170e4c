"""Which bindings nothing has consumed."""

from collections.abc import Iterable, Sequence

import gin

from estimator_trainer.gin_config.provenance import Binding
from estimator_trainer.gin_config.statements import references


def unused(bindings: Sequence[Binding]) -> list[Binding]:
    """Returns the bindings that no call of a configurable has consumed so far, in their order.

    A call consumes what its caller did not give: for each parameter the binding in the innermost scope that has one. A
    macro is consumed by the bindings that use it. What is only read by `gin.query_parameter` counts as not consumed.
    """
    by_key = {(binding.scope, binding.selector, binding.parameter): binding for binding in bindings}
    with gin.config._OPERATIVE_CONFIG_LOCK:
        calls = [(scope, selector, tuple(given)) for (scope, selector), given in gin.config._OPERATIVE_CONFIG.items()]
    consumed = {
        key
        for scope, selector, parameters in calls
        for parameter in parameters
        for key in [_holding(scope, selector, parameter, by_key)]
        # The call of a macro is not looked at: gin also works out those whose value the caller then replaces.
        if key is not None and not by_key[key].is_macro
    }
    waiting = list(consumed)
    while waiting:
        for reference in references(by_key[waiting.pop()].parsed):
            key = (reference.macro, 'gin.macro', 'value')
            if key in by_key and key not in consumed:
                consumed.add(key)
                waiting.append(key)
    return [binding for key, binding in by_key.items() if key not in consumed]


def _holding(scope: str, selector: str, parameter: str, bound: Iterable) -> tuple[str, str, str] | None:
    """Returns the key of the binding that holds for a call in a scope."""
    parts = scope.split('/') if scope else []
    scopes = ['/'.join(parts[:length]) for length in range(len(parts), -1, -1)]
    return next((key for key in ((outer, selector, parameter) for outer in scopes) if key in bound), None)
