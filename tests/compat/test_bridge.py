"""tf.estimator is where TensorFlow 2.15 has it, and nothing else has changed."""

import importlib
import importlib.machinery
import sys

import pytest

from estimator_trainer.compat import aliases, gone, internals, requirements, tf
from estimator_trainer.errors import UserError
from tests.compat import fresh

needs_bridge = pytest.mark.skipif(not requirements.check().bridge, reason='this TensorFlow has tf.estimator')
needs_legacy_keras = pytest.mark.skipif(not requirements.check().legacy_keras, reason='tf.keras is no Keras 3')

V2 = 'tensorflow_estimator.python.estimator.api._v2.estimator'
V1 = 'tensorflow_estimator.python.estimator.api._v1.estimator'


@pytest.mark.parametrize(
    'statement, name, want_module, want_name',
    [
        ('import tensorflow as tf', 'tf.estimator.Estimator', V2, 'Estimator'),
        ('import tensorflow as tf', 'tf.compat.v1.estimator.Estimator', V1, 'Estimator'),
        ('import tensorflow as tf', 'tf.compat.v2.estimator.DNNClassifier', V2, 'DNNClassifier'),
        ('import tensorflow.compat.v1 as tf', 'tf.compat.v1.estimator.Estimator', V1, 'Estimator'),
        ('import tensorflow.compat.v1 as tf', 'tf.compat.v2.estimator.DNNClassifier', V2, 'DNNClassifier'),
        ('import tensorflow.compat.v2 as tf', 'tf.compat.v1.estimator.tpu.TPUEstimator', f'{V1}.tpu', 'TPUEstimator'),
        ('import tensorflow.compat.v2 as tf', 'tf.compat.v2.estimator.DNNClassifier', V2, 'DNNClassifier'),
        ('from tensorflow import estimator', 'estimator.RunConfig', V2, 'RunConfig'),
        ('import tensorflow.estimator', 'tensorflow.estimator.EvalSpec', V2, 'EvalSpec'),
        ('from tensorflow.estimator import ModeKeys', 'ModeKeys', V2, 'ModeKeys'),
        ('import tensorflow.estimator.export as e', 'e.ServingInputReceiver', f'{V2}.export', 'ServingInputReceiver'),
        ('import tensorflow.compat.v1 as tf', 'tf.estimator.DNNClassifier', V1, 'DNNClassifier'),
        ('import tensorflow.compat.v2 as tf', 'tf.estimator.DNNClassifier', V2, 'DNNClassifier'),
        ('import tensorflow.compat.v1.estimator as e', 'e.inputs.numpy_input_fn', f'{V1}.inputs', 'numpy_input_fn'),
        ('from tensorflow.compat.v1.estimator import tpu', 'tpu.TPUEstimator', f'{V1}.tpu', 'TPUEstimator'),
        (
            'from tensorflow.python.estimator.canned import head',
            'head._Head',
            'tensorflow_estimator.python.estimator.canned.head',
            '_Head',
        ),
        (
            'import tensorflow.python.estimator.run_config as r',
            'r.RunConfig',
            'tensorflow_estimator.python.estimator.run_config',
            'RunConfig',
        ),
        (
            'from tensorflow.python.tpu import tpu_context',
            'tpu_context.TPUContext',
            'tensorflow_estimator.python.estimator.tpu.tpu_context',
            'TPUContext',
        ),
    ],
)
def test_names(statement, name, want_module, want_name):
    scope = {}
    exec(statement, scope)
    assert eval(name, scope) is getattr(importlib.import_module(want_module), want_name)


@needs_bridge
@pytest.mark.parametrize('name', [*aliases.ALIASES, *gone.MODULES])
def test_only_missing_modules_are_given(name):
    parent = importlib.import_module(name.rpartition('.')[0])
    assert importlib.machinery.PathFinder.find_spec(name, parent.__path__) is None


@pytest.mark.parametrize(
    'name, want_target',
    [
        ('tensorflow.estimator', V2),
        ('tensorflow.estimator.export', f'{V2}.export'),
        ('tensorflow.compat.v1.estimator.tpu.experimental', f'{V1}.tpu.experimental'),
        ('tensorflow.python.estimator.canned.head', 'tensorflow_estimator.python.estimator.canned.head'),
        ('tensorflow', None),
        ('tensorflow.keras', None),
        ('tensorflow.estimators', None),
        ('tensorflow.python.distribute', None),
        ('tensorflow.python.tpu.tpu_embedding_v2', None),
        ('tensorflow_estimator.python.estimator', None),
        ('my.tensorflow.estimator', None),
    ],
)
def test_finder_answers_for_its_names_only(name, want_target):
    spec = aliases.Finder(aliases.ALIASES).find_spec(name)
    assert (spec and spec.loader._target) == want_target


@needs_bridge
def test_an_alias_leaves_its_target_as_it_is():
    module = importlib.import_module('tensorflow.estimator.experimental')
    assert module is sys.modules[f'{V2}.experimental']
    assert module.__name__ == module.__spec__.name == f'{V2}.experimental'


@needs_bridge
def test_a_missing_submodule_is_an_import_error():
    with pytest.raises(ModuleNotFoundError, match=r'estimator\.nothing'):
        importlib.import_module('tensorflow.estimator.nothing')


@needs_bridge
@pytest.mark.parametrize('name', gone.MODULES)
def test_gone_modules_are_imported_but_not_used(name):
    module = importlib.import_module(name)
    assert module.Anything is module.Anything
    for use in (lambda: module.Anything(3), lambda: isinstance(3, module.Anything)):
        with pytest.raises(UserError) as error:
            use()
        assert str(error.value) == f'{name}.Anything is gone: TensorFlow 2.15 was the last with it'
    assert not hasattr(module, '__all__')


@needs_bridge
def test_tf_export_learns_estimator_and_no_more():
    for table in (internals.tf_export.API_ATTRS, internals.tf_export.API_ATTRS_V1):
        assert set(table) == {'tensorflow', 'keras', 'estimator'}


@pytest.mark.parametrize(
    'name, want_v1, want_v2',
    [
        ('tf.estimator.RunConfig', ['estimator.RunConfig'], ['estimator.RunConfig']),
        ('tf.compat.v1.estimator.Estimator', ['estimator.Estimator'], []),
        ('tf.compat.v1.estimator.tpu.TPUEstimator', ['estimator.tpu.TPUEstimator'], []),
        ('type("Own", (tf.estimator.RunConfig,), {})', [], []),
        ('tf.nn.relu', ['nn.relu'], ['nn.relu']),
        ('3', [], []),
    ],
)
def test_tf_export_tells_the_names_of_a_symbol(name, want_v1, want_v2):
    symbol = eval(name)
    assert internals.tf_export.get_v1_names(symbol) == want_v1
    assert internals.tf_export.get_v2_names(symbol) == want_v2


def test_keras_is_keras_2():
    from tensorflow.keras import layers

    want = 'tf_keras' if requirements.check().legacy_keras else 'keras'
    for dense in (layers.Dense, tf.keras.layers.Dense, tf.compat.v1.keras.layers.Dense):
        assert dense.__module__.split('.')[0] == want


# A Python of its own each, for what is true only of a TensorFlow that nobody has used yet.


def test_import_prints_nothing_of_its_own():
    code = "import sys, tensorflow; print('imported', file=sys.stderr); import estimator_trainer.compat"
    status, out, err = fresh.finish(fresh.start('-c', code))
    assert (status, out, err.partition('imported\n')[2]) == (0, '', '')


def test_import_makes_no_context_no_op_and_loads_no_estimator():
    code = """
import sys
from estimator_trainer.compat import tf
lazy = 'tensorflow_estimator' not in sys.modules
tf.estimator.Estimator, tf.compat.v1.estimator.Estimator
cpu = tf.config.list_physical_devices('CPU')[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
print(lazy, len(tf.compat.v1.get_default_graph().get_operations()), len(tf.config.list_logical_devices('CPU')))
"""
    assert fresh.last_line(fresh.start('-c', code)) == 'True 0 3'


def test_v2_behavior_can_be_disabled_afterwards():
    code = """
from estimator_trainer.compat import tf
tf.estimator.Estimator
tf.compat.v1.disable_v2_behavior()
print(tf.executing_eagerly(), type(tf.compat.v1.get_variable('x', [])).__name__)
"""
    assert fresh.last_line(fresh.start('-c', code)) == 'False RefVariable'


@pytest.mark.skipif(requirements.check() != (False, False), reason='this TensorFlow needs something')
def test_a_tensorflow_that_needs_nothing_is_left_alone():
    code = """
import os, sys
import tensorflow
from tensorflow.python.util import tf_export
state = lambda: (list(sys.meta_path), dict(os.environ), dict(vars(tensorflow)), set(tf_export.API_ATTRS))
before, modules = state(), set(sys.modules)
import estimator_trainer.compat
print(state() == before, {name.split('.')[0] for name in set(sys.modules) - modules})
"""
    assert fresh.last_line(fresh.start('-c', code)) == "True {'estimator_trainer'}"


@needs_legacy_keras
def test_tensorflow_may_be_imported_first():
    code = """
import tensorflow
import tensorflow.compat.v1 as tf1
from estimator_trainer.compat import tf
from tensorflow.keras import layers
import tensorflow.keras.backend
made = [layers.Dense, tf.keras.layers.Dense, tf1.keras.layers.Dense, tf.optimizers.Adam, tf.keras.backend.get_value]
print({one.__module__.split('.')[0] for one in made}, tf is tensorflow, tf1.estimator.Estimator.__name__)
"""
    assert fresh.last_line(fresh.start('-c', code)) == "{'tf_keras'} True Estimator"


@needs_legacy_keras
@pytest.mark.parametrize(
    'use, want_name',
    [
        ('from tensorflow.keras import layers', 'tensorflow.keras'),
        ('tensorflow.optimizers.Adam', 'tensorflow.optimizers'),
    ],
)
def test_keras_3_in_use_is_refused(use, want_name):
    status, _, err = fresh.finish(fresh.start('-c', f'import tensorflow\n{use}\nimport estimator_trainer.compat'))
    assert (status, err.splitlines()[-1]) == (
        1,
        f'estimator_trainer.errors.UserError: {want_name} was used before estimator_trainer was imported and is Keras '
        '3; Estimator code needs tf-keras: import estimator_trainer.compat first, or set TF_USE_LEGACY_KERAS=1',
    )
