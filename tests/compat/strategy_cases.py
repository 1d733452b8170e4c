"""Trains under each strategy, in a process of its own: `python strategy_cases.py CASE...` prints what came out as JSON.

The model is y = w * x with true w = 3, w = 0 at first, and gradient descent at rate 0.1 on squared errors of examples
with x = 1: after n steps w is 3 * (1 - 0.8 ** n), under any strategy that averages over its replicas.
"""

import collections
import json
import os
import sys
import tempfile

from estimator_trainer.compat import tf

TWO_CPUS = tf.compat.v1.ConfigProto(device_count={'CPU': 2}, allow_soft_placement=True)
STRATEGIES = {
    'none': lambda: None,
    'one_device': lambda: tf.distribute.OneDeviceStrategy('/cpu:0'),
    # The default way to reduce over two CPUs hangs.
    'mirrored': lambda: tf.distribute.MirroredStrategy(['cpu:0', 'cpu:1'], tf.distribute.ReductionToOneDevice()),
    'central_storage': lambda: tf.compat.v1.distribute.experimental.CentralStorageStrategy(['cpu:0', 'cpu:1']),
}


def model_fn(features, labels, mode):
    w = tf.compat.v1.get_variable('w', [], initializer=tf.compat.v1.zeros_initializer())
    y = w * features['x']
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={'y': y})
    loss = tf.reduce_mean((y - labels) ** 2)
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    train_op = optimizer.minimize(loss, tf.compat.v1.train.get_global_step())
    metrics = {
        'x': tf.compat.v1.metrics.mean(features['x']),
        'examples': tf.compat.v1.metrics.true_positives(tf.ones_like(y), tf.ones_like(y)),
    }
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def examples(values):
    return tf.data.Dataset.from_tensor_slices(({'x': values}, [3 * value for value in values]))


def train_input_fn():
    return examples([1.0, 1.0]).repeat().batch(2)


def eval_input_fn():
    return examples([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]).batch(2)


def serving_input_receiver_fn():
    x = tf.compat.v1.placeholder(tf.float32, [None])
    return tf.estimator.export.ServingInputReceiver({'x': x}, {'x': x})


def run_config(strategy, session_config=TWO_CPUS):
    return tf.estimator.RunConfig(
        tempfile.mkdtemp(),
        train_distribute=strategy,
        eval_distribute=strategy,
        session_config=session_config,
        save_checkpoints_steps=10,
    )


def numbers(metrics):
    return {name: float(value) for name, value in metrics.items()}


def custom(strategy):
    """Trains 10 steps, evaluates, trains to step 20 with train_and_evaluate, exports and calls what was exported."""
    estimator = tf.estimator.Estimator(model_fn, config=run_config(strategy))
    estimator.train(train_input_fn, steps=10)
    after_10 = estimator.get_variable_value('w')
    evaluated = estimator.evaluate(eval_input_fn)
    metrics, _ = tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(train_input_fn, max_steps=20),
        tf.estimator.EvalSpec(eval_input_fn, steps=None),
    )
    exported = tf.saved_model.load(estimator.export_saved_model(tempfile.mkdtemp(), serving_input_receiver_fn).decode())
    called = exported.signatures['serving_default'](x=tf.constant([1.0, -2.0]))['y']
    return {
        'w': [float(after_10), float(estimator.get_variable_value('w'))],
        'evaluate': numbers(evaluated),
        'train_and_evaluate': numbers(metrics),
        'called': called.numpy().tolist(),
    }


def canned(strategy):
    """Trains a DNNClassifier on two classes that x = 0 separates."""
    x = [-4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0]

    def dataset():
        return tf.data.Dataset.from_tensor_slices(({'x': [[one] for one in x]}, [[int(one > 0)] for one in x]))

    estimator = tf.estimator.DNNClassifier(
        [8],
        [tf.feature_column.numeric_column('x')],
        # Without slots: those of two replicas have the same name, and TensorFlow saves neither.
        optimizer=lambda: tf.keras.optimizers.legacy.SGD(0.3),
        config=run_config(strategy),
    )
    estimator.train(lambda: dataset().repeat().batch(8), steps=20)
    return numbers(estimator.evaluate(lambda: dataset().batch(4)))


def coordinator():
    """Trains, as the one task of the cluster in TF_CONFIG, with a strategy."""
    # On one CPU: the strategy would reduce over two, and may hang.
    config = run_config(tf.distribute.experimental.MultiWorkerMirroredStrategy(), session_config=None)
    estimator = tf.estimator.Estimator(model_fn, config=config)
    described = [config.task_type, config.master, config.cluster_spec.as_dict()]
    returned = tf.estimator.train_and_evaluate(
        estimator, tf.estimator.TrainSpec(train_input_fn, max_steps=20), tf.estimator.EvalSpec(eval_input_fn)
    )
    return {
        'described': described,
        'returned': returned,
        'w': float(estimator.get_variable_value('w')),
        'step': int(estimator.get_variable_value('global_step')),
    }


def task():
    """Trains, as the task of the cluster in TF_CONFIG, without a strategy."""
    config = tf.estimator.RunConfig(os.environ['MODEL_DIR'], save_checkpoints_steps=10)
    estimator = tf.estimator.Estimator(model_fn, config=config)
    tf.estimator.train_and_evaluate(
        estimator, tf.estimator.TrainSpec(train_input_fn, max_steps=20), tf.estimator.EvalSpec(eval_input_fn)
    )
    return {'w': float(estimator.get_variable_value('w')), 'ps': config.num_ps_replicas, 'chief': config.is_chief}


def server():
    """Serves one task of $CLUSTER for a client, until it is killed."""
    tf.distribute.Server(json.loads(os.environ['CLUSTER']), os.environ['JOB'], 0).join()


def client():
    """Trains in a remote cluster, $CLUSTER, whose tasks this process runs."""
    strategy, cluster = (
        tf.compat.v1.distribute.experimental.ParameterServerStrategy(),
        json.loads(os.environ['CLUSTER']),
    )
    distribute = collections.namedtuple('DistributeConfig', 'train_distribute eval_distribute remote_cluster')
    config = tf.estimator.RunConfig(
        tempfile.mkdtemp(), experimental_distribute=distribute(strategy, None, cluster), save_checkpoints_steps=10
    )
    estimator = tf.estimator.Estimator(model_fn, config=config)
    returned = tf.estimator.train_and_evaluate(
        estimator, tf.estimator.TrainSpec(train_input_fn, max_steps=20), tf.estimator.EvalSpec(eval_input_fn)
    )
    refused = ''
    try:
        estimator.train(train_input_fn, max_steps=30)
    except ValueError as error:
        refused = str(error)
    return {
        'described': [config.task_type, config.cluster_spec],
        'returned': returned,
        'w': float(estimator.get_variable_value('w')),
        'refused': refused,
    }


def main(names):
    if any(':' in name for name in names):
        cpu = tf.config.list_physical_devices('CPU')[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    results = {}
    for name in names:
        case, _, strategy = name.partition(':')
        arguments = [STRATEGIES[strategy]()] if strategy else []
        results[name] = globals()[case](*arguments)
    print(json.dumps(results))


if __name__ == '__main__':
    main(sys.argv[1:])
