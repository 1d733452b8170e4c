"""Evaluates on several replicas, in a process of its own: prints what came out as JSON.

The weight is 1 and labels are twice the features, so that the loss of a batch is the mean of its squares.
"""

import json
import sys
import tempfile
import time

from estimator_trainer.compat import exact_evaluation, tf

v1 = tf.compat.v1
REPLICAS = 3
DEVICES = v1.ConfigProto(device_count={'CPU': REPLICAS}, allow_soft_placement=True)


def numbers(examples, slow=False):
    """0.0, 1.0, 2.0 ...; when they are slow to end, replicas that have a batch run before others find none."""

    def generate():
        yield from map(float, range(examples))
        time.sleep(0.2)

    if slow:
        return tf.data.Dataset.from_generator(generate, output_signature=tf.TensorSpec([], tf.float32))
    return tf.data.Dataset.range(examples).map(lambda number: tf.cast(number, tf.float32))


def batches(examples, batch=4, slow=False):
    return numbers(examples, slow).map(lambda x: ({'x': x}, 2 * x)).batch(batch)


def ragged(x):
    return tf.RaggedTensor.from_row_lengths(tf.repeat(x, 2), tf.fill([tf.size(x)], 2))


# What else may be in a batch, given x.
FEATURES = {
    'scalar': lambda x: tf.constant(7.0),
    'text': lambda x: tf.as_string(x),
    'matrix': lambda x: tf.tile(x[:, None], [1, tf.cast(x[0], tf.int32)]),
    'sparse': lambda x: tf.sparse.from_dense(tf.stack([x, x], 1)),
    'ragged': ragged,
    'ragged 2': lambda x: tf.RaggedTensor.from_row_lengths(ragged(x), tf.ones_like(x, tf.int32)),
    'unknown rank': lambda x: tf.py_function(lambda y: y, [x], tf.float32),
}

BEARABLE = [name for name in FEATURES if name != 'unknown rank']

# Metrics of which an empty batch makes another number, or an error, given x; and some that bear it.
METRICS = {
    'auc': lambda x: v1.metrics.auc(x > 2, tf.sigmoid(x)),
    'keras': lambda x: _updated(tf.keras.metrics.Mean(), x),
    'constant': lambda x: v1.metrics.mean(5.0),
    'all': lambda x: v1.metrics.mean(tf.cast(tf.reduce_all(x >= 0), tf.float32)),
    'mean of means': lambda x: v1.metrics.mean(tf.reduce_mean(x)),
    'assertion': lambda x: v1.metrics.mean(_checked(x)),
    'of its own': lambda x: _of_its_own(x),
    'static': lambda x: v1.metrics.mean(tf.zeros([x.shape[0]])),
}


def _of_its_own(x):
    """A sum whose value is that of the first replica, as with the head for two classes."""
    how = {'synchronization': tf.VariableSynchronization.ON_READ, 'aggregation': tf.VariableAggregation.SUM}
    keys = [v1.GraphKeys.LOCAL_VARIABLES]
    total = v1.get_variable('total', [], initializer=v1.zeros_initializer(), trainable=False, collections=keys, **how)
    first = tf.distribute.get_replica_context().merge_call(
        lambda strategy, value: strategy.experimental_local_results(value)[0], args=(tf.identity(total),)
    )
    return first, total.assign_add(tf.reduce_sum(x))


def _updated(metric, x):
    metric.update_state(x)
    return metric


def _checked(x):
    with tf.control_dependencies([tf.debugging.assert_positive(tf.size(x), 'a batch without examples')]):
        return tf.identity(x)


def model_fn(features, labels, mode, params):
    x = features['x']
    w = v1.get_variable('w', [], initializer=v1.ones_initializer())
    loss = tf.reduce_mean((w * x - labels) ** 2)
    metrics = {'examples': v1.metrics.true_positives(tf.ones_like(x), tf.ones_like(x)), 'x': v1.metrics.mean(x)}
    metrics |= {name: METRICS[name](x) for name in params.get('metrics', ())}
    step = v1.assign_add(v1.train.get_global_step(), 1)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step, eval_metric_ops=metrics)


def estimator(replicas, kind=exact_evaluation.Estimator, **params):
    strategy = tf.distribute.MirroredStrategy(
        [f'/cpu:{index}' for index in range(replicas)], cross_device_ops=tf.distribute.ReductionToOneDevice()
    )
    config = tf.estimator.RunConfig(
        tempfile.mkdtemp(), eval_distribute=strategy if replicas else None, session_config=DEVICES
    )
    return kind(model_fn, params=params, config=config)


def evaluate(replicas, input_fn, **options):
    result = estimator(replicas).evaluate(input_fn, checkpoint_path=CHECKPOINT, **options)
    return [float(result['examples']), round(float(result['x']), 4)]


def with_features(*names):
    def add(features, labels):
        return features | {name: FEATURES[name](features['x']) for name in names}, labels

    return numbers(5).map(lambda x: ({'x': x + 1}, x)).batch(2).map(add)


def effect(input_fn, replicas=2, **params):
    return estimator(replicas, **params).effect_of_replicas(lambda mode, params, config, input_context=None: input_fn())


def counts():
    found = {}
    for examples, replicas in ((12, 0), (13, 2), (1, 2), (13, 3), (5, 3)):
        found[f'{examples} on {replicas}'] = evaluate(replicas, lambda n=examples: batches(n))
    found['2 steps of 1 on 2'] = evaluate(2, lambda: batches(40, 1), steps=2)
    found['all kinds on 2'] = evaluate(2, lambda: with_features(*BEARABLE))
    return found


def twenty_times():
    return [evaluate(2, lambda slow=repeat % 2 == 0: batches(12, slow=slow)) for repeat in range(20)]


def effects():
    found = {name: effect(lambda: batches(8), metrics=[name]) for name in METRICS if name not in ('auc', 'keras')}
    found['nothing wrong'] = effect(lambda: batches(8), metrics=['auc', 'keras'])
    found['all kinds'] = effect(lambda: with_features(*BEARABLE))
    found['unknown rank'] = effect(lambda: with_features('unknown rank'))
    found['no batch dimension'] = effect(lambda: numbers(5).map(lambda x: ({'x': x}, x)))
    found['static batch'] = effect(lambda: numbers(8).map(lambda x: ({'x': x}, x)).batch(2, drop_remainder=True))
    return found


if __name__ == '__main__':
    (_cpu,) = tf.config.list_physical_devices('CPU')
    tf.config.set_logical_device_configuration(_cpu, [tf.config.LogicalDeviceConfiguration()] * REPLICAS)
    _trained = estimator(0)
    _trained.train(lambda: batches(4), steps=1)
    CHECKPOINT = _trained.latest_checkpoint()
    print(json.dumps({case: globals()[case]() for case in sys.argv[1:]}))
