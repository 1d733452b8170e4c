"""Puts `tf.estimator` back on a TensorFlow that has none.

`tensorflow-estimator` 2.15 still installs beside such a TensorFlow. What it misses there is given back and no more: the
API name under which it exports, a few modules (`aliases`, `gone`), and the attribute `estimator` of TensorFlow's API
modules. Nothing of it is loaded before it is used, and nothing is printed.
"""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from estimator_trainer.compat import after_import, aliases, internals, keras_seeds, requirements
from estimator_trainer.errors import UserError


def install() -> ModuleType:
    """Returns the imported TensorFlow, with `tf.estimator` and a `tf.keras` that Estimator code can use.

    Raises:
        UserError: What is installed does not fit, or Keras 3 was used as `tf.keras` before this call.
    """
    needs = requirements.check()
    names = aliases.ALIASES if needs.bridge else {}
    if needs.legacy_keras:
        if 'tensorflow' in sys.modules:
            _refuse_keras_3()
            names = names | aliases.KERAS_ALIASES
        # TensorFlow reads it when it is imported, and again when tf.keras is first used.
        os.environ[requirements.LEGACY_KERAS] = '1'
    import tensorflow as tf

    if needs.bridge:
        _restore_export_name()
        _restore_attributes()
        _bound_the_wait_for_a_tpu()
    if names:
        aliases.install(names)
    if needs.legacy_keras:
        keras_seeds.install()
    return tf


def _refuse_keras_3() -> None:
    for name, module in _loaded_api_members():
        loader_took_it = vars(module).get('_tfll_keras_version') == 'keras_3'
        if loader_took_it or '_tf_keras' in Path(vars(module).get('__file__') or '').parts:
            raise UserError(
                f'{name} was used before estimator_trainer was imported and is Keras 3; Estimator code needs tf-keras: '
                f'import estimator_trainer.compat first, or set {requirements.LEGACY_KERAS}=1'
            )


def _loaded_api_members() -> Iterator[tuple[str, ModuleType]]:
    for api in aliases.APIS:
        # Reads `__dict__` only: asking a lazy module for anything else makes it choose its Keras.
        members = vars(sys.modules[api]) if api in sys.modules else {}
        public_name = api.replace('._api.v2', '')
        for name, value in members.items():
            if isinstance(value, ModuleType):
                yield f'{public_name}.{name.lstrip("_")}', value


def _restore_export_name() -> None:
    tf_export = internals.tf_export
    tf_export.ESTIMATOR_API_NAME = 'estimator'
    for table, suffix in ((tf_export.API_ATTRS, ''), (tf_export.API_ATTRS_V1, '_v1')):
        table['estimator'] = table['tensorflow']._replace(
            names=f'_estimator_api_names{suffix}', constants=f'_estimator_api_constants{suffix}'
        )
    tf_export.get_v1_names = _with_estimator(tf_export.get_v1_names, tf_export.API_ATTRS_V1['estimator'].names)
    tf_export.get_v2_names = _with_estimator(tf_export.get_v2_names, tf_export.API_ATTRS['estimator'].names)


def _with_estimator(get_names: Callable[[Any], list[str]], attribute: str) -> Callable[[Any], list[str]]:
    """Returns a `get_names` that tells a symbol's names in the API estimator, too."""
    # Its own attributes only: a subclass is not exported under the names of its base.
    return lambda symbol: [*get_names(symbol), *getattr(symbol, '__dict__', {}).get(attribute, ())]


def _restore_attributes() -> None:
    """Gives each API module an `estimator` that is loaded when it is used, as TensorFlow 2.15 does."""

    def restore(module: ModuleType) -> None:
        module.estimator = internals.LazyLoader('estimator', vars(module), aliases.APIS[module.__name__])

    # Some of the modules are copies of others, which `import tensorflow` does not load.
    after_import.call(dict.fromkeys(aliases.APIS, restore))


def _bound_the_wait_for_a_tpu() -> None:
    """Lets TPUEstimator give up a TPU's master that does not answer after a minute, not after a day."""
    # By default it asks 289 times, for five minutes each. What it would wait for is no use: see `gone`.
    internals.tpu_system_metadata._PINGING_MASTER_TIMEOUT_IN_MS = 60_000
    internals.tpu_system_metadata._RETRY_TIMES = 0
