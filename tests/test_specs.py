"""What a model_fn has forgotten: update ops, and summaries that nobody writes."""

import pytest

from estimator_trainer import specs
from estimator_trainer.compat import tf

v1 = tf.compat.v1


def v1_layers(x):
    return v1.layers.batch_normalization(x, training=True)


def keras_layers(x):
    return tf.keras.layers.BatchNormalization()(x, training=True)


def moving_average(x):
    variable = v1.get_variable('average_of', [], trainable=False)
    average = tf.train.ExponentialMovingAverage(0.9)
    average.apply([variable])
    return x * variable


def plain(x):
    return x


def spec_of(layer, updates_attached=False, summary=None):
    x = layer(tf.random.normal([8, 3], 5.0))
    w = v1.get_variable('w', [3, 1])
    loss = tf.reduce_mean(x @ w)
    if summary:
        summary(loss)
    updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS) if updates_attached else []
    with tf.control_dependencies(updates):
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.create_global_step())
    return tf.estimator.EstimatorSpec('train', loss=loss, train_op=train_op)


@pytest.mark.parametrize(
    ('layer', 'attached', 'want_count'),
    [
        (v1_layers, False, 2),
        (v1_layers, True, 0),
        (keras_layers, False, 2),
        (moving_average, False, 1),
        (plain, False, 0),
    ],
)
def test_forgotten_updates(layer, attached, want_count):
    graph = tf.Graph()
    with graph.as_default():
        spec = spec_of(layer, attached)
        assert len(specs.forgotten_updates(spec.train_op, graph)) == want_count
        found = specs.warnings(spec, graph)
        assert len(found) == bool(want_count)
        for line in found:
            assert line.startswith(f'{want_count} update ops are no dependencies of train_op')
            assert 'AssignMovingAvg' in line
            assert 'experiment.attach_update_ops = True' in line
        assert specs.forgotten_updates(specs.with_updates(spec).train_op, graph) == []


@pytest.mark.parametrize('layer', [v1_layers, keras_layers])
def test_attached_updates_run(layer):
    with tf.Graph().as_default(), v1.Session() as session:
        spec = specs.with_updates(spec_of(layer))
        (mean,) = [variable for variable in v1.global_variables() if 'moving_mean' in variable.op.name]
        session.run(v1.global_variables_initializer())
        for _ in range(200):
            session.run(spec.train_op)
        assert (session.run(mean) > 4).all()
        assert (session.run(mean) < 5.5).all()


@pytest.mark.parametrize(
    ('summary', 'want_count'),
    [
        (lambda loss: tf.summary.scalar('loss', loss), 1),
        (lambda loss: tf.summary.histogram('loss', loss), 1),
        (lambda loss: v1.summary.scalar('loss', loss), 0),
    ],
)
def test_summaries_that_nobody_writes(summary, want_count):
    graph = tf.Graph()
    with graph.as_default():
        found = specs.warnings(spec_of(plain, summary=summary), graph)
    assert len(found) == want_count
    assert all(line.startswith('tf.summary in the model_fn has no effect (loss') for line in found)


@pytest.mark.parametrize(
    ('sizes', 'want_loss', 'want_batch_mean'),
    [([4, 2], 3.0, 3.5), ([4, 0], 2.0, 2.0), ([0, 3], 5.0, 5.0), (None, None, None)],
)
def test_losses_of_an_evaluation(sizes, want_loss, want_batch_mean):
    with tf.Graph().as_default(), v1.Session() as session:
        loss, size = v1.placeholder(tf.float32, []), v1.placeholder(tf.int64, [])
        spec = specs.with_losses(tf.estimator.EstimatorSpec('eval', loss=loss), size if sizes else None)
        assert specs.metric_names(spec) == ({'loss', 'loss/batch_mean'} if sizes else {'loss'})
        if sizes is None:
            return
        session.run(v1.local_variables_initializer())
        updates = [update for _, update in spec.eval_metric_ops.values()]
        for value, examples in zip((2.0, 5.0), sizes, strict=True):
            session.run(updates, {loss: value if examples else float('nan'), size: examples})
        values = session.run({name: value for name, (value, _) in spec.eval_metric_ops.items()})
        assert values == {'loss/by_examples': want_loss, 'loss/batch_mean': want_batch_mean}
