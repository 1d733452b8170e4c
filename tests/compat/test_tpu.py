"""TPUEstimator works without a TPU, and says at once what it cannot do."""

import csv
import time
from pathlib import Path

import numpy as np
import pytest

import input_fns
from estimator_trainer.compat import internals, requirements, tf
from estimator_trainer.errors import UserError

needs_bridge = pytest.mark.skipif(not requirements.check().bridge, reason='this TensorFlow has all of TPUEstimator')

tf1 = tf.compat.v1
tpu = tf1.estimator.tpu
PENGUINS = Path(input_fns.__file__).parent / 'data' / 'penguins'
SPECIES = ['Adelie', 'Chinstrap', 'Gentoo']
INPUTS = {'bill_length_mm': (44.0, 5.4), 'bill_depth_mm': (17.2, 2.0), 'flipper_length_mm': (201.1, 14.0)}


def penguins(name):
    with open(PENGUINS / name) as file:
        rows = list(csv.DictReader(file))
    x = [[(float(row[key]) - mean) / scale for key, (mean, scale) in INPUTS.items()] for row in rows]
    return np.array(x, np.float32), np.array([SPECIES.index(row['species']) for row in rows], np.int32)


def train_input_fn(params):
    x, species = penguins('train.csv')
    dataset = tf.data.Dataset.from_tensor_slices(({'x': x}, species))
    return dataset.shuffle(len(x), seed=1).repeat().batch(params['batch_size'], drop_remainder=True)


def eval_input_fn(params):
    x, species = penguins('eval.csv')
    return tf.data.Dataset.from_tensor_slices(({'x': x}, species)).batch(params['batch_size'])


def model_fn(features, labels, mode, params):
    logits = tf1.layers.dense(tf1.layers.dense(features['x'], 16, tf.nn.relu), len(SPECIES))
    probabilities = tf.nn.softmax(logits)
    if mode == tf.estimator.ModeKeys.PREDICT:
        outputs = {'serving_default': tf.estimator.export.PredictOutput({'probabilities': probabilities})}
        return tpu.TPUEstimatorSpec(mode, predictions={'probabilities': probabilities}, export_outputs=outputs)
    loss = tf1.losses.sparse_softmax_cross_entropy(labels, logits)
    optimizer = tf1.train.AdamOptimizer(0.02)
    if params['use_tpu']:
        optimizer = tf1.tpu.CrossShardOptimizer(optimizer)
    return tpu.TPUEstimatorSpec(
        mode,
        loss=loss,
        train_op=optimizer.minimize(loss, tf1.train.get_global_step()),
        eval_metrics=(accuracy_fn, [labels, logits]),
        host_call=(lambda step: [step], [tf.reshape(tf1.train.get_global_step(), [1])]),
    )


def accuracy_fn(labels, logits):
    return {'accuracy': tf1.metrics.accuracy(labels, tf.argmax(logits, -1))}


def serving_input_receiver_fn():
    x = tf1.placeholder(tf.float32, [None, len(INPUTS)], 'x')
    return tf.estimator.export.ServingInputReceiver({'x': x}, {'x': x})


def make_estimator(model_dir, use_tpu, **run_config):
    config = tpu.RunConfig(
        model_dir=str(model_dir),
        tf_random_seed=1,
        tpu_config=tpu.TPUConfig(iterations_per_loop=10),
        **run_config,
    )
    return tpu.TPUEstimator(
        model_fn,
        config=config,
        use_tpu=use_tpu,
        params={'use_tpu': use_tpu},
        train_batch_size=32,
        eval_batch_size=16,
        predict_batch_size=16,
    )


def test_trains_evaluates_predicts_and_exports_without_a_tpu(tmp_path):
    estimator = make_estimator(tmp_path / 'model', use_tpu=False)
    estimator.train(train_input_fn, max_steps=100)
    metrics = estimator.evaluate(eval_input_fn)
    predicted = np.array([one['probabilities'] for one in estimator.predict(eval_input_fn)])
    path = estimator.export_saved_model(str(tmp_path / 'export'), serving_input_receiver_fn)

    x, species = penguins('eval.csv')
    assert metrics['global_step'] == 100
    assert metrics['accuracy'] > 0.9
    assert (predicted.argmax(axis=-1) == species).mean() == pytest.approx(metrics['accuracy'])
    # The other graph of the two that are exported is for a TPU.
    served = tf.saved_model.load(path, tags='serve').signatures['serving_default'](x=tf.constant(x))
    assert served['probabilities'].numpy() == pytest.approx(predicted, abs=1e-6)


@pytest.mark.parametrize('use', ['train', 'evaluate', 'predict'])
def test_no_tpu(tmp_path, use):
    estimator = make_estimator(tmp_path, use_tpu=True)
    uses = {
        'train': lambda: estimator.train(train_input_fn, max_steps=10),
        'evaluate': lambda: estimator.evaluate(eval_input_fn, steps=1),
        'predict': lambda: next(estimator.predict(eval_input_fn)),
    }
    started = time.monotonic()
    with pytest.raises(RuntimeError, match='Cannot find any TPU cores'):
        uses[use]()
    assert time.monotonic() - started < 30


@needs_bridge
def test_a_master_that_does_not_answer(tmp_path, monkeypatch):
    assert internals.tpu_system_metadata._PINGING_MASTER_TIMEOUT_IN_MS == 60_000
    monkeypatch.setattr(internals.tpu_system_metadata, '_PINGING_MASTER_TIMEOUT_IN_MS', 2000)
    estimator = make_estimator(tmp_path, use_tpu=True, master='grpc://127.0.0.1:1')
    started = time.monotonic()
    with pytest.raises(ValueError, match=r'TPU worker may not be ready .* got \(grpc://127\.0\.0\.1:1\)'):
        estimator.train(train_input_fn, max_steps=10)
    assert time.monotonic() - started < 30


COLUMN = tf.feature_column.embedding_column(tf.feature_column.categorical_column_with_identity('id', 10), 4)


@needs_bridge
@pytest.mark.parametrize(
    'arguments, want_name',
    [
        ({'feature_columns': [COLUMN], 'optimization_parameters': object()}, 'ProximalAdagradParameters'),
        ({'feature_columns': [COLUMN]}, 'ProximalAdagradParameters'),
        ({'feature_to_config_dict': {'id': object()}, 'table_to_config_dict': {'id': object()}}, 'FeatureConfig'),
    ],
)
def test_tpu_embeddings_are_gone(arguments, want_name):
    with pytest.raises(UserError) as error:
        tpu.experimental.EmbeddingConfigSpec(**arguments)
    assert str(error.value) == (
        f'tensorflow.python.tpu.tpu_embedding.{want_name} is gone: TensorFlow 2.15 was the last with it'
    )
