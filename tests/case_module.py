"""Functions as users write them, with the mistakes that the cases tell of; copied into the directory of a test."""

import gin
import my_model
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
Dense = gin.external_configurable(tf.keras.layers.Dense, name='Dense', module='case_module')
gin.constant('case_module.RATE', 0.25)
gin.constant('NAMES', ['a', 'b'])


def spec_of(features, labels, mode, **more):
    """Returns the spec of a logistic regression."""
    logits = v1.layers.dense(features['x'], 1)[:, 0]
    predictions = {'y': tf.sigmoid(logits)}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=predictions, **more)
    loss = v1.losses.sigmoid_cross_entropy(labels, logits)
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, predictions=predictions, loss=loss, train_op=train_op)


# What gin does.


@gin.configurable
def show(**values):
    print('shown', repr(values))
    return {}


@gin.configurable
def rate_model_fn(features, labels, mode, learning_rate=0.1, names=()):
    print('rate', learning_rate, names)
    return spec_of(features, labels, mode)


@gin.configurable
def helper(rate=1.0, only=None):
    return rate


@gin.configurable
def helped_model_fn(features, labels, mode):
    """Calls `helper` in a scope for each mode, and a layer that gin knows under Keras's own name."""
    with gin.config_scope(mode):
        helper(only=None)
    tf.keras.layers.Dense(3)(features['x'])
    return spec_of(features, labels, mode)


@gin.configurable
def helping_hook(estimator, every=3):
    return v1.train.SessionRunHook()


@gin.configurable
def lazy_model_fn(features, labels, mode):
    import lazy_model

    print('lazy', lazy_model.lazy_model_rate())
    return my_model.my_model_fn(features, labels, mode)


@gin.configurable
def lazy_input_fn():
    import lazy_input

    print('lazy', lazy_input.lazy_input_rate())
    return my_model.my_input_fn()


@gin.configurable
class LazyHook(v1.train.SessionRunHook):
    def begin(self):
        import lazy_model

        gin.bind_parameter('lazy_model_rate.rate', 3)
        gin.parse_config('lazy_model_rate.more = 4')
        late = gin.external_configurable(dict, name='late_dict', module='case_module')
        print('lazy', lazy_model.lazy_model_rate(), late(late=5))


# What a model_fn does.


@gin.configurable
def params_model_fn(features, labels, mode, params):
    print('params', params)
    return spec_of(features, labels, mode)


@gin.configurable
def default_params_model_fn(features, labels, mode, config, params=None):
    print('params', params)
    return spec_of(features, labels, mode)


@gin.configurable
def norm_model_fn(features, labels, mode, kind):
    x = features['x'] + 5.0
    if kind == 'v1':
        x = v1.layers.batch_normalization(x, training=mode == 'train', momentum=0.9)
    else:
        x = tf.keras.layers.BatchNormalization(momentum=0.9)(x, training=mode == 'train')
    return spec_of({'x': x}, labels, mode)


# As for a tensor that has a value already.
EAGER = {
    'numpy': lambda tensor: print(tensor.numpy()),
    'item': lambda tensor: tensor.item(),
    'variable': lambda tensor: tf.Variable(1.0).numpy(),
    'assigned': lambda tensor: tf.Variable(1.0).assign_add(1.0).numpy(),
    'if': lambda tensor: 1 if tf.reduce_sum(tensor) > 0 else 2,
    'and': lambda tensor: (tf.reduce_sum(tensor) > 0) and 1,
    'for': lambda tensor: [one for one in tensor],
    'unpack': lambda tensor: (lambda a, b: a)(*tensor),
    'in': lambda tensor: 1.0 in tensor,
    'float': lambda tensor: float(tf.reduce_sum(tensor)),
    'int': lambda tensor: int(tf.reduce_sum(tensor)),
    'mean': lambda tensor: np.mean(tensor),
    'array': lambda tensor: np.array(tensor),
    'len': lambda tensor: len(tensor),
    'range': lambda tensor: range(tf.shape(tensor)[0]),
    'format': lambda tensor: f'{tf.reduce_sum(tensor):.3f}',
    'function': lambda tensor: tf.function(lambda inner: inner.numpy())(tensor),
}


@gin.configurable
def eager_model_fn(features, labels, mode, what, where='train'):
    if mode == where:
        EAGER[what](features['x'])
    return spec_of(features, labels, mode)


@gin.configurable
def eager_input_fn(what):
    EAGER[what](tf.ones([3]))
    return my_model.my_input_fn()


@gin.configurable
def eager_map_input_fn(what):
    return my_model.my_input_fn().map(lambda features, labels: (EAGER[what](features['x']), labels))


SUMMARIES = {
    'scalar': lambda loss: tf.summary.scalar('v2', loss),
    'with step': lambda loss: tf.summary.scalar('v2', loss, step=v1.train.get_global_step()),
    'histogram': lambda loss: tf.summary.histogram('v2', loss),
    'image': lambda loss: tf.summary.image('v2', tf.zeros([1, 4, 4, 1])),
    'text': lambda loss: tf.summary.text('v2', 'text'),
}


@gin.configurable
def summary_model_fn(features, labels, mode, what=(), writer=False):
    loss = tf.reduce_sum(features['x'])
    v1.summary.scalar('v1', loss)
    for one in what:
        if writer:
            with tf.summary.create_file_writer('written').as_default(step=v1.train.get_global_step()):
                SUMMARIES[one](loss)
        else:
            SUMMARIES[one](loss)
    return spec_of(features, labels, mode)


# What an input_fn returns.

_MADE = my_model.my_input_fn(repeat=False)


def _iterator(make, repeat=False):
    return make(my_model.my_input_fn(repeat=repeat))


def _arrays():
    return {'x': np.zeros([4, 2], np.float32)}, np.zeros([4], np.float32)


RETURNED = {
    'made': lambda: _MADE,
    'function': lambda: my_model.my_input_fn,
    'iterator': lambda: _iterator(v1.data.make_one_shot_iterator),
    'generator': lambda: (batch for batch in [_arrays()]),
    'text': lambda: 'train.csv',
    'nothing': lambda: None,
    'three': lambda: my_model.my_input_fn().map(lambda x, y: (x, y, y)),
    'one': lambda: my_model.my_input_fn().map(lambda x, y: (x,)),
    'list': lambda: my_model.my_input_fn(repeat=False).map(lambda x, y: [x, y]),
    'initializable': lambda: _iterator(v1.data.make_initializable_iterator).get_next(),
    'one shot': lambda: _iterator(v1.data.make_one_shot_iterator).get_next(),
    'arrays': _arrays,
    'tensors': lambda: ({'x': tf.zeros([4, 2])}, tf.zeros([4])),
    'endless': lambda: my_model.my_input_fn(repeat=False).repeat().shuffle(9).prefetch(1),
    'endless, mixed': lambda: tf.data.Dataset.sample_from_datasets([my_model.my_input_fn(), my_model.my_input_fn()]),
    'ended by zip': lambda: tf.data.Dataset.zip((my_model.my_input_fn(), tf.data.Dataset.range(3))).map(
        lambda batch, _: batch
    ),
    'ended by take': lambda: my_model.my_input_fn().take(3),
    'no records': lambda: tf.data.TFRecordDataset([]).map(lambda _: ({'x': tf.zeros([2])}, 0.0)).batch(8),
    'no files': lambda: tf.data.Dataset.list_files('nowhere/*.tfr').map(lambda _: ({'x': tf.zeros([2])}, 0.0)).batch(8),
    'no rows': lambda: tf.data.Dataset.from_tensor_slices(({'x': tf.zeros([0, 2])}, tf.zeros([0]))).batch(8),
    'all filtered': lambda: my_model.my_input_fn(repeat=False).unbatch().filter(lambda x, y: y > 5).batch(8),
    'remainder': lambda: my_model.my_input_fn(repeat=False).unbatch().take(5).batch(8, drop_remainder=True),
    'all skipped': lambda: my_model.my_input_fn(repeat=False).skip(100),
    'empty batches': lambda: tf.data.Dataset.from_tensors(({'x': tf.zeros([0, 2])}, tf.zeros([0]))),
}


@gin.configurable
def returning_input_fn(what):
    return RETURNED[what]()


_calls = []


@gin.configurable
def later_empty_input_fn():
    """Has something to read when it is called for the first time only, which is before anything is written."""
    _calls.append('call')
    return my_model.my_input_fn(repeat=False).take(9 if len(_calls) == 1 else 0)


# What a model is served with.


@gin.configurable
def dict_receiver_fn():
    return {'x': v1.placeholder(tf.float32, [None, 2])}


@gin.configurable
def spec_receiver_fn():
    return tf.TensorSpec([None, 2])


@gin.configurable
def parsing_receiver_fn():
    features = {'x': v1.placeholder(tf.float32, [None, 2])}
    return tf.estimator.export.build_parsing_serving_input_receiver_fn(features)()


@gin.configurable
def good_receiver_fn():
    x = v1.placeholder(tf.float32, [None, 2])
    return tf.estimator.export.ServingInputReceiver({'x': x}, {'x': x})


def _output():
    return tf.estimator.export.PredictOutput({'y': tf.zeros([1])})


OUTPUTS = {
    'none': lambda: None,
    'one': lambda: {'a': _output()},
    'two': lambda: {'a': _output(), 'b': _output()},
    'tensors': lambda: {'y': tf.zeros([1])},
    'list': lambda: [_output()],
}


@gin.configurable
def outputs_model_fn(features, labels, mode, outputs='none'):
    outputs = OUTPUTS[outputs]() if mode == tf.estimator.ModeKeys.PREDICT else None
    return spec_of(features, labels, mode, **({'export_outputs': outputs} if outputs else {}))


# What a training does, with a result that is known beforehand.


@gin.configurable
def walk_model_fn(features, labels, mode, step=1.0):
    """Its weight walks by `step`, whatever is in the input; the loss is its distance from 3."""
    w = v1.get_variable('w', initializer=0.0)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={'y': w * features['x'][:, 0]})
    if mode == tf.estimator.ModeKeys.TRAIN:
        tf.identity(labels, 'labels_seen')
    loss = tf.abs(w - 3.0) + 0.0 * tf.reduce_mean(features['x'])
    with tf.control_dependencies([loss]):  # else it would walk once more when the input has ended
        train_op = tf.group(w.assign_add(step), v1.assign_add(v1.train.get_global_step(), 1))
    metrics = {'w': v1.metrics.mean(w), 'flat': v1.metrics.mean(5.0)}
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


@gin.configurable
def count_input_fn(examples=100, repeat=False):
    dataset = tf.data.Dataset.range(examples).map(lambda i: ({'x': tf.cast([i, i], tf.float32)}, i))
    return (dataset.repeat() if repeat else dataset).batch(1)


@gin.configurable
class SeenHook(v1.train.SessionRunHook):
    """Prints the first and the last label of `walk_model_fn`."""

    def begin(self):
        self._seen = []

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(v1.get_default_graph().get_tensor_by_name('labels_seen:0'))

    def after_run(self, run_context, run_values):
        self._seen.append(int(run_values.results[0]))

    def end(self, session):
        print('seen', self._seen[0], self._seen[-1])
