"""Trains on one device, then from the same checkpoint on one and on two; says which models' variables do not part.

Then evaluates that on one device and on two, in other batches, of which some are empty; says whose metrics agree.

A program of its own, for TensorFlow takes its number of logical devices before it does anything else. Usage:

    python -m tests.model_fns.mirrored DIRECTORY MODEL ...
"""

import shutil
import sys
import traceback

import gin
import numpy as np

from estimator_trainer.compat import exact_evaluation, tf
from model_fns.convolutional import conv_model_fn
from model_fns.deep import dnn_model_fn, wide_deep_model_fn
from model_fns.dense import dense_model_fn
from model_fns.interactions import dcn_model_fn, deepfm_model_fn
from model_fns.keras_adapter import dense_network, keras_model_fn
from model_fns.linear import linear_model_fn
from model_fns.residual import residual_model_fn
from model_fns.text import bag_of_embeddings_model_fn, transformer_model_fn

GLOBAL_BATCH = 8
TABULAR = """
    feature_description.features = {
        'x': {'normalize': [0.5, 2.0]},
        'y': {'boundaries': [-1.0, 0.0, 1.0]},
        'word': {'vocabulary': ['a', 'b'], 'embedding_size': 3},
        'number': {'num_buckets': 4},
    }
    feature_description.crosses = {'both': {'of': ['word', 'number'], 'hash_buckets': 7}}
"""
TEXT = "feature_description.features = {'text': {'hash_buckets': 50, 'embedding_size': 4}}"
LABEL = {
    'binary': "feature_description.label = {'label': {'num_buckets': 2}}",
    'classes': "feature_description.label = {'label': {'num_buckets': 3}}",
    'number': "feature_description.label = {'label': {}}",
}
ALL = 'optimization.l2 = 0.1\noptimization.weight_decay = 0.1\noptimization.clip_norm = 0.5'
SCHEDULE = "optimization.schedule = 'cosine'\noptimization.decay_steps = 5\noptimization.warmup_steps = 2"
MOMENTUM = 'optimization.optimizer = @MomentumOptimizer\nMomentumOptimizer.momentum = 0.9'
IMAGE = {'height': 4, 'width': 4, 'max_value': 1.0}
# Name -> model_fn, its parameters, bindings. Without shifts and dropout, which no two graphs draw alike.
MODELS = {
    'dense': (dense_model_fn, {'inputs': {'x': (0.5, 2.0), 'y': (0.0, 1.0)}, 'n_classes': 3}, []),
    'conv': (conv_model_fn, {**IMAGE, 'n_classes': 3, 'filters': [4, 8]}, []),
    'linear': (linear_model_fn, {}, [TABULAR, LABEL['number'], 'optimization.l2 = 0.1', SCHEDULE]),
    'dnn': (dnn_model_fn, {'hidden_units': [4]}, [TABULAR, LABEL['classes'], ALL, SCHEDULE]),
    'wide_deep': (wide_deep_model_fn, {'hidden_units': [4]}, [TABULAR, LABEL['binary'], ALL]),
    'deepfm': (deepfm_model_fn, {'embedding_size': 3, 'hidden_units': [4]}, [TABULAR, LABEL['binary'], ALL]),
    'dcn': (dcn_model_fn, {'rank': 2, 'hidden_units': [4]}, [TABULAR, LABEL['classes'], ALL, MOMENTUM]),
    'residual': (residual_model_fn, {**IMAGE, 'n_classes': 3, 'filters': [4, 8]}, [ALL]),
    'bag': (bag_of_embeddings_model_fn, {'ngrams': 2}, [TEXT, LABEL['classes'], ALL]),
    'transformer': (
        transformer_model_fn,
        {'encoder_layers': 1, 'heads': 2, 'inner_size': 4, 'dropout': 0.0},
        [TEXT, LABEL['classes'], ALL],
    ),
    'keras': (keras_model_fn, {'network': dense_network}, [TABULAR, LABEL['binary'], ALL, 'dense_network.l2 = 0.1']),
}


def input_fn(input_context=None):
    replicas = input_context.num_replicas_in_sync if input_context else 1
    return dataset().repeat().batch(GLOBAL_BATCH // replicas)


def dataset():
    random = np.random.default_rng(1)
    values = random.normal(size=(64, 18)).astype(np.float32)
    features = {
        'x': values[:, 0],
        'y': values[:, 1],
        'image': values[:, 2:].reshape(64, 4, 4, 1),
        'word': random.choice(['a', 'b', 'c'], 64).tolist(),
        'number': random.integers(-1, 5, 64),
        'text': [' '.join(map(str, random.integers(0, 30, random.integers(0, 9)))) for _ in range(64)],
    }
    # As numbers, labels of regression, they are as good as any.
    labels = random.integers(0, 2, 64).astype(np.int32)
    return tf.data.Dataset.from_tensor_slices((features, labels))


def estimator_of(name, model_dir, strategy=None, kind=tf.estimator.Estimator):
    # Without two CPU devices of the session too, the second replica waits for ever.
    devices = tf.compat.v1.ConfigProto(device_count={'CPU': 2}, allow_soft_placement=True)
    config = tf.estimator.RunConfig(
        tf_random_seed=1, train_distribute=strategy, eval_distribute=strategy, session_config=devices
    )
    model, arguments, _ = MODELS[name]

    # Not converted, as in the framework: that takes seconds.
    unconverted = tf.autograph.experimental.do_not_convert(model)

    def model_fn(features, labels, mode):
        return unconverted(features, labels, mode, **arguments)

    tf.keras.utils.set_random_seed(1)
    return kind(model_fn, model_dir, config)


def two_replicas():
    return tf.distribute.MirroredStrategy(['/cpu:0', '/cpu:1'], cross_device_ops=tf.distribute.ReductionToOneDevice())


def train(name, model_dir, max_steps, strategy=None):
    estimator = estimator_of(name, model_dir, strategy)
    estimator.train(input_fn, max_steps=max_steps)
    return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}


def compare(name, directory):
    one, two = f'{directory}/{name}/one', f'{directory}/{name}/two'
    gin.clear_config()
    gin.parse_config('\n'.join(MODELS[name][2]))
    train(name, one, 1)
    shutil.copytree(one, two)
    want, got = train(name, one, 6), train(name, two, 6, two_replicas())
    assert set(want) == set(got), (want.keys(), got.keys())
    assert want['global_step'] == 6
    for variable in want:
        np.testing.assert_allclose(got[variable], want[variable], rtol=1e-4, atol=1e-5, err_msg=variable)


def evaluate(name, directory):
    def batches_of(size):
        return lambda mode, params, config, input_context=None: dataset().batch(size)

    found = []
    for size, strategy in ((64, None), (7, None), (5, two_replicas())):
        estimator = estimator_of(name, f'{directory}/{name}/one', strategy, exact_evaluation.Estimator)
        if strategy is not None:
            assert (why := estimator.effect_of_replicas(batches_of(size))) is None, why
        metrics = estimator.evaluate(batches_of(size))
        del metrics['loss']  # That Estimator means over batches; the framework reports another.
        found.append(metrics)
    for metrics in found[1:]:
        assert set(metrics) == set(found[0])
        for metric, want in found[0].items():
            np.testing.assert_allclose(metrics[metric], want, rtol=1e-5, err_msg=metric)


def main():
    (cpu,) = tf.config.list_physical_devices('CPU')
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    gin.external_configurable(tf.compat.v1.train.MomentumOptimizer, 'MomentumOptimizer')
    for name in sys.argv[2:]:
        try:
            compare(name, sys.argv[1])
            evaluate(name, sys.argv[1])
            print(f'{name}: equal', flush=True)
        except Exception:
            traceback.print_exc()


if __name__ == '__main__':
    main()
