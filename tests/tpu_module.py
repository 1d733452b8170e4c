"""Models as they are written for TPUs."""

import gin
import tensorflow as tf

tpu = tf.compat.v1.estimator.tpu


def tpu_model_fn(features, labels, mode, params):
    assert mode == 'infer' or params['batch_size'] == 8  # the user's own; TPUEstimator gives an export none
    logits = tf.compat.v1.layers.dense(features['x'], 1)[:, 0]
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tpu.TPUEstimatorSpec(mode, predictions={'logits': logits})
    loss = tf.compat.v1.losses.sigmoid_cross_entropy(labels, logits)
    train_op = tf.compat.v1.train.AdamOptimizer(0.05).minimize(loss, tf.compat.v1.train.get_global_step())

    def metrics(labels, logits):
        return {'accuracy': tf.compat.v1.metrics.accuracy(labels, tf.cast(logits > 0, tf.float32))}

    return tpu.TPUEstimatorSpec(mode, loss=loss, train_op=train_op, eval_metrics=(metrics, [labels, logits]))


gin.external_configurable(tpu_model_fn)  # TPUEstimator takes no function that is wrapped


@gin.configurable
def tpu_input_fn(params, repeat=True):
    assert params['batch_size'] == 8
    x = tf.random.stateless_uniform([64, 2], [1, 2], -1.0, 1.0)
    dataset = tf.data.Dataset.from_tensor_slices(({'x': x}, tf.cast(x[:, 0] + x[:, 1] > 0, tf.float32)))
    return (dataset.shuffle(64).repeat() if repeat else dataset).batch(params['batch_size'], drop_remainder=True)


@gin.configurable
def tpu_estimator(config):
    config = tpu.RunConfig(model_dir=config.model_dir, tf_random_seed=config.tf_random_seed)
    return tpu.TPUEstimator(tpu_model_fn, config=config, use_tpu=False, train_batch_size=8, eval_batch_size=8)
