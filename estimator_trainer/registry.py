"""Makes what TensorFlow and Estimator offer known to gin, so that a .gin file can name it: `@AdamOptimizer`.

Each line of the table is a family of names. Where two families share a name, the first has it, and its line comes
first for that reason: what Estimator code calls by a name is TensorFlow 1's, or `tf.estimator`'s. The modules are
those of `gin.tf.external_configurables` where that has the name. Two families are known under names of their own:

* `LegacyAdam`, `LegacySGD` ...: the Keras optimizers of `tf.keras.optimizers.legacy`, the only ones that work in the
  graphs of Estimator; `Adam` is that of `tf.keras.optimizers`.
* `DNNClassifierV1` ...: the canned estimators of `tf.compat.v1.estimator`. They take `AdamOptimizer`, where those of
  `tf.estimator` take `LegacyAdam`.
"""

import contextlib
import operator
import re
from collections.abc import Iterable
from types import ModuleType
from typing import NamedTuple

import gin

from estimator_trainer import early_stopping, exporters, feature_columns, tpu  # noqa: F401  gin knows wide_columns by it
from estimator_trainer.compat import tf
from estimator_trainer.gin_config import Config, registered_names
from estimator_trainer.gin_config.statements import DYNAMIC_REGISTRATION, Reference, Statement, references

v1, estimator, keras = tf.compat.v1, tf.estimator, tf.keras

_CANNED = '(Baseline|DNN|Linear).+'


class _Family(NamedTuple):
    """The public names of a module that match a pattern; one that this TensorFlow lacks is no mistake."""

    gin_module: str
    source: ModuleType
    pattern: str
    known_as: str = '{}'


FAMILIES = (
    _Family('tf.train', v1.train, '.+Optimizer'),
    _Family('tf.train', v1.train, r'\w+_decay\w*|piecewise_constant'),
    _Family('tf.train', v1.train, '(?!SessionRunHook).+Hook'),
    _Family('tf.data.experimental', tf.data.experimental, '.+Hook'),
    _Family('estimator_trainer', exporters, '(Best|Final|Latest)Exporter'),
    _Family('tf.estimator.experimental', early_stopping, '(stop_if|make).+_hook'),
    _Family('tf.estimator.experimental', estimator.experimental, '.+Hook|make.+_hook|RNN.+|LinearSDCA'),
    _Family('tf.estimator', estimator, f'{_CANNED}|.+Head|WarmStartSettings|VocabInfo'),
    _Family('tf.compat.v1.estimator', v1.estimator, _CANNED, '{}V1'),
    _Family('tf.feature_column', tf.feature_column, '[a-z].+'),
    _Family('tf.losses', v1.losses, '(?!add|get)[a-z].+'),
    _Family('tf', v1, '(?!global|local|tables|variables).+_initializer|identity'),
    _Family(
        'tf.nn',
        tf.nn,
        'crelu|dropout|elu|gelu|leaky_relu|log_softmax|relu6?|selu|sigmoid|silu|softmax|softplus|softsign|swish|tanh',
    ),
    _Family('tf.keras.optimizers', keras.optimizers, '(?!Optimizer)[A-Z].+'),
    _Family('tf.keras.optimizers.legacy', keras.optimizers.legacy, '(?!Optimizer)[A-Z].+', 'Legacy{}'),
    _Family('tf.keras.optimizers.schedules', keras.optimizers.schedules, '.+Decay.*'),
    _Family('tf.keras.losses', keras.losses, '(?!Loss|Reduction)[A-Z]+[a-z].+'),
    _Family('tf.keras.initializers', keras.initializers, '(?!Initializer)[A-Z].+'),
    _Family('tf.keras.regularizers', keras.regularizers, '(?!Regularizer)[A-Z].+'),
    _Family('tf.distribute', tf.distribute, '(Mirrored|MultiWorkerMirrored|OneDevice)Strategy|ReductionToOneDevice'),
    _Family('tf.distribute', tf.distribute.experimental, 'CentralStorageStrategy|CommunicationOptions'),
    # Ours look for a TPU with a deadline.
    _Family('tf.distribute', tpu, 'TPUStrategy|TPUClusterResolver'),
    # That of TensorFlow 2 is another one, which Estimator cannot use.
    _Family('tf.distribute', v1.distribute.experimental, 'ParameterServerStrategy'),
)


def register(config: Config) -> None:
    """Registers the table with gin, and each `%tf.float32` or other dtype that `config` mentions.

    To be called when the user's modules are imported: a name that they have registered stays theirs alone.
    """
    known = {name.rpartition('.')[2] for name in registered_names()}
    python_names = _python_names(config)
    for module, source, pattern, known_as in FAMILIES:
        for attribute in filter(re.compile(pattern).fullmatch, dir(source)):
            name = known_as.format(attribute)
            if name not in known and attribute not in python_names:
                known.add(name)
                gin.external_configurable(getattr(source, attribute), name, module)
    # Not all of them: gin would take a constant `tf.string` for the user's macro `%string`.
    for name in {reference.macro or '' for statement in config.statements for reference in _references(statement)}:
        with contextlib.suppress(AttributeError, ValueError):  # no such name, which is told later; known from gin.tf
            if name.startswith('tf.') and isinstance(dtype := operator.attrgetter(name[3:])(tf), tf.DType):
                gin.constant(name, dtype)


def _references(statement: Statement) -> Iterable[Reference]:
    return references(getattr(statement.parsed, 'value', None))


def _python_names(config: Config) -> set[str]:
    """Returns the last parts of the names in files where names are Python's: gin registers those by itself.

    What is registered before, it writes to its operative config by the name of a private module.
    """
    imports = [statement for statement in config.statements if hasattr(statement.parsed, 'module')]
    files = {statement.origin for statement in imports if statement.parsed.module == DYNAMIC_REGISTRATION}
    statements = [statement for statement in config.statements if statement.origin in files]
    names = [getattr(statement.parsed, 'selector', '') for statement in statements]
    names += [reference.text.removesuffix('()') for statement in statements for reference in _references(statement)]
    return {name.rpartition('.')[2] for name in names}
