"""Large variables are divided over the parameter servers, and whole again where there is none."""

import json

import pytest

from estimator_trainer.compat import tf
from estimator_trainer.predictor import Predictor
from tests import program

MODULE = """
import gin
import tensorflow as tf

v1 = tf.compat.v1


@gin.configurable
def parts_model_fn(features, labels, mode, strategy='div'):
    table = v1.get_variable('table', [64, 4])
    own = v1.get_variable('own', [6, 4], partitioner=v1.fixed_size_partitioner(3))
    small = v1.get_variable('small', initializer=0.5)
    values = v1.get_variable('values', [64, 4], initializer=lambda *_, **__: tf.ones([64, 4]))
    rows = v1.nn.embedding_lookup(table, tf.cast(features['n'], tf.int64), partition_strategy=strategy)
    logits = v1.layers.dense(rows, 32)
    logits = tf.reduce_sum(logits + small + tf.reduce_sum(own) + tf.reduce_sum(values), 1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={'row': tf.reduce_sum(rows, 1)})
    loss = tf.reduce_mean((logits - labels) ** 2) * 1e-6
    step = v1.train.get_global_step()
    train_op = v1.train.AdamOptimizer(1e-4).minimize(loss, step) if mode == 'train' else None
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@gin.configurable
def parts_input_fn(repeat=True):
    n = tf.range(64)
    dataset = tf.data.Dataset.from_tensor_slices(({'n': n}, tf.cast(n, tf.float32)))
    return (dataset.repeat() if repeat else dataset).batch(64)
"""
GIN = """
import parts
experiment.model_fn = @parts_model_fn
experiment.train_input_fn = @parts_input_fn
experiment.eval_input_fn = @eval/parts_input_fn
eval/parts_input_fn.repeat = False
experiment.exporters = [@FinalExporter()]
experiment.max_steps = 10
parameter_server.min_slice_size = 256
"""


@pytest.mark.once('newest')
def test_large_variables_are_divided_and_exported_whole(cluster):
    (cluster.project / 'parts.py').write_text(MODULE)
    (cluster.project / 'my.gin').write_text(GIN)
    spec = {'chief': ['localhost:1'], 'worker': ['localhost:2'], 'ps': ['localhost:3', 'localhost:4']}
    tf_config = json.dumps({'cluster': spec, 'task': {'type': 'chief', 'index': 0}})
    planned = program.run(
        *('--gin_file=my.gin', '--model_dir=M', '--mode=plan', '--plan_format=json'),
        cwd=cluster.project,
        TF_CONFIG=tf_config,
    ).check()
    parts = {variable['name']: variable['parts'] for variable in json.loads(planned.out)['variables']}
    want = {'table': 2, 'table/Adam': 2, 'own': 3, 'small': 1, 'values': 1, 'dense/kernel': 2, 'dense/bias': 1}
    assert {name: parts[name] for name in want} == want

    mod = program.bind("parts_model_fn.strategy = 'mod'")
    result = cluster('chief:1,worker:1,ps:2,evaluator:1', *mod).finish().check(2)
    assert "looks up table with partition_strategy 'mod'" in result.out + result.err

    cluster('chief:1,worker:1,ps:2,evaluator:1').finish().check()
    # The checkpoint knows nothing of parts: one process goes on from it, and the cluster from that of the process.
    assert tf.train.load_variable(str(cluster.model_dir), 'table').shape == (64, 4)
    arguments = ('--gin_file=my.gin', '--model_dir=M', '--max_steps=20')
    program.run(*arguments, cwd=cluster.project).check()
    cluster('chief:1,worker:1,ps:2', '--max_steps=30').finish().check()
    summary = program.summary(cluster.model_dir)
    assert (summary['first_step'], summary['status']) == (20, 'done')
    (export,) = [export for export in summary['exports'] if export['name'] == 'final']
    table = tf.train.load_variable(str(cluster.model_dir), 'table')
    rows = Predictor(str(cluster.project / export['path']))({'n': list(range(64))})['row']
    assert abs(rows - table.sum(1)).max() < 1e-5
