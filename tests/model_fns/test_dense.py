"""dense_model_fn: what it computes, learns, predicts, exports and refuses."""

import numpy as np
import pytest

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from model_fns.dense import dense_model_fn
from tests.model_fns import harness

INPUTS = {'length': (10.0, 2.0), 'mass': (100.0, 50.0)}
FEATURES = {'mass': [0.0, 150.0, 50.0], 'length': [8.0, 12.0, 11.0], 'unused': [1.0, 1.0, 1.0]}
# FEATURES less the mean, by the standard deviation, in the order of INPUTS.
STANDARD = np.array([[-1.0, -2.0], [1.0, 1.0], [0.5, -1.0]])
KERNEL = np.array([[1.0, 0.0, -1.0], [0.5, 2.0, 0.0]])
BIAS = np.array([0.0, 0.1, 0.2])
LINEAR = {'inputs': INPUTS, 'n_classes': 3, 'hidden_units': []}


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def test_inputs_are_standardised_in_the_order_bound():
    values = {'logits/kernel': KERNEL, 'logits/bias': BIAS}
    got = harness.run(dense_model_fn, FEATURES, values=values, **LINEAR)
    want = softmax(STANDARD @ KERNEL + BIAS)
    np.testing.assert_allclose(got['probabilities'], want, rtol=1e-5)
    np.testing.assert_array_equal(got['class_ids'], want.argmax(axis=1))


def test_hidden_layers_are_rectified():
    values = {'hidden_0/kernel': np.eye(2), 'hidden_1/kernel': -np.eye(2), 'hidden_1/bias': [1.0, 1.0]}
    values |= {'logits/kernel': KERNEL, 'logits/bias': BIAS}
    got = harness.run(dense_model_fn, FEATURES, values=values, **{**LINEAR, 'hidden_units': [2, 2]})
    hidden = np.maximum(1 - np.maximum(STANDARD, 0), 0)
    np.testing.assert_allclose(got['probabilities'], softmax(hidden @ KERNEL + BIAS), rtol=1e-5)


def test_loss_and_accuracy():
    labels = [1, 1, 0]
    probabilities = softmax(STANDARD @ KERNEL + BIAS)
    loss, (_, accuracy) = harness.run(
        dense_model_fn,
        FEATURES,
        labels,
        'eval',
        values={'logits/kernel': KERNEL, 'logits/bias': BIAS},
        fetch=lambda spec: (spec.loss, spec.eval_metric_ops['accuracy']),
        **LINEAR,
    )
    assert loss == pytest.approx(-np.log(probabilities[range(3), labels]).mean(), rel=1e-5)
    assert accuracy == pytest.approx((probabilities.argmax(axis=1) == labels).mean())


@pytest.mark.parametrize(
    ('label_vocabulary', 'want_names'),
    [(None, {'probabilities', 'class_ids'}), (['a', 'b', 'c'], {'probabilities', 'class_ids', 'classes'})],
)
def test_predictions(label_vocabulary, want_names):
    got = harness.run(dense_model_fn, FEATURES, inputs=INPUTS, n_classes=3, label_vocabulary=label_vocabulary)
    assert set(got) == want_names
    assert (got['probabilities'].shape, got['probabilities'].dtype) == ((3, 3), np.float32)
    assert (got['class_ids'].shape, got['class_ids'].dtype) == ((3,), np.int64)
    np.testing.assert_allclose(got['probabilities'].sum(axis=1), 1, rtol=1e-5)
    if label_vocabulary:
        assert got['classes'].tolist() == [label_vocabulary[i].encode() for i in got['class_ids']]


def test_learns_what_no_linear_model_can(tmp_path):
    x, y = np.random.default_rng(1).uniform(-1, 1, (2, 200))
    labels = (x * y > 0).astype(int)
    estimator = harness.estimator(
        dense_model_fn,
        tmp_path,
        inputs={'x': (0.0, 1.0), 'y': (0.0, 1.0)},
        n_classes=2,
        hidden_units=[16, 16],
        learning_rate=0.02,
    )
    estimator.train(harness.input_fn({'x': x, 'y': y}, labels, repeat=True), max_steps=200)
    assert estimator.evaluate(harness.input_fn({'x': x, 'y': y}, labels))['accuracy'] > 0.95


def test_same_seed_same_variables(tmp_path):
    def trained(name, seed):
        estimator = harness.estimator(dense_model_fn, tmp_path / name, seed, inputs=INPUTS, n_classes=3)
        estimator.train(harness.input_fn(FEATURES, [0, 1, 2], repeat=True), max_steps=2)
        return harness.variables(estimator)['hidden_0/kernel']

    first = trained('first', 1)
    np.testing.assert_array_equal(trained('again', 1), first)
    assert np.any(trained('other', 2) != first)


def test_learning_rate_falls_to_a_20th(tmp_path):
    arguments = {'inputs': INPUTS, 'n_classes': 3, 'decay_steps': 2, 'learning_rate': 0.001}
    estimator = harness.estimator(dense_model_fn, tmp_path, **arguments)
    weights = []
    for max_steps in (1, 2, 3):
        estimator.train(harness.input_fn(FEATURES, [0, 1, 2], repeat=True), max_steps=max_steps)
        weights.append(harness.variables(estimator)['hidden_0/kernel'])
    # Early on Adam moves each weight by about the learning rate.
    assert np.abs(weights[1] - weights[0]).max() > 0.0004
    assert np.abs(weights[2] - weights[1]).max() == pytest.approx(0.001 / 20, rel=0.01)


def test_exported_model_serves_predictions(tmp_path):
    estimator = harness.estimator(
        dense_model_fn, tmp_path, inputs=INPUTS, n_classes=3, label_vocabulary=['a', 'b', 'c']
    )
    estimator.train(harness.input_fn(FEATURES, [0, 1, 2]), max_steps=1)

    def receiver():
        return tf.estimator.export.build_raw_serving_input_receiver_fn(
            {name: tf.compat.v1.placeholder(tf.float32, [None], name) for name in INPUTS}
        )()

    exported = estimator.export_saved_model(str(tmp_path / 'export'), receiver).decode()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta_graph = tf.compat.v1.saved_model.load(session, ['serve'], exported)
        signature = meta_graph.signature_def['serving_default']
        feed = {signature.inputs[name].name: FEATURES[name] for name in INPUTS}
        served = session.run({name: output.name for name, output in signature.outputs.items()}, feed)
    predicted = list(estimator.predict(harness.input_fn(FEATURES)))
    assert set(served) == {'probabilities', 'class_ids', 'classes'}
    assert served['classes'].tolist() == [one['classes'] for one in predicted]
    np.testing.assert_allclose(served['probabilities'], [one['probabilities'] for one in predicted], rtol=1e-5)


@pytest.mark.parametrize(
    ('arguments', 'want_error'),
    [
        (
            {'inputs': {'maas': (0.0, 1.0)}},
            "dense_model_fn.inputs: no feature 'maas' among mass, length, unused; did you mean 'mass'?",
        ),
        ({'label_vocabulary': ['a', 'b']}, 'label_vocabulary: 2 names (a, b); expected as many as n_classes, 3'),
    ],
)
@pytest.mark.parametrize('mode', ['train', 'eval', 'infer'])
def test_error(mode, arguments, want_error):
    with pytest.raises(UserError) as error:
        harness.run(dense_model_fn, FEATURES, [0, 1, 2], mode, **{**LINEAR, **arguments})
    # One line; Gin adds in another what it was calling.
    assert str(error.value).splitlines()[0] == want_error
