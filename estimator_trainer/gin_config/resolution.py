"""The configuration as one gin file that alone repeats it."""

from collections.abc import Mapping, Sequence
from typing import Any

import gin

from estimator_trainer.gin_config.modules import import_statements
from estimator_trainer.gin_config.provenance import Binding, bindings
from estimator_trainer.gin_config.sources import Config
from estimator_trainer.gin_config.statements import DYNAMIC_REGISTRATION, text_of

_WIDTH = 120
_LONGEST_COMMENT = 60


def resolved(config: Config, modules: Sequence[str], overrides: Mapping[str, tuple[str, Any]]) -> str:
    """Returns the text of a gin file that configures the same: imports, macros, then what was bound last.

    To be called after `apply`. A comment names the place from which a value comes.

    Args:
        config: what `read` returned.
        modules: what `--import_module` named.
        overrides: as given to `apply`.
    """
    if _has_dynamic_registration(config):
        # Names are Python's in such a file, after what it imports: gin alone knows them, and adds imports of its own.
        first = 'from __gin__ import dynamic_registration'
        rest = gin.config_str().replace(f'{first}\n', '', 1)
        return '\n'.join([first, *(f'import {name}' for name in modules), rest])
    names = [*modules, *(statement.parsed.module for statement in import_statements(config))]
    imports = [f'import {name}' for name in dict.fromkeys(names)]
    bound = bindings(config, overrides)
    macros = [_line(binding) for binding in bound if binding.is_macro]
    others = [_line(binding) for binding in bound if not binding.is_macro]
    return ''.join('\n'.join(part) + '\n\n' for part in (imports, macros, others) if part)


def _has_dynamic_registration(config: Config) -> bool:
    return any(getattr(statement.parsed, 'module', '') == DYNAMIC_REGISTRATION for statement in config.statements)


def _line(binding: Binding) -> str:
    line = f'{binding.name} = {binding.value}'
    if len(line) > _WIDTH:
        line = f'{binding.name} = {text_of(binding.parsed, wide=True)}'
    if len(binding.where) > _LONGEST_COMMENT or not binding.where.isprintable():
        return line
    return f'{line}  # {binding.where}'
