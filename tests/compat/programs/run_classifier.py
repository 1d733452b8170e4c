"""A BERT-like classifier as it was written in 2018 for TensorFlow 1: run by test_tf1, in small."""

# Its age is what is tested.
# ruff: noqa

from __future__ import absolute_import, division, print_function

import collections
import json
import os
import re
from distutils.version import LooseVersion

import numpy as np
import tensorflow as tf
from tensorflow.contrib import seq2seq
from tensorflow.contrib.tpu.python.tpu import tpu_config
from tensorflow.python.framework import ops

flags = tf.flags
FLAGS = flags.FLAGS

flags.DEFINE_string('output_dir', None, 'The output directory.')
flags.DEFINE_bool('do_train', False, 'Whether to run training.')
flags.DEFINE_bool('use_tpu', False, 'Whether to use a TPU.')
flags.DEFINE_integer('num_train_steps', 20, 'Steps to train.')
tf.flags.DEFINE_string('tpu_name', None, 'The Cloud TPU.')

VOCAB, LENGTH, LABELS = 30, 8, 2


class BertConfig(object):
    def __init__(self, hidden_size=16, num_attention_heads=2, hidden_dropout_prob=0.1, initializer_range=0.02):
        self.hidden_size = hidden_size
        self.num_attention_heads = num_attention_heads
        self.hidden_dropout_prob = hidden_dropout_prob
        self.initializer_range = initializer_range

    @classmethod
    def from_json_file(cls, json_file):
        with tf.gfile.GFile(json_file, 'r') as reader:
            return cls(**json.loads(reader.read()))


def layer_norm_and_dropout(input_tensor, dropout_prob, name=None):
    output = tf.contrib.layers.layer_norm(inputs=input_tensor, begin_norm_axis=-1, begin_params_axis=-1, scope=name)
    return tf.nn.dropout(output, 1.0 - dropout_prob)


def attention(config, tensor, mask):
    initializer = tf.truncated_normal_initializer(stddev=config.initializer_range)
    width = config.hidden_size // config.num_attention_heads

    def heads(name):
        dense = tf.layers.dense(tensor, config.hidden_size, name=name, kernel_initializer=initializer)
        return tf.transpose(tf.reshape(dense, [-1, LENGTH, config.num_attention_heads, width]), [0, 2, 1, 3])

    with tf.variable_scope('self'):
        scores = tf.matmul(heads('query'), heads('key'), transpose_b=True) / np.sqrt(float(width))
        scores += (1.0 - tf.to_float(tf.expand_dims(tf.expand_dims(mask, 1), 1))) * -10000.0
        context = tf.transpose(tf.matmul(tf.nn.softmax(scores), heads('value')), [0, 2, 1, 3])
    return tf.reshape(context, [-1, LENGTH, config.hidden_size])


class BertModel(object):
    def __init__(self, config, is_training, input_ids, input_mask, scope=None):
        dropout = config.hidden_dropout_prob if is_training else 0.0
        with tf.variable_scope(scope, default_name='bert'):
            table = tf.get_variable(
                'word_embeddings', [VOCAB, config.hidden_size], initializer=tf.truncated_normal_initializer(stddev=0.02)
            )
            hidden = layer_norm_and_dropout(tf.nn.embedding_lookup(table, input_ids), dropout)
            with tf.variable_scope('layer_0'):
                hidden = layer_norm_and_dropout(hidden + attention(config, hidden, input_mask), dropout)
            with tf.variable_scope('pooler'):
                self.pooled_output = tf.layers.dense(hidden[:, 0], config.hidden_size, activation=tf.tanh)


class AdamWeightDecayOptimizer(tf.train.Optimizer):
    def __init__(self, learning_rate, weight_decay_rate, exclude_from_weight_decay, name='AdamWeightDecayOptimizer'):
        super(AdamWeightDecayOptimizer, self).__init__(False, name)
        self.learning_rate = learning_rate
        self.weight_decay_rate = weight_decay_rate
        self.exclude_from_weight_decay = exclude_from_weight_decay

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        assignments = []
        for grad, param in grads_and_vars:
            if grad is None or param is None:
                continue
            param_name = re.match('^(.*):\\d+$', param.name).group(1)
            m, v = (
                tf.get_variable(
                    param_name + slot,
                    shape=param.shape.as_list(),
                    dtype=tf.float32,
                    trainable=False,
                    initializer=tf.zeros_initializer(),
                )
                for slot in ('/adam_m', '/adam_v')
            )
            next_m = tf.multiply(0.9, m) + tf.multiply(0.1, grad)
            next_v = tf.multiply(0.999, v) + tf.multiply(0.001, tf.square(grad))
            update = next_m / (tf.sqrt(next_v) + 1e-6)
            if not any(re.search(r, param_name) for r in self.exclude_from_weight_decay):
                update += self.weight_decay_rate * param
            assignments.extend([param.assign(param - self.learning_rate * update), m.assign(next_m), v.assign(next_v)])
        return tf.group(*assignments, name=name)


def create_optimizer(loss, init_lr, num_train_steps, use_tpu):
    global_step = tf.train.get_or_create_global_step()
    learning_rate = tf.train.polynomial_decay(init_lr, global_step, num_train_steps, end_learning_rate=0.0)
    optimizer = AdamWeightDecayOptimizer(learning_rate, 0.01, ['LayerNorm', 'layer_norm', 'bias'])
    if use_tpu:
        optimizer = tf.contrib.tpu.CrossShardOptimizer(optimizer)
    tvars = tf.trainable_variables()
    grads, _ = tf.clip_by_global_norm(tf.gradients(loss, tvars), clip_norm=1.0)
    train_op = optimizer.apply_gradients(zip(grads, tvars), global_step=global_step)
    return tf.group(train_op, [global_step.assign(global_step + 1)])


def model_fn_builder(bert_config, learning_rate, num_train_steps, use_tpu):
    def model_fn(features, labels, mode, params):
        for name in sorted(features.keys()):
            tf.logging.info('  name = %s, shape = %s' % (name, features[name].shape))
        is_training = mode == tf.estimator.ModeKeys.TRAIN
        model = BertModel(bert_config, is_training, features['input_ids'], features['input_mask'])
        logits = tf.layers.dense(model.pooled_output, LABELS, name='logits')
        probabilities = tf.nn.softmax(logits, axis=-1)
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.contrib.tpu.TPUEstimatorSpec(mode=mode, predictions={'probabilities': probabilities})
        label_ids = features['label_ids']
        one_hot_labels = tf.one_hot(label_ids, depth=LABELS, dtype=tf.float32)
        per_example_loss = -tf.reduce_sum(one_hot_labels * tf.nn.log_softmax(logits, axis=-1), axis=-1)
        loss = tf.reduce_mean(per_example_loss)
        if is_training:
            train_op = create_optimizer(loss, learning_rate, num_train_steps, use_tpu)
            return tf.contrib.tpu.TPUEstimatorSpec(mode=mode, loss=loss, train_op=train_op)

        def metric_fn(per_example_loss, label_ids, logits):
            predictions = tf.argmax(logits, axis=-1, output_type=tf.int32)
            return {
                'eval_accuracy': tf.metrics.accuracy(labels=label_ids, predictions=predictions),
                'eval_loss': tf.metrics.mean(values=per_example_loss),
            }

        return tf.contrib.tpu.TPUEstimatorSpec(
            mode=mode, loss=loss, eval_metrics=(metric_fn, [per_example_loss, label_ids, logits])
        )

    return model_fn


def write_examples(output_file, count):
    writer = tf.python_io.TFRecordWriter(output_file)
    rng = np.random.RandomState(0)
    for _ in range(count):
        ids = rng.randint(2, VOCAB, size=LENGTH).astype(np.int)
        label = int(ids[0] >= VOCAB // 2)
        features = collections.OrderedDict()
        for name, values in (('input_ids', ids), ('input_mask', [1] * LENGTH), ('label_ids', [label])):
            features[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=list(values)))
        writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    writer.close()


def input_fn_builder(input_file, is_training):
    name_to_features = {
        'input_ids': tf.FixedLenFeature([LENGTH], tf.int64),
        'input_mask': tf.FixedLenFeature([LENGTH], tf.int64),
        'label_ids': tf.FixedLenFeature([], tf.int64),
    }

    def decode_record(record):
        example = tf.parse_single_example(record, name_to_features)
        return {name: tf.to_int32(tensor) for name, tensor in example.items()}

    def input_fn(params):
        d = tf.data.TFRecordDataset(input_file)
        if is_training:
            d = d.repeat().shuffle(buffer_size=100, seed=1)
        return d.apply(
            tf.contrib.data.map_and_batch(decode_record, batch_size=params['batch_size'], drop_remainder=is_training)
        )

    return input_fn


def serving_input_fn():
    features = {name: tf.placeholder(tf.int32, [None, LENGTH], name=name) for name in ('input_ids', 'input_mask')}
    return tf.estimator.export.build_raw_serving_input_receiver_fn(features)()


def main(_):
    tf.logging.set_verbosity(tf.logging.ERROR)
    assert LooseVersion(tf.VERSION) > '1.10' and not tf.executing_eagerly()
    assert isinstance(tf.constant(1), ops.Tensor) and isinstance({}, collections.Mapping)
    tf.gfile.MakeDirs(FLAGS.output_dir)
    config_file = os.path.join(FLAGS.output_dir, 'bert_config.json')
    with tf.gfile.Open(config_file, 'w') as f:
        f.write(json.dumps({'hidden_size': 16}))
    train_file = os.path.join(FLAGS.output_dir, 'train.tf_record')
    write_examples(train_file, 64)
    tpu_cluster_resolver = None
    if FLAGS.use_tpu and FLAGS.tpu_name:
        tpu_cluster_resolver = tf.contrib.cluster_resolver.TPUClusterResolver(FLAGS.tpu_name)
    run_config = tf.contrib.tpu.RunConfig(
        cluster=tpu_cluster_resolver,
        model_dir=FLAGS.output_dir,
        tf_random_seed=1,
        save_checkpoints_steps=100,
        tpu_config=tpu_config.TPUConfig(
            iterations_per_loop=5, per_host_input_for_training=tf.contrib.tpu.InputPipelineConfig.PER_HOST_V2
        ),
    )
    estimator = tf.contrib.tpu.TPUEstimator(
        use_tpu=FLAGS.use_tpu,
        model_fn=model_fn_builder(BertConfig.from_json_file(config_file), 3e-3, FLAGS.num_train_steps, FLAGS.use_tpu),
        config=run_config,
        train_batch_size=16,
        eval_batch_size=16,
        predict_batch_size=16,
    )
    if FLAGS.do_train:
        estimator.train(input_fn=input_fn_builder(train_file, True), max_steps=FLAGS.num_train_steps)
    result = estimator.evaluate(input_fn=input_fn_builder(train_file, False), steps=None)
    predictions = list(estimator.predict(input_fn=input_fn_builder(train_file, False)))
    estimator._export_to_tpu = False
    export_dir = estimator.export_savedmodel(os.path.join(FLAGS.output_dir, 'export'), serving_input_fn)
    names = [name for name, _ in tf.train.list_variables(FLAGS.output_dir)]
    print(
        json.dumps(
            {
                'global_step': int(result['global_step']),
                'eval_loss': float(result['eval_loss']),
                'predictions': len(predictions),
                'exported': sorted(tf.gfile.ListDirectory(export_dir)),
                'layer_norms': [name for name in names if name.endswith('gamma')],
                'learned': len(names) - len([name for name in names if 'adam_' in name]),
            }
        )
    )


if __name__ == '__main__':
    flags.mark_flag_as_required('output_dir')
    tf.app.run()
