"""The models of tabular data against their formulas in NumPy, and that each learns what it is for."""

import numpy as np
import pytest

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from model_fns.deep import dnn_model_fn, wide_deep_model_fn
from model_fns.interactions import dcn_model_fn, deepfm_model_fn
from model_fns.linear import linear_model_fn
from tests.model_fns import harness

v1 = tf.compat.v1
MODELS = [linear_model_fn, dnn_model_fn, wide_deep_model_fn, deepfm_model_fn, dcn_model_fn]
TWO_NUMBERS = "feature_description.features = {'x': {}, 'y': {'normalize': (1.0, 2.0)}}"
LABELS = {
    'binary': "feature_description.label = {'label': {'vocabulary': ['no', 'yes']}}",
    'classes': "feature_description.label = {'label': {'num_buckets': 3}}",
    'number': "feature_description.label = {'label': {}}",
}
FEATURES = {'x': [0.5, -1.0, 2.0], 'y': [3.0, 1.0, -2.0]}
X = np.array([[0.5, 1.0], [-1.0, 0.0], [2.0, -1.5]])
WORDS = """
    feature_description.features = {
        'word': {'vocabulary': ['a', 'b']},
        'id': {'num_buckets': 3, 'embedding_size': 2},
        'x': {},
    }
    feature_description.crosses = {'word_id': {'of': ['word', 'id'], 'hash_buckets': 10}}
"""
WORD_FEATURES = {'word': ['a', 'b', 'c'], 'id': [2, 0, 9], 'x': [0.5, -1.0, 2.0]}


def number(model_fn, features, values, *bindings, **arguments):
    """Returns what a regression predicts with the variables at values (name to array)."""
    with harness.bound(*bindings, LABELS['number']):
        return harness.run(model_fn, features, values=values, **arguments)['predictions']


def some(*shape):
    return np.cos(np.arange(np.prod(shape)) * 1.7).reshape(shape)


def test_linear():
    values = {'linear/numbers': [[2.0], [-1.0]], 'linear/bias': [0.25]}
    got = number(linear_model_fn, FEATURES, values, TWO_NUMBERS)
    np.testing.assert_allclose(got, X @ [2.0, -1.0] + 0.25, rtol=1e-6)


def test_dnn():
    values = {'hidden_0/kernel': some(2, 3), 'hidden_0/bias': some(3), 'hidden_1/kernel': some(3, 2)}
    values['logits/kernel'] = some(2, 1)
    got = number(dnn_model_fn, FEATURES, values, TWO_NUMBERS, hidden_units=[3, 2])
    hidden = np.maximum(np.maximum(X @ some(2, 3) + some(3), 0) @ some(3, 2), 0)
    np.testing.assert_allclose(got, (hidden @ some(2, 1))[:, 0], rtol=1e-5)


def test_wide_and_deep_add_up():
    values = {
        'wide/linear/numbers': [[2.0], [-1.0]],
        'deep/hidden_0/kernel': some(2, 3),
        'deep/logits/kernel': some(3, 1),
    }
    got = number(wide_deep_model_fn, FEATURES, values, TWO_NUMBERS, hidden_units=[3])
    want = X @ [2.0, -1.0] + (np.maximum(X @ some(2, 3), 0) @ some(3, 1))[:, 0]
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_wide_and_deep_have_optimizers_of_their_own():
    values = {'wide/linear/numbers': [[0.0], [0.0]], 'deep/logits/kernel': some(3, 1)}
    optimizers = {'wide_optimizer': lambda: v1.train.GradientDescentOptimizer(0.5), 'hidden_units': [3]}
    with harness.bound(TWO_NUMBERS, LABELS['number'], 'optimization.learning_rate = 0.001', 'optimization.l2 = 1.0'):
        labels = [1.0, 2.0, 3.0]
        before, after = harness.trained(wide_deep_model_fn, FEATURES, labels, values=values, **optimizers)
        errors = harness.run(wide_deep_model_fn, FEATURES, values=before, hidden_units=[3])['predictions'] - labels
    assert after['global_step'] == 1
    # No l2, which is of the deep part; the gradient of a mean of squares.
    moved = after['wide/linear/numbers'] - before['wide/linear/numbers']
    np.testing.assert_allclose(moved[:, 0], -0.5 * 2 * errors @ X / 3, rtol=1e-4)
    # Adam's first step.
    moved = np.abs(after['deep/logits/kernel'] - before['deep/logits/kernel'])
    np.testing.assert_allclose(moved, 0.001, rtol=0.01)
    with harness.bound(TWO_NUMBERS, LABELS['binary']):
        _, after = harness.trained(wide_deep_model_fn, FEATURES, [0, 1, 1], values=values, hidden_units=[3])
    assert {name for name in after if 'Ftrl' in name} == {
        f'wide/linear/{name}/Ftrl{n}' for name in ('numbers', 'bias') for n in ('', '_1')
    }


def test_wide_part_has_crosses_and_deep_part_embeddings():
    with harness.bound(WORDS, LABELS['binary']):
        variables, _ = harness.trained(wide_deep_model_fn, WORD_FEATURES, [0, 1, 1], hidden_units=[4])
    shapes = {name: list(value.shape) for name, value in variables.items() if '/' in name and 'Adam' not in name}
    assert {name: shape for name, shape in shapes.items() if 'Ftrl' not in name} == {
        'wide/linear/bias': [1],
        'wide/linear/numbers': [1, 1],
        'wide/linear/ids/word': [3, 1],
        'wide/linear/ids/id': [3, 1],
        'wide/linear/ids/word_id': [10, 1],
        'deep/embeddings/id': [3, 2],
        'deep/hidden_0/kernel': [1 + 3 + 2, 4],
        'deep/hidden_0/bias': [4],
        'deep/logits/kernel': [4, 1],
        'deep/logits/bias': [1],
    }


def test_deepfm():
    values = {
        'linear/numbers': [[2.0]],
        'embeddings/word': some(3, 2),
        'embeddings/id': 2 * some(3, 2),
        'embeddings_of_numbers': [[0.5, -3.0]],
        'hidden_0/kernel': some(6, 4),
        'logits/kernel': some(4, 1),
    }
    got = number(deepfm_model_fn, WORD_FEATURES, values, WORDS, embedding_size=2, hidden_units=[4])
    ids = 2 * np.array([some(3, 2)[2], some(3, 2)[0], [0, 0]])
    x = np.array(WORD_FEATURES['x'])[:, None]
    fields = [some(3, 2), ids, x * [[0.5, -3.0]]]
    pairs = sum((fields[i] * fields[j]).sum(axis=1) for i in range(3) for j in range(i))
    deep = np.maximum(np.concatenate(fields, axis=1) @ some(6, 4), 0) @ some(4, 1)
    np.testing.assert_allclose(got, 2 * x[:, 0] + pairs + deep[:, 0], rtol=1e-5)


@pytest.mark.parametrize('structure', ['parallel', 'stacked'])
@pytest.mark.parametrize('rank', [None, 1])
def test_dcn(structure, rank):
    values, weights = {'hidden_0/kernel': some(2, 3)}, []
    for i in range(2):
        values[f'cross_{i}/bias'] = some(2) + i
        if rank is None:
            values[f'cross_{i}/kernel'] = some(2, 2) + i
            weights.append(some(2, 2) + i)
        else:
            values |= {f'cross_{i}/narrow': some(2, 1) + i, f'cross_{i}/kernel': some(1, 2)}
            weights.append((some(2, 1) + i) @ some(1, 2))
    values['logits/kernel'] = some(3 if structure == 'stacked' else 5, 1)
    arguments = {'rank': rank, 'structure': structure, 'hidden_units': [3]}
    got = number(dcn_model_fn, FEATURES, values, TWO_NUMBERS, **arguments)
    crossed = X
    for i, weight in enumerate(weights):
        crossed = X * (crossed @ weight + some(2) + i) + crossed
    net = np.maximum((crossed if structure == 'stacked' else X) @ some(2, 3), 0)
    net = net if structure == 'stacked' else np.concatenate([crossed, net], axis=1)
    np.testing.assert_allclose(got, (net @ some(*values['logits/kernel'].shape))[:, 0], rtol=1e-4)


@pytest.mark.parametrize('model_fn', MODELS, ids=lambda model_fn: model_fn.__name__)
@pytest.mark.parametrize(
    ('label', 'labels', 'want_shapes'),
    [
        ('binary', [0, 1, 1], {'probabilities': (3, 2), 'class_ids': (3,), 'classes': (3,)}),
        ('classes', [0, 2, 1], {'probabilities': (3, 3), 'class_ids': (3,)}),
        ('number', [0.0, 2.0, 1.0], {'predictions': (3,)}),
    ],
)
def test_each_label_and_each_mode(model_fn, label, labels, want_shapes):
    arguments = {'embedding_size': 2} if model_fn is deepfm_model_fn else {}
    with harness.bound(WORDS, LABELS[label]):
        got = harness.run(model_fn, WORD_FEATURES, **arguments)
        assert {name: value.shape for name, value in got.items()} == want_shapes
        before, after = harness.trained(model_fn, WORD_FEATURES, labels, steps=2, **arguments)
        assert after['global_step'] == 2
        batch = ({name: np.array(values) for name, values in WORD_FEATURES.items()}, np.array(labels))
        empty = tf.nest.map_structure(lambda it: it[:0], batch)
        metrics = harness.measured(model_fn, [empty, batch, empty], **arguments)
        assert metrics == pytest.approx(harness.measured(model_fn, [batch], **arguments), rel=1e-6)
    still = [name for name, value in after.items() if np.array_equal(value, before[name])]
    assert not [name for name in still if 'Adam' not in name and 'Ftrl' not in name]


@pytest.mark.parametrize(
    ('model_fn', 'arguments'),
    [
        (dnn_model_fn, {'hidden_units': [16]}),
        (wide_deep_model_fn, {'hidden_units': [16]}),
        (dcn_model_fn, {'hidden_units': [], 'structure': 'stacked', 'cross_layers': 1}),
        (deepfm_model_fn, {'hidden_units': [], 'embedding_size': 4}),
    ],
    ids=lambda it: getattr(it, '__name__', ''),
)
def test_learns_a_product_that_no_linear_model_can(model_fn, arguments):
    features = {'a': (np.arange(200) % 2).astype(np.int64), 'b': (np.arange(200) // 2 % 2).astype(np.int64)}
    labels = (features['a'] ^ features['b']).astype(np.int32)
    bindings = [
        "feature_description.features = {'a': {'num_buckets': 2}, 'b': {'num_buckets': 2}}",
        LABELS['binary'],
        'optimization.learning_rate = 0.05',
    ]
    with harness.bound(*bindings):
        _, after = harness.trained(model_fn, features, labels, steps=150, **arguments)
        got = harness.run(model_fn, features, values=after, **arguments)
    assert (got['class_ids'] == labels).all()


def test_dropout_is_for_training_alone():
    with harness.bound(TWO_NUMBERS, LABELS['number']):
        values = {'hidden_0/kernel': some(2, 64), 'logits/kernel': some(64, 1)}
        shared = {'labels': [0.0] * 3, 'values': values, 'hidden_units': [64], 'fetch': lambda spec: spec.loss}
        losses = [
            harness.run(dnn_model_fn, FEATURES, mode=mode, dropout=dropout, **shared)
            for mode, dropout in (('eval', 0.0), ('eval', 0.9), ('train', 0.0), ('train', 0.9))
        ]
    np.testing.assert_allclose(losses[1:3], losses[0], rtol=1e-6)
    assert losses[3] != pytest.approx(losses[0], rel=0.01)


@pytest.mark.parametrize(
    ('model_fn', 'bindings', 'arguments', 'want_error'),
    [
        (linear_model_fn, [], {}, 'linear_model_fn: feature_description.features is not bound; expected e.g.'),
        (dnn_model_fn, [LABELS['binary']], {}, 'dnn_model_fn: feature_description.features is not bound'),
        (dcn_model_fn, [TWO_NUMBERS], {}, 'feature_description.label is not bound'),
        (
            dcn_model_fn,
            [TWO_NUMBERS, LABELS['binary']],
            {'structure': 'both'},
            "dcn_model_fn.structure: 'both'; expected",
        ),
        (
            deepfm_model_fn,
            [WORDS, LABELS['binary']],
            {'embedding_size': 3},
            "deepfm_model_fn.embedding_size: 3; expected that of 'id' in feature_description, 2, and the same for all",
        ),
    ],
)
def test_error(model_fn, bindings, arguments, want_error):
    with harness.bound(*bindings), pytest.raises(UserError) as error:
        harness.run(model_fn, WORD_FEATURES | FEATURES, **arguments)
    assert str(error.value).startswith(want_error)
