"""Models to be evaluated on several replicas; copied into the directory of a test."""

import gin
import my_model
import tensorflow as tf

v1 = tf.compat.v1


@gin.configurable
def squares_input_fn(examples=13):
    """Numbers from 0 on, whose loss is their square."""
    numbers = tf.data.Dataset.range(examples).map(lambda number: tf.cast(number, tf.float32))
    return numbers.map(lambda x: ({'x': x}, tf.zeros_like(x))).batch(4)


@gin.configurable
def squares_model_fn(features, labels, mode):
    w = v1.get_variable('w', initializer=1.0)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={'y': w * features['x']})
    loss = tf.reduce_mean((w * features['x'] - labels) ** 2)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=v1.assign_add(v1.train.get_global_step(), 1))


@gin.configurable
def batches_model_fn(features, labels, mode):
    """Counts batches."""
    spec = my_model.my_model_fn(features, labels, mode)
    return spec._replace(eval_metric_ops={**spec.eval_metric_ops, 'five': v1.metrics.mean(5.0)})


@gin.configurable
def total_model_fn(features, labels, mode):
    """Takes the loss from the collections, that of other replicas, too."""
    spec = my_model.my_model_fn(features, labels, mode)
    return spec._replace(loss=v1.losses.get_total_loss())


@gin.configurable
def regularized_model_fn(features, labels, mode):
    """Adds what its variable has left in the collections, once."""
    weight = v1.get_variable('weight', initializer=1.0, regularizer=lambda w: 0.1 * w * w)
    spec = my_model.my_model_fn({'x': weight * features['x']}, labels, mode)
    return spec._replace(loss=spec.loss + v1.losses.get_regularization_loss())


@gin.configurable
def twice_model_fn(features, labels, mode):
    """Counts its steps twice."""
    spec = my_model.my_model_fn(features, labels, mode)
    return spec._replace(train_op=tf.group(spec.train_op, v1.assign_add(v1.train.get_global_step(), 1)))
