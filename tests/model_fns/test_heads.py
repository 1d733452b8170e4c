"""What models do with logits: the head that a label asks for, predictions, losses, and metrics however batches fall."""

import numpy as np
import pytest

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from estimator_trainer.feature_description import feature_description
from model_fns import heads
from tests.model_fns import harness

v1 = tf.compat.v1
LOGITS = np.random.default_rng(1).normal(0.3, 2.0, 101).astype(np.float32)
LABELS = (np.random.default_rng(2).uniform(size=101) < 1 / (1 + np.exp(-LOGITS))).astype(np.int32)


def head_model_fn(features, labels, mode, head):
    """Returns the spec of a head whose logits are the features."""
    logits = features['logit'][:, tf.newaxis] if head.size == 1 else tf.reshape(features['logit'], [-1, head.size])
    weight = v1.get_variable('weight', initializer=1.0)
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    step = v1.train.get_or_create_global_step()
    return head.spec(mode, logits * weight, labels, lambda loss: (loss + 7, optimizer.minimize(loss, step)))


def batches(sizes, logits=LOGITS, labels=LABELS):
    ends = np.cumsum(sizes)
    assert ends[-1] == len(labels)
    per_label = len(logits) // len(labels)
    return [
        ({'logit': logits[(end - size) * per_label : end * per_label]}, labels[end - size : end])
        for size, end in zip(sizes, ends, strict=True)
    ]


@pytest.mark.parametrize(
    ('label', 'want'),
    [
        ({'vocabulary': ['no', 'yes']}, heads.BinaryHead(('no', 'yes'))),
        ({'num_buckets': 2}, heads.BinaryHead()),
        ({'vocabulary': ['a', 'b', 'c']}, heads.MultiClassHead(3, ('a', 'b', 'c'))),
        ({'num_buckets': 7}, heads.MultiClassHead(7)),
        ({}, heads.RegressionHead()),
        ({'dtype': 'int64'}, heads.RegressionHead()),
    ],
)
def test_the_label_makes_the_head(label, want):
    assert heads.head_of(feature_description({'x': {}}, None, {'y': label})) == want


@pytest.mark.parametrize(
    ('label', 'want_error'),
    [
        (None, 'feature_description.label is not bound; expected e.g. '),
        ({'y': {'num_buckets': 1}}, "feature_description.label['y']: 1 class; expected at least 2"),
    ],
)
def test_label_that_no_head_is_for(label, want_error):
    with pytest.raises(UserError) as error:
        heads.head_of(feature_description({'x': {}}, None, label))
    assert str(error.value).startswith(want_error)


def predicted(head, logits):
    return harness.run(head_model_fn, {'logit': np.array(logits, np.float32)}, head=head)


@pytest.mark.parametrize(
    ('vocabulary', 'want_classes'),
    [(None, None), (['no', 'yes'], [b'no', b'no', b'yes']), ([10, 20], [10, 10, 20])],
)
def test_binary_predictions(vocabulary, want_classes):
    got = predicted(heads.BinaryHead(vocabulary), [-100.0, 0.0, 3.0])
    np.testing.assert_allclose(got['probabilities'], [[1, 0], [0.5, 0.5], [1 - 0.952574, 0.952574]], rtol=1e-5)
    assert (got['class_ids'].tolist(), got['class_ids'].dtype) == ([0, 0, 1], np.int64)
    assert set(got) == {'probabilities', 'class_ids', *(['classes'] if vocabulary else [])}
    if vocabulary:
        assert got['classes'].tolist() == want_classes


def test_other_predictions():
    got = predicted(heads.MultiClassHead(3, ['a', 'b', 'c']), [0.0, 0.0, np.log(2.0), 9.0, 0.0, 0.0])
    np.testing.assert_allclose(got['probabilities'][0], [0.25, 0.25, 0.5], rtol=1e-5)
    assert (got['class_ids'].tolist(), got['classes'].tolist()) == ([2, 0], [b'c', b'a'])
    got = predicted(heads.RegressionHead(), [1.5, -2.0])
    assert {name: value.tolist() for name, value in got.items()} == {'predictions': [1.5, -2.0]}


@pytest.mark.parametrize(
    ('head', 'logits', 'labels', 'want'),
    [
        (heads.BinaryHead(), [0.0, 3.0], [1, 0], (np.log(2) + np.log1p(np.exp(3))) / 2),
        (heads.MultiClassHead(2), [0.0, 0.0, 0.0, 3.0], [1, 0], (np.log(2) + np.log1p(np.exp(3))) / 2),
        (heads.RegressionHead(), [1.0, 5.0], [2.0, 2.0], 5.0),
        (heads.RegressionHead(), [1.0, 5.0], [2, 2], 5.0),
    ],
)
def test_loss_is_the_mean_over_the_batch(head, logits, labels, want):
    features = {'logit': np.array(logits, np.float32)}
    for mode, more in (('eval', 0), ('train', 7)):  # What training adds is no part of an evaluation's.
        loss = harness.run(head_model_fn, features, labels, mode, fetch=lambda spec: spec.loss, head=head)
        assert loss == pytest.approx(want + more, rel=1e-5)
    empty = {'logit': np.zeros(0, np.float32)}
    labels = np.zeros(0, np.float32 if isinstance(head, heads.RegressionHead) else np.int32)
    assert harness.run(head_model_fn, empty, labels, 'eval', fetch=lambda spec: spec.loss, head=head) == 0


SIZES = [[101], [1] * 101, [50, 51], [3, 0, 60, 0, 38]]


@pytest.mark.parametrize('sizes', SIZES)
def test_binary_metrics(sizes):
    from sklearn.metrics import average_precision_score, roc_auc_score

    probabilities = 1 / (1 + np.exp(-LOGITS))
    want = {
        'accuracy': ((LOGITS > 0) == LABELS).mean(),
        'label/mean': LABELS.mean(),
        'prediction/mean': probabilities.mean(),
        'calibration': probabilities.sum() / LABELS.sum(),
    }
    got = harness.measured(head_model_fn, batches(sizes), head=heads.BinaryHead())
    assert set(got) == {*want, 'auc', 'auc_precision_recall'}
    assert {name: got[name] for name in want} == pytest.approx(want, rel=1e-5)
    # These go by 1000 thresholds.
    assert got['auc'] == pytest.approx(roc_auc_score(LABELS, LOGITS), abs=1e-3)
    assert got['auc_precision_recall'] == pytest.approx(average_precision_score(LABELS, LOGITS), abs=1e-2)


@pytest.mark.parametrize('sizes', SIZES)
def test_binary_metrics_of_a_model_that_is_sure(sizes):
    from sklearn.metrics import roc_auc_score

    logits = 8 * LOGITS
    got = harness.measured(head_model_fn, batches(sizes, logits), head=heads.BinaryHead())
    assert got['auc'] == pytest.approx(roc_auc_score(LABELS, logits), abs=2e-3)


@pytest.mark.parametrize('sizes', SIZES)
def test_regression_metrics(sizes):
    labels = LABELS.astype(np.float32) * 10
    want = {
        'rmse': np.sqrt(np.mean((LOGITS - labels) ** 2)),
        'mean_absolute_error': np.abs(LOGITS - labels).mean(),
        'label/mean': labels.mean(),
        'prediction/mean': LOGITS.mean(),
    }
    got = harness.measured(head_model_fn, batches(sizes, labels=labels), head=heads.RegressionHead())
    assert got == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize('sizes', SIZES)
def test_multi_class_metrics(sizes):
    logits = np.random.default_rng(1).normal(size=303).astype(np.float32)
    labels = np.arange(101, dtype=np.int32) % 3
    got = harness.measured(head_model_fn, batches(sizes, logits, labels), head=heads.MultiClassHead(3))
    assert got == pytest.approx({'accuracy': (logits.reshape(101, 3).argmax(axis=1) == labels).mean()}, rel=1e-6)


def test_areas_agree_however_batches_fall():
    values = [harness.measured(head_model_fn, batches(sizes), head=heads.BinaryHead()) for sizes in SIZES]
    for other in values[1:]:
        assert other == pytest.approx(values[0], rel=1e-6)


@pytest.mark.parametrize(
    ('labels', 'want_error'), [(None, 'no labels'), ([[1], [0]], r'labels of shape \(2, 1\)'), (1, r'shape \(\)')]
)
def test_labels_of_another_shape(labels, want_error):
    features = {'logit': np.zeros(2, np.float32)}
    with pytest.raises(UserError, match=f'{want_error}; expected one number or class for each example'):
        harness.run(head_model_fn, features, labels, 'eval', fetch=lambda spec: spec.loss, head=heads.BinaryHead())
