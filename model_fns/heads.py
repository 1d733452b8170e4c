"""What a model does with its logits: predict, measure, and say what it loses. One head for each kind of label.

A loss here is the mean over a replica's batch, 0 for one without examples. All metrics are made of sums over examples,
and so do not depend on how examples fall into batches and replicas.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from estimator_trainer.features import Description, Feature

_v1 = tf.compat.v1
_ModeKeys = tf.estimator.ModeKeys
# Of the areas under curves: with tf.compat.v1.metrics.auc's default, 200, they are off by several thousandths.
_THRESHOLDS = 1000


class Head:
    """A kind of label.

    Attributes:
        size: number of logits of an example.
    """

    size: int

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns what is predicted from logits, float32 [batch, size]."""
        raise NotImplementedError

    def loss(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Returns the mean loss over the batch, float32 scalar; 0 without examples."""
        raise NotImplementedError

    def metrics(self, logits: tf.Tensor, labels: tf.Tensor) -> dict[str, tuple]:
        """Returns name -> (value, update op)."""
        raise NotImplementedError

    def spec(
        self,
        mode: str,
        logits: tf.Tensor,
        labels: tf.Tensor | None,
        train: Callable[[tf.Tensor], tuple[tf.Tensor, tf.Operation]],
    ) -> tf.estimator.EstimatorSpec:
        """Returns the EstimatorSpec of a mode.

        Args:
            mode: a `tf.estimator.ModeKeys`.
            logits: float32 [batch, size].
            labels: [batch], classes or numbers; None in PREDICT.
            train: given the mean loss over the batch, returns the loss to report, with all that is added to it, and the
                train_op, e.g. `training.minimize`. The loss of an evaluation has nothing added.

        Raises:
            UserError: there are no labels, or they have another shape.
        """
        if mode == _ModeKeys.PREDICT:
            predictions = self.predictions(logits)
            outputs = {'serving_default': tf.estimator.export.PredictOutput(predictions)}
            return tf.estimator.EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)
        if labels is None or not labels.shape.is_compatible_with([None]):
            found = 'no labels' if labels is None else f'labels of shape {labels.shape}'
            raise UserError(f'the input_fn gives {found}; expected one number or class for each example, [batch]')
        loss = self.loss(logits, labels)
        if mode == _ModeKeys.EVAL:
            return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=self.metrics(logits, labels))
        loss, train_op = train(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@dataclasses.dataclass(frozen=True)
class BinaryHead(Head):
    """Two classes, from one logit: that of class 1.

    Predictions: `probabilities` float32 [batch, 2], `class_ids` int64 [batch], with a vocabulary `classes` [batch].

    Attributes:
        vocabulary: the values of the classes, in their order; None predicts their numbers only.
    """

    vocabulary: Sequence[Any] | None = None
    size = 1

    def predictions(self, logits):
        """See `Head`."""
        logit = logits[:, 0]
        probabilities = tf.stack([tf.sigmoid(-logit), tf.sigmoid(logit)], axis=1)
        return _class_predictions(probabilities, tf.cast(logit > 0, tf.int64), self.vocabulary)

    def loss(self, logits, labels):
        """See `Head`."""
        targets = tf.cast(labels, tf.float32)
        return _v1.losses.sigmoid_cross_entropy(targets, logits[:, 0], loss_collection=None)

    def metrics(self, logits, labels):
        """See `Head`; `calibration` is the sum of the probabilities of class 1 by the number of its examples."""
        logit, targets = logits[:, 0], tf.cast(labels, tf.float32)
        probabilities = tf.sigmoid(logit)
        areas = {
            name: _v1.metrics.auc(
                targets,
                # As good as the probabilities, for only the order counts; but those crowd at 0 and 1 where a model is
                # sure, between two thresholds.
                (1 + tf.nn.softsign(logit)) / 2,
                num_thresholds=_THRESHOLDS,
                curve=curve,
                # Davis & Goadrich, 2006: lines between the points of a PR curve promise too much.
                summation_method='careful_interpolation',
                name=name,
            )
            for name, curve in (('auc', 'ROC'), ('auc_precision_recall', 'PR'))
        }
        return {
            'accuracy': _v1.metrics.accuracy(targets, tf.cast(logit > 0, tf.float32)),
            **areas,
            'label/mean': _v1.metrics.mean(targets, name='label_mean'),
            'prediction/mean': _v1.metrics.mean(probabilities, name='prediction_mean'),
            'calibration': _ratio(probabilities, targets, 'calibration'),
        }


@dataclasses.dataclass(frozen=True)
class MultiClassHead(Head):
    """Exclusive classes, from one logit each.

    Predictions: `probabilities` float32 [batch, size], `class_ids` int64 [batch], with a vocabulary `classes` [batch].

    Attributes:
        size: number of classes.
        vocabulary: the values of the classes, in their order; None predicts their numbers only.

    Raises:
        UserError: the vocabulary has not one value for each class.
    """

    size: int
    vocabulary: Sequence[Any] | None = None

    def __post_init__(self):
        if self.vocabulary is not None and len(self.vocabulary) != self.size:
            found = f'{len(self.vocabulary)} names ({", ".join(map(str, self.vocabulary))})'
            raise UserError(f'label_vocabulary: {found}; expected as many as n_classes, {self.size}')

    def predictions(self, logits):
        """See `Head`."""
        return _class_predictions(tf.nn.softmax(logits), tf.argmax(logits, axis=1), self.vocabulary)

    def loss(self, logits, labels):
        """See `Head`."""
        return _v1.losses.sparse_softmax_cross_entropy(labels, logits, loss_collection=None)

    def metrics(self, logits, labels):
        """See `Head`."""
        return {'accuracy': _v1.metrics.accuracy(labels, tf.argmax(logits, axis=1))}


@dataclasses.dataclass(frozen=True)
class RegressionHead(Head):
    """A number. Predictions: `predictions` float32 [batch]; the loss is the mean squared error."""

    size = 1

    def predictions(self, logits):
        """See `Head`."""
        return {'predictions': logits[:, 0]}

    def loss(self, logits, labels):
        """See `Head`."""
        targets = tf.cast(labels, tf.float32)
        return _v1.losses.mean_squared_error(targets, logits[:, 0], loss_collection=None)

    def metrics(self, logits, labels):
        """See `Head`."""
        targets, predictions = tf.cast(labels, tf.float32), logits[:, 0]
        return {
            'rmse': _v1.metrics.root_mean_squared_error(targets, predictions),
            'mean_absolute_error': _v1.metrics.mean_absolute_error(targets, predictions),
            'label/mean': _v1.metrics.mean(targets, name='label_mean'),
            'prediction/mean': _v1.metrics.mean(predictions, name='prediction_mean'),
        }


def head_of(description: Description) -> Head:
    """Returns the head for a description's label: binary for two classes, multi-class for more, else regression.

    Raises:
        UserError: there is no label, or one that nothing can be learned of.
    """
    label = description.label
    if label is None:
        raise UserError(
            "feature_description.label is not bound; expected e.g. feature_description.label = {'income': "
            "{'vocabulary': ['low', 'high']}}"
        )
    if not label.is_category:
        return RegressionHead()
    classes = _classes(label)
    if classes < 2:
        raise UserError(f'feature_description.label[{label.name!r}]: {classes} class; expected at least 2')
    return BinaryHead(label.vocabulary) if classes == 2 else MultiClassHead(classes, label.vocabulary)


def _classes(label: Feature) -> int:
    # Not `ids`: no label is out of the vocabulary.
    return label.num_buckets if label.vocabulary is None else len(label.vocabulary)


def _class_predictions(
    probabilities: tf.Tensor, class_ids: tf.Tensor, vocabulary: Sequence[Any] | None
) -> dict[str, tf.Tensor]:
    predictions = {'probabilities': probabilities, 'class_ids': class_ids}
    if vocabulary is not None:
        predictions['classes'] = tf.gather(tf.constant(list(vocabulary)), class_ids)
    return predictions


def _ratio(numerators: tf.Tensor, denominators: tf.Tensor, name: str) -> tuple[tf.Tensor, tf.Operation]:
    """Returns a metric as those of tf.compat.v1.metrics: the sum of ones by the sum of the others, over all examples.

    Not a ratio of two metrics: each replica would make one of its own of what is the same for all.
    """
    sums = [_sum(f'{name}_{part}') for part in ('numerator', 'denominator')]
    updates = [
        total.assign_add(tf.reduce_sum(tf.cast(values, tf.float64)))
        for total, values in zip(sums, (numerators, denominators), strict=True)
    ]

    def value(strategy, numerator, denominator):
        del strategy  # In it, reading a variable that is synchronised on read gives the sum over the replicas.
        return tf.convert_to_tensor(numerator) / tf.convert_to_tensor(denominator)

    return tf.distribute.get_replica_context().merge_call(value, args=tuple(sums)), tf.group(*updates)


def _sum(name: str) -> tf.Variable:
    return _v1.Variable(
        lambda: tf.zeros([], tf.float64),
        trainable=False,
        collections=[_v1.GraphKeys.LOCAL_VARIABLES, _v1.GraphKeys.METRIC_VARIABLES],
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.SUM,
        name=name,
    )
