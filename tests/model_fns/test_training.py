"""`optimization`: learning rates, what is added to the loss, what is done with gradients, and the steps made of it."""

import gin
import numpy as np
import pytest

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from model_fns import training
from tests.model_fns import harness

v1 = tf.compat.v1
KERNEL = np.array([[3.0, 4.0], [0.0, 0.0], [6.0, 8.0]])
BIAS = np.array([5.0, 12.0])
for optimizer in (v1.train.AdagradOptimizer, v1.train.GradientDescentOptimizer):
    gin.external_configurable(optimizer, f'{optimizer.__name__}OfATrainingTest')
gin.external_configurable(v1.train.polynomial_decay, 'polynomial_decay_of_a_training_test')
SGD = 'optimization.optimizer = @GradientDescentOptimizerOfATrainingTest'


@gin.configurable
def optimizer_of_a_training_test():
    return v1.train.GradientDescentOptimizer(0.25)


def some_model_fn(features, labels, mode, parts=None):
    """Has a table of which rows are looked up, a bias, and a moving average; the loss is the sum of what is taken."""
    table = v1.get_variable('table', [3, 2], initializer=v1.constant_initializer(KERNEL))
    bias = v1.get_variable('bias', [2], initializer=v1.constant_initializer(BIAS))
    average = v1.get_variable('average', [], trainable=False)
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, average.assign(7.0))
    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, features['row'])) + tf.reduce_sum(bias)
    loss, train_op = training.minimize(loss, *(parts or ()))
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def moved(*bindings, rows=(0, 2), steps=1, **arguments):
    """Returns by how much each variable has moved."""
    with harness.bound(*bindings):
        before, after = harness.trained(some_model_fn, {'row': list(rows)}, [0], steps, **arguments)
    return {name: after[name] - before[name] for name in after if before[name].shape == after[name].shape}


def rates(*bindings, steps=range(12)):
    with harness.bound(*bindings), tf.Graph().as_default(), v1.Session() as session:
        step = v1.placeholder(tf.int64, [])
        rate = training.optimization().rate(step)
        return [float(session.run(rate, {step: at})) for at in steps]


@pytest.mark.parametrize(
    ('bindings', 'want'),
    [
        ([], [0.001] * 12),
        (['learning_rate = 2.0'], [2.0] * 12),
        (['learning_rate = 0.0'], [0.0] * 12),
        (
            ['learning_rate = 2.0', "schedule = 'linear'", 'decay_steps = 4', 'end_fraction = 0.5'],
            [2, 1.75, 1.5, 1.25, *[1] * 8],
        ),
        (
            ['learning_rate = 2.0', "schedule = 'exponential'", 'decay_steps = 4', 'end_fraction = 0.0625'],
            [2, 1, 0.5, 0.25, *[0.125] * 8],
        ),
        (
            ['learning_rate = 2.0', "schedule = 'cosine'", 'decay_steps = 3', 'end_fraction = 0.5'],
            [2, 1.75, 1.25, *[1] * 9],
        ),
        (
            ['learning_rate = 2.0', "schedule = 'linear'", 'decay_steps = 6', 'warmup_steps = 2', 'end_fraction = 0.5'],
            [1, 2, 2, 1.75, 1.5, 1.25, *[1] * 6],
        ),
        (
            ['learning_rate = 2.0', "schedule = 'inverse_square_root'", 'warmup_steps = 4'],
            [0.5, 1, 1.5, 2, *(2 * np.sqrt(4 / n) for n in range(5, 13))],
        ),
        (['learning_rate = 2.0', 'warmup_steps = 4'], [0.5, 1, 1.5, *[2] * 9]),
    ],
)
def test_rate(bindings, want):
    assert rates(*(f'optimization.{binding}' for binding in bindings)) == pytest.approx(want, rel=1e-5)


def test_rate_of_a_function():
    name = 'polynomial_decay_of_a_training_test'
    bindings = ['optimization.learning_rate = 2.0', f'optimization.schedule = @{name}', f'{name}.decay_steps = 4']
    got = rates(*bindings, f'{name}.end_learning_rate = 1.0', 'optimization.warmup_steps = 2', steps=range(5))
    assert got == pytest.approx([1.0, 1.75, 1.5, 1.25, 1.0])


def test_the_step_before_the_update_counts():
    """The first update takes the rate of step 0."""
    bindings = [SGD, 'optimization.learning_rate = 2.0', "optimization.schedule = 'linear'"]
    got = moved(*bindings, 'optimization.decay_steps = 2', 'optimization.end_fraction = 0.5', steps=3)
    np.testing.assert_allclose(got['bias'], [-(2 + 1.5 + 1)] * 2)
    assert got['global_step'] == 3


def test_sgd():
    got = moved(SGD, 'optimization.learning_rate = 0.5')
    assert got['table'].tolist() == [[-0.5, -0.5], [0, 0], [-0.5, -0.5]]
    assert (got['bias'].tolist(), got['global_step']) == ([-0.5, -0.5], 1)


def test_updates_run_with_the_step():
    with harness.bound():
        _, after = harness.trained(some_model_fn, {'row': [0]}, [0])
    assert after['average'] == 7


@pytest.mark.parametrize(
    ('bindings', 'want_bias'),
    [
        # Adam's first step is the learning rate, whatever the gradient.
        ([], -0.001),
        (['learning_rate = 0.5'], -0.5),
        (['optimizer = @AdagradOptimizerOfATrainingTest', 'learning_rate = 0.5'], -0.5 / np.sqrt(1.1)),
        (['optimizer = @optimizer_of_a_training_test'], -0.25),
        (['optimizer = @optimizer_of_a_training_test()'], -0.25),
    ],
)
def test_optimizers(bindings, want_bias):
    got = moved(*(f'optimization.{binding}' for binding in bindings))
    np.testing.assert_allclose(got['bias'], [want_bias] * 2, rtol=1e-3)


def test_l2_is_part_of_loss_and_gradient_for_weights_alone():
    with harness.bound(SGD, 'optimization.learning_rate = 1.0', 'optimization.l2 = 0.5'):
        loss = harness.run(some_model_fn, {'row': [0, 2]}, [0], 'train', fetch=lambda spec: spec.loss)
        got = moved(SGD, 'optimization.learning_rate = 1.0', 'optimization.l2 = 0.5')
    assert loss == pytest.approx(3 + 4 + 6 + 8 + 5 + 12 + 0.5 * (9 + 16 + 36 + 64) / 2)
    np.testing.assert_allclose(got['table'], [[-2.5, -3], [0, 0], [-4, -5]])
    np.testing.assert_allclose(got['bias'], [-1, -1])


def test_weight_decay_is_decoupled():
    """What is taken off is a share of the weights before the step, and no part of what Adam divides."""
    got = moved('optimization.learning_rate = 0.5', 'optimization.weight_decay = 0.1')
    step = np.array([[0.5, 0.5], [0, 0], [0.5, 0.5]])
    np.testing.assert_allclose(got['table'], -step - 0.05 * KERNEL, rtol=1e-4)
    np.testing.assert_allclose(got['bias'], [-0.5, -0.5], rtol=1e-4)


def test_weight_decay_does_not_reach_the_gradient():
    """The gradient is that of the weights before anything is taken off."""

    def square_model_fn(features, labels, mode):
        weight = v1.get_variable('weight', [1, 1], initializer=v1.constant_initializer(2.0))
        loss, train_op = training.minimize(tf.reduce_sum(weight**2))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with harness.bound(SGD, 'optimization.learning_rate = 0.25', 'optimization.weight_decay = 0.5'):
        for _ in range(5):  # An order that is not fixed shows in some of them.
            _, after = harness.trained(square_model_fn, {'x': [0]}, [0])
            assert after['weight'] == pytest.approx(2 - 0.25 * 2 * 2 - 0.25 * 0.5 * 2)


@pytest.mark.parametrize(
    ('rows', 'norm', 'want_scale'),
    [
        ([0, 2], 100.0, 1.0),
        ([0, 2], 3.0, 3 / np.sqrt(6)),
        # Row 0 twice: its gradient is 2, not 1 and 1.
        ([0, 0], 1.0, 1 / np.sqrt(4 + 4 + 1 + 1)),
    ],
)
def test_clipping_goes_by_the_norm_over_all_variables(rows, norm, want_scale):
    got = moved(SGD, 'optimization.learning_rate = 1.0', f'optimization.clip_norm = {norm}', rows=rows)
    want_scale = min(want_scale, 1.0)
    np.testing.assert_allclose(got['bias'], [-want_scale] * 2, rtol=1e-5)
    np.testing.assert_allclose(got['table'][0], [-want_scale * rows.count(0)] * 2, rtol=1e-5)


def test_parts_make_one_step():
    def model_fn(features, labels, mode):
        def part(rate):
            return training.Optimization(optimizer=v1.train.GradientDescentOptimizer(rate))

        v1.get_variable('table', [3, 2], initializer=v1.constant_initializer(KERNEL))
        v1.get_variable('bias', [2], initializer=v1.constant_initializer(BIAS))
        table, bias = v1.trainable_variables()
        loss = tf.reduce_sum(table) * tf.reduce_sum(bias)
        loss, train_op = training.minimize(loss, (part(0.5), [table]), (part(0.25), [bias]))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    before, after = harness.trained(model_fn, {'x': [0]}, [0])
    assert after['global_step'] == 1
    np.testing.assert_allclose(after['table'] - before['table'], np.full([3, 2], -0.5 * BIAS.sum()))
    # Each moves against the gradient where both were before.
    np.testing.assert_allclose(after['bias'] - before['bias'], np.full([2], -0.25 * KERNEL.sum()))


@pytest.mark.parametrize(
    ('bindings', 'want_error'),
    [
        (["schedule = 'cosin'"], "schedule: 'cosin'; expected constant, cosine, .*did you mean 'cosine'"),
        (
            ["schedule = 'cosine'"],
            'decay_steps is not bound; expected the step at which the cosine schedule has fallen',
        ),
        (['decay_steps = 5'], "decay_steps: 5; expected a schedule of cosine, linear, exponential, not 'constant'"),
        (["schedule = 'linear'", 'decay_steps = 0'], 'decay_steps: 0; expected more than 0'),
        (
            ["schedule = 'linear'", 'decay_steps = 5', 'warmup_steps = 5'],
            'warmup_steps: 5; expected fewer than decay_steps, 5',
        ),
        (["schedule = 'inverse_square_root'"], 'warmup_steps: 0; expected more'),
        (['learning_rate = -1.0'], 'learning_rate: -1.0; expected at least 0'),
        (['clip_norm = 0.0'], 'clip_norm: 0.0; expected more than 0'),
        (['l2 = -0.1'], 'l2: -0.1; expected at least 0'),
        (['end_fraction = 0.0'], 'end_fraction: 0.0; expected more than 0, at most 1'),
        (
            ['optimizer = @optimizer_of_a_training_test', 'learning_rate = 0.5'],
            'learning_rate: 0.5; expected an optimizer that is told its learning rate',
        ),
        (['optimizer = @optimizer_of_a_training_test()', 'weight_decay = 0.5'], 'weight_decay: 0.5; expected an opt'),
        (
            ['optimizer = @optimizer_of_a_training_test()', "schedule = 'linear'", 'decay_steps = 5'],
            "schedule: 'linear'; expected an optimizer",
        ),
        (['optimizer = 3'], 'optimizer: 3; expected one of tf.compat.v1.train'),
    ],
)
def test_error(bindings, want_error):
    with pytest.raises(UserError, match=f'^optimization.{want_error}'):
        moved(*(f'optimization.{binding}' for binding in bindings))


def test_a_synchronous_cluster_takes_no_weight_decay(monkeypatch):
    from estimator_trainer import sync_replicas

    def model_fn(features, labels, mode):
        sync_replicas.tell(tf.estimator.RunConfig())
        return some_model_fn(features, labels, mode)

    cluster = '{"chief": ["localhost:1"], "worker": ["localhost:2"], "ps": ["localhost:3"]}'
    monkeypatch.setenv('TF_CONFIG', f'{{"cluster": {cluster}, "task": {{"type": "chief", "index": 0}}}}')
    bindings = [
        'optimization.optimizer = @synchronous_of_a_training_test',
        'synchronous_of_a_training_test.learning_rate = 0.5',
    ]
    with (
        harness.bound(bindings[0], 'optimization.weight_decay = 0.5'),
        pytest.raises(UserError, match=r'^optimization\.weight_decay: under @sync_replicas each task would take its'),
        tf.Graph().as_default(),
    ):
        model_fn({'row': tf.constant([0])}, None, 'train')


@gin.configurable
def synchronous_of_a_training_test(learning_rate):
    from estimator_trainer.sync_replicas import sync_replicas

    return sync_replicas(optimizer=v1.train.GradientDescentOptimizer(learning_rate))
