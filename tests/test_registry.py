"""What of TensorFlow can be named in a .gin file, and that it does there what it does in Python."""

import inspect
import json
import re

import gin
import pytest

from estimator_trainer import early_stopping, gin_config, registry
from estimator_trainer.compat import tf
from tests.compat import fresh

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def registered(clean_gin):
    registry.register(gin_config.read([], [], []))


def names_of(family):
    return {
        family.known_as.format(name): getattr(family.source, name)
        for name in dir(family.source)
        if re.fullmatch(family.pattern, name)
    }


def original(name):
    """What gin calls for `@name`."""
    found = gin.get_configurable(name)
    return found.__bases__[0] if inspect.isclass(found) else found.__wrapped__


def test_every_name_of_the_table_resolves_to_the_first_that_has_it():
    want = {}
    for family in registry.FAMILIES:
        for name, value in names_of(family).items():
            want.setdefault(name, value)
    assert {name: original(name) for name in want} == want


def test_no_line_of_the_table_is_idle():
    # TensorFlow 2.21 has no hook in tf.data any more.
    idle = [family for family in registry.FAMILIES if not names_of(family)]
    # By name: a module that somebody imports as tensorflow.data.experimental takes the place of TensorFlow's own.
    assert {family.source.__name__.rpartition('.data.')[2] for family in idle} <= {'experimental'}


@pytest.mark.parametrize(
    ('name', 'want'),
    [
        ('AdamOptimizer', v1.train.AdamOptimizer),
        ('tf.train.AdamOptimizer', v1.train.AdamOptimizer),
        ('Adam', tf.keras.optimizers.Adam),
        ('tf.keras.optimizers.Adam', tf.keras.optimizers.Adam),
        ('LegacyAdam', tf.keras.optimizers.legacy.Adam),
        ('tf.train.exponential_decay', v1.train.exponential_decay),
        ('tf.keras.optimizers.schedules.ExponentialDecay', tf.keras.optimizers.schedules.ExponentialDecay),
        ('tf.losses.mean_squared_error', v1.losses.mean_squared_error),
        ('BinaryCrossentropy', tf.keras.losses.BinaryCrossentropy),
        ('tf.nn.relu', tf.nn.relu),
        ('random_normal_initializer', v1.random_normal_initializer),
        ('GlorotUniform', tf.keras.initializers.GlorotUniform),
        ('L1L2', tf.keras.regularizers.L1L2),
        ('DNNClassifier', tf.estimator.DNNClassifier),
        ('DNNClassifierV1', v1.estimator.DNNClassifier),
        ('RNNClassifier', tf.estimator.experimental.RNNClassifier),
        ('MultiClassHead', tf.estimator.MultiClassHead),
        ('WarmStartSettings', tf.estimator.WarmStartSettings),
        ('numeric_column', tf.feature_column.numeric_column),
        ('NanTensorHook', v1.train.NanTensorHook),
        ('InMemoryEvaluatorHook', tf.estimator.experimental.InMemoryEvaluatorHook),
        ('stop_if_lower_hook', early_stopping.stop_if_lower_hook),
        ('MirroredStrategy', tf.distribute.MirroredStrategy),
    ],
)
def test_what_a_name_stands_for(name, want):
    assert original(name) is want


@pytest.mark.parametrize(
    'name',
    ['Optimizer', 'SessionRunHook', 'Head', 'get_losses', 'global_variables_initializer', 'Loss', 'Exporter'],
)
def test_what_nobody_would_bind_is_not_registered(name):
    assert name not in gin_config.registered_names()


def test_a_wrong_parameter_is_refused_unless_the_signature_takes_any():
    names = {name for family in registry.FAMILIES for name in names_of(family)}

    def takes(name, parameter):
        try:
            gin.bind_parameter(f'{name}.{parameter}', 1)
        except ValueError:
            return False
        return True

    keras = {name for family in registry.FAMILIES if 'optimizers' in family.gin_module for name in names_of(family)}
    keras -= {name for name in keras if 'Decay' in name}
    assert {name for name in names if takes(name, 'no_such')} == keras | {'Ones', 'Zeros', 'L1', 'L2'}


@pytest.mark.parametrize('name', ['Adam', 'LegacyAdam', 'Ones', 'L1'])
def test_what_takes_any_parameter_refuses_a_wrong_one_when_it_is_called(name):
    gin.bind_parameter(f'{name}.no_such', 1)
    with pytest.raises((TypeError, ValueError), match=r'no_such|takes no arguments'):
        gin.get_configurable(name)()


@gin.configurable(module='test_registry')
def given(**values):
    return values


def test_dtypes_that_the_configuration_mentions():
    text = 'given.a = [%tf.float64, {"b": %tf.dtypes.int8}]\ngiven.c = %tf.nn\ngiven.d = %tf.no_such'
    registry.register(gin_config.read([], [text], []))
    gin.parse_config(text)
    assert gin.query_parameter('given.a')[0].scoped_configurable_fn() is tf.float64
    assert gin.query_parameter('given.a')[1]['b'].scoped_configurable_fn() is tf.int8
    with pytest.raises(ValueError, match=r'tf\.n'):
        gin.finalize()


def test_a_macro_with_the_name_of_a_dtype_stays_the_users():
    text = "uint16 = 'mine'\ngiven.a = %uint16"
    registry.register(gin_config.read([], [text], []))
    gin.parse_config(text)
    assert given() == {'a': 'mine'}


# In a process of its own, since gin forgets no name.
USERS_NAMES = """
import json, gin
from estimator_trainer import gin_config, registry
import gin.tf.external_configurables

@gin.configurable
class Lion: pass

@gin.configurable(module='mine')
def selu(): pass

@gin.configurable
def f(a): return a

text = 'f.a = [@Lion, @selu, @AdamOptimizer, @tf.train.AdamOptimizer, @LegacyAdam, %tf.int32, %int32]'
for _ in range(2):
    registry.register(gin_config.read([], [text], []))
gin.parse_config(text)
mine, selu, adam, same, *_, dtype, same_dtype = f()
print(json.dumps([mine.__module__, selu.__module__, adam is same, dtype is same_dtype]))
"""


def test_a_name_that_is_known_already_is_left_alone():
    assert json.loads(fresh.last_line(fresh.start('-c', USERS_NAMES))) == ['__main__', '__main__', True, True]


PYTHON_NAMES = """
import json, pathlib, sys, gin
from estimator_trainer import gin_config, registry

path = pathlib.Path(sys.argv[1])
path.write_text(chr(10).join([
    'from __gin__ import dynamic_registration', 'import tensorflow as tf',
    'tf.compat.v1.train.MomentumOptimizer.learning_rate = 0.1',
    'tf.compat.v1.train.MomentumOptimizer.momentum = @tf.keras.optimizers.legacy.SGD()',
]))
config = gin_config.read([str(path)], ['AdamOptimizer.beta1 = 0.5'], [])
registry.register(config)
gin_config.apply(config, {})
gin.get_configurable('MomentumOptimizer')()
gin.get_configurable('AdamOptimizer')()
print(json.dumps(gin.operative_config_str().splitlines()))
"""


def test_names_of_python_are_left_to_gin(tmp_path):
    lines = json.loads(fresh.last_line(fresh.start('-c', PYTHON_NAMES, str(tmp_path / 'dynamic.gin'))))
    assert 'tf.compat.v1.train.MomentumOptimizer.momentum = @tf.keras.optimizers.legacy.SGD()' in lines
    assert any(line.endswith('AdamOptimizer.beta1 = 0.5') for line in lines)


# What can be written in gin alone, trained and evaluated.


def batches():
    features = {'x': [1.0, 2.0, 3.0, 4.0], 'colour': ['red', 'blue', 'red', 'blue']}
    return tf.data.Dataset.from_tensor_slices((features, [0, 1, 0, 1])).repeat(2).batch(4)


CANNED = """
{estimator}.feature_columns = [@x/numeric_column(), @colour/embedding_column()]
{estimator}.hidden_units = [3]
{estimator}.activation_fn = @tanh
x/numeric_column.key = 'x'
x/numeric_column.dtype = %tf.float32
colour/embedding_column.categorical_column = @colour/categorical_column_with_vocabulary_list()
colour/embedding_column.dimension = 2
colour/embedding_column.initializer = @constant_initializer()
constant_initializer.value = 0.5
colour/categorical_column_with_vocabulary_list.key = 'colour'
colour/categorical_column_with_vocabulary_list.vocabulary_list = ['red', 'blue']
"""


@pytest.mark.parametrize(
    ('estimator', 'more', 'want_slot'),
    [
        ('DNNClassifierV1', 'DNNClassifierV1.optimizer = @AdamOptimizer', 'logits/bias/t_0/Adam_1'),
        ('DNNClassifierV1', 'DNNClassifierV1.optimizer = @AdamOptimizer()', 'logits/bias/t_0/Adam_1'),
        ('DNNClassifier', 'DNNClassifier.optimizer = @LegacyAdam', 'Adam/dnn/logits/bias/v'),
        ('DNNClassifier', 'DNNClassifier.optimizer = @LegacyAdam()', 'Adam/dnn/logits/bias/v'),
        (
            'DNNEstimator',
            'DNNEstimator.head = @BinaryClassHead()\nDNNEstimator.optimizer = @LegacySGD\n'
            'LegacySGD.learning_rate = @ExponentialDecay()\nLegacySGD.momentum = 0.9\n'
            'ExponentialDecay.initial_learning_rate = 0.1\nExponentialDecay.decay_steps = 5\n'
            'ExponentialDecay.decay_rate = 0.5',
            'SGD/dnn/logits/bias/momentum',
        ),
    ],
)
def test_a_canned_estimator_in_gin_alone(tmp_path, estimator, more, want_slot):
    text = CANNED.format(estimator=estimator) + more
    registry.register(gin_config.read([], [text], []))
    gin.parse_config(text)
    trained = gin.get_configurable(estimator)(model_dir=str(tmp_path))
    trained.train(batches)
    assert trained.evaluate(batches)['global_step'] == 2
    names = trained.get_variable_names()
    assert [name for name in names if name.endswith(want_slot)], names
    embedding = next(name for name in names if name.endswith('embedding_weights'))
    assert trained.get_variable_value(embedding) == pytest.approx(0.5, abs=0.3)


@gin.configurable(module='test_registry')
def parts_model_fn(features, labels, mode, initializer, activation, loss, schedule, optimizer):
    w = v1.get_variable('w', [], initializer=initializer)
    value = loss(labels=0.0, predictions=activation(w))
    step = v1.train.get_global_step()
    train_op = optimizer(learning_rate=schedule(global_step=step)).minimize(value, step)
    return tf.estimator.EstimatorSpec(mode, loss=value, train_op=train_op)


PARTS = """
parts_model_fn.initializer = @constant_initializer()
constant_initializer.value = -1.0
parts_model_fn.activation = @leaky_relu
leaky_relu.alpha = 0.5
parts_model_fn.loss = @mean_squared_error
parts_model_fn.schedule = @exponential_decay
exponential_decay.learning_rate = 0.1
exponential_decay.decay_steps = 1
exponential_decay.decay_rate = 0.5
parts_model_fn.optimizer = @GradientDescentOptimizer
StopAtStepHook.last_step = 2
"""


def parts_estimator(model_dir):
    gin.parse_config(PARTS)

    def model_fn(features, labels, mode):
        return parts_model_fn(features, labels, mode)

    return tf.estimator.Estimator(model_fn, str(model_dir))


def test_a_model_put_together_from_parts(tmp_path):
    estimator = parts_estimator(tmp_path)
    estimator.train(batches, hooks=[gin.get_configurable('StopAtStepHook')()])
    # The loss is (w / 2)^2, its gradient w / 2; the rates are 0.1 and 0.05.
    assert estimator.get_variable_value('w') == pytest.approx(-1 * 0.95 * 0.975)
    assert estimator.get_variable_value('global_step') == 2


@pytest.mark.skipif(not hasattr(tf.data.experimental, 'CheckpointInputPipelineHook'), reason='gone')
def test_a_hook_that_takes_the_estimator(tmp_path):
    estimator = parts_estimator(tmp_path)
    estimator.train(batches, hooks=[gin.get_configurable('CheckpointInputPipelineHook')(estimator)], max_steps=2)
    assert list(tmp_path.glob('input.ckpt-2*'))
